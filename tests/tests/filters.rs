//! A filter applies only to the task that waits.

use wakelat_tests::{
    account::Account,
    accounted_waits::switch_ins,
    attached, attached_every_mode, attached_typed,
    cgroup::Hierarchy,
    machine,
    procfs::{self, TaskStats},
    report::JsonReport,
    suite::{Case, Skip, TestOutcome},
    task::{Policy, TaskPlacement},
    wakelat::{AttachCase, Wakelat},
    workload::{BehindHog, Performance, PingPong, Sleeper, Staged, Workload, until},
};

const ROUNDS: u64 = 1000;

pub fn cases() -> Vec<Case> {
    let counted = attached_every_mode![
        t08_a_wait_below_the_threshold_leaves_nothing_behind,
        without_a_filter_only_wakelats_own_threads_are_excluded,
    ];
    counted
        .into_iter()
        .chain(attached![
            t13_a_cgroup_of_two_that_wake_each_other_has_only_its_own_wakeups,
            t14_a_name_of_two_that_wake_each_other_has_only_its_own_wakeups,
            t15_a_group_made_after_the_start_counts_for_its_parent,
            a_thread_id_selects_one_thread,
            a_process_id_selects_one_process,
            a_priority_selects_its_tasks,
            a_policy_selects_its_tasks,
            a_cpu_selects_the_waits_that_end_on_it,
            a_threshold_lets_exactly_the_longer_waits_through,
            by_the_queue_clock_only_wakelats_own_threads_are_excluded,
        ])
        .chain(attached_typed![
            the_queue_clock_has_every_wait_of_a_cgroup_and_no_other,
            the_queue_clock_has_every_wait_of_a_cpu_and_no_other,
            the_queue_clock_has_every_wait_of_a_priority_and_no_other,
            the_queue_clock_has_every_wait_of_a_policy_and_no_other,
        ])
        .collect()
}

fn ping_pong() -> Workload {
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS))
}

/// What wakelat reports of a ping-pong.
fn filtered(attach: AttachCase, arguments: &[&str]) -> (JsonReport, Performance) {
    let mut staged = ping_pong().stage();
    let wakelat = Wakelat::hist(attach, arguments);
    let performance = staged.perform();
    (wakelat.report(), performance)
}

/// Asserts that `report`, grouped by name, covers only `comm`, and has all of its wakeups.
fn assert_only(report: &JsonReport, performance: &Performance, comm: &str) {
    let (terms, wakeups) = (report.coverage.wakeups, performance.wakeups[comm]);
    assert_eq!(report.with("comm", comm).count(), report.groups.len(), "others than `{comm}`: {report:?}");
    terms.assert_complete(wakeups, performance);
    assert!(terms.begun() <= wakeups, "{terms:?}");
}

/// Asserts that `report`, grouped by name and another key, has `wakeups` of `comm`, possibly among other tasks.
fn assert_among_others(report: &JsonReport, performance: &Performance, comm: &str, wakeups: u64) {
    let found: u64 = report.with("comm", comm).map(|group| group.count).sum();
    assert!((wakeups.saturating_sub(performance.untraced)..=wakeups).contains(&found), "{report:?}");
}

/// The report of a run whose own threads have been woken while it measured.
fn woken(wakelat: Wakelat) -> JsonReport {
    let own = |wakelat: &Wakelat| {
        let threads = procfs::other_threads(wakelat.pid());
        threads.into_iter().chain([wakelat.pid()]).map(|tid| TaskStats::of(tid).voluntary).sum::<u64>()
    };
    let begun = own(&wakelat);
    until("wakelat has been woken", || own(&wakelat) > begun + 1);
    wakelat.report()
}

fn by_the_queue_clock_only_wakelats_own_threads_are_excluded(attach: AttachCase) -> TestOutcome {
    let report = woken(Wakelat::hist(attach, &["--from", "queued", "--class", "runqueue"]));
    let terms = switch_ins(&report);
    assert!(report.coverage.filtered_is_own && (1..=terms.seen).contains(&terms.filtered), "{:?}", report.coverage);
    Ok(())
}

fn without_a_filter_only_wakelats_own_threads_are_excluded(attach: AttachCase) -> TestOutcome {
    let report = woken(Wakelat::hist(attach, &[]));
    let terms = report.coverage.wakeups;
    assert!(report.coverage.filtered_is_own && (1..=terms.seen).contains(&terms.filtered), "{:?}", report.coverage);
    let (report, _) = filtered(attach, &["--comm", "wl-ping"]);
    assert!(!report.coverage.filtered_is_own && report.coverage.wakeups.filtered > 0, "{:?}", report.coverage);
    Ok(())
}

fn t13_a_cgroup_of_two_that_wake_each_other_has_only_its_own_wakeups(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let (ours, theirs) = (hierarchy.group("ours"), hierarchy.group("theirs"));
    for (member, other) in [("wl-ping", "wl-pong"), ("wl-pong", "wl-ping")] {
        let mut staged = ping_pong().stage();
        ours.add_process(staged.tid(member));
        theirs.add_process(staged.tid(other));
        let path = ours.path().to_str().expect("the path is UTF-8");
        let wakelat = Wakelat::hist(attach, &["--by", "comm", "--cgroup", path]);
        let performance = staged.perform();
        assert_only(&wakelat.report(), &performance, member);
    }
    Ok(())
}

fn t14_a_name_of_two_that_wake_each_other_has_only_its_own_wakeups(attach: AttachCase) -> TestOutcome {
    let (report, performance) = filtered(attach, &["--by", "comm", "--comm", "wl-ping"]);
    assert_only(&report, &performance, "wl-ping");
    let (report, performance) = filtered(attach, &["--by", "comm", "--comm", "*-p[!i]ng"]);
    assert_only(&report, &performance, "wl-pong");
    Ok(())
}

fn t15_a_group_made_after_the_start_counts_for_its_parent(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let parent = hierarchy.group("parent");
    let mut staged = ping_pong().stage();
    let path = parent.path().to_str().expect("the path is UTF-8");
    let wakelat = Wakelat::hist(attach, &["--by", "comm", "--cgroup", path]);
    let child = parent.child("child");
    child.add_process(staged.tid("wl-pong"));
    let performance = staged.perform();
    assert_only(&wakelat.report(), &performance, "wl-pong");
    drop(staged);
    Ok(())
}

fn a_thread_id_selects_one_thread(attach: AttachCase) -> TestOutcome {
    let mut staged = ping_pong().stage();
    let tid = staged.tid("wl-pong").to_string();
    let wakelat = Wakelat::hist(attach, &["--by", "comm", "--tid", &tid]);
    let performance = staged.perform();
    assert_only(&wakelat.report(), &performance, "wl-pong");
    Ok(())
}

fn a_process_id_selects_one_process(attach: AttachCase) -> TestOutcome {
    let mut staged = ping_pong().stage();
    let pid = staged.tid("wl-ping").to_string();
    let wakelat = Wakelat::hist(attach, &["--by", "comm", "--pid", &pid]);
    let performance = staged.perform();
    assert_only(&wakelat.report(), &performance, "wl-ping");
    Ok(())
}

/// A sleeper at SCHED_FIFO 33 and a hog at SCHED_FIFO 50.
fn fifo_33() -> Workload {
    let cpu = machine::one_cpu();
    Workload::BehindHog(BehindHog { rounds: 50, spin_ns: 100_000, cpu, sleeper: Policy::Fifo(33) })
}

fn a_priority_selects_its_tasks(attach: AttachCase) -> TestOutcome {
    let mut staged = fifo_33().stage();
    // The kernel's number is 99 minus the user's: MAX_RT_PRIO - 1 - priority (kernel/sched/syscalls.c).
    let wakelat = Wakelat::hist(attach, &["--by", "comm,prio", "--prio", "66"]);
    let performance = staged.perform();
    let report = wakelat.report();
    assert_among_others(&report, &performance, "wl-sleeper", performance.wakeups());
    assert!(report.groups.iter().all(|group| group.key["prio"] == 66), "{report:?}");
    Ok(())
}

fn a_policy_selects_its_tasks(attach: AttachCase) -> TestOutcome {
    let mut staged = fifo_33().stage();
    let wakelat = Wakelat::hist(attach, &["--by", "comm,policy", "--policy", "fifo"]);
    let performance = staged.perform();
    let report = wakelat.report();
    assert_among_others(&report, &performance, "wl-sleeper", performance.wakeups());
    assert_eq!(report.with("comm", "wl-main").count(), 0, "the load's main task is SCHED_OTHER: {report:?}");
    assert!(report.groups.iter().all(|group| group.key["policy"] == report.groups[0].key["policy"]), "{report:?}");
    Ok(())
}

fn a_cpu_selects_the_waits_that_end_on_it(attach: AttachCase) -> TestOutcome {
    let [first, last] = machine::two_cpus()?;
    for cpu in [first, last] {
        let load = Sleeper { rounds: 100, sleep_ns: 500_000, place: TaskPlacement::fifo(last) };
        let mut staged = Workload::Sleeper(load).stage();
        let wakelat = Wakelat::hist(attach, &["--by", "comm,cpu", "--cpus", &cpu.to_string()]);
        let performance = staged.perform();
        let report = wakelat.report();
        let wakeups = if cpu == last { performance.wakeups() } else { 0 };
        assert_among_others(&report, &performance, "wl-sleeper", wakeups);
        assert!(report.with("cpu", if cpu == first { last } else { first }).next().is_none(), "{report:?}");
    }
    Ok(())
}

fn t08_a_wait_below_the_threshold_leaves_nothing_behind(attach: AttachCase) -> TestOutcome {
    // A pending wait that the threshold does not consume shows up as soon as the task waits again: here
    // after a sleep that is longer than the threshold.
    let load = PingPong { sleep_after_ns: 1_500_000_000, ..PingPong::on_one(machine::one_cpu(), 2000) };
    let mut staged = Workload::PingPong(load).stage();
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-p?ng", "--threshold", "1s"]);
    let performance = staged.perform();
    let report = wakelat.report();
    assert!(report.groups.is_empty(), "{report:?}");
    let (terms, wakeups) = (report.coverage.wakeups, performance.wakeups());
    assert_eq!(terms.begun(), terms.missed_switch, "{terms:?}");
    let ended = wakeups.saturating_sub(performance.untraced)..=wakeups;
    assert!(ended.contains(&terms.below_threshold), "{terms:?}, {performance:?}");
    report.assert_nothing_lost(&performance);
    Ok(())
}

fn a_threshold_lets_exactly_the_longer_waits_through(attach: AttachCase) -> TestOutcome {
    let cpu = machine::one_cpu();
    let hog = BehindHog { rounds: 100, spin_ns: 1_000_000, cpu, sleeper: Policy::Fifo(5) };
    let mut staged = Workload::BehindHog(hog).stage();
    // The hog's own waits are short.
    let wakelat = Wakelat::hist(attach, &["--by", "comm", "--comm", "wl-*", "--threshold", "1ms"]);
    let performance = staged.perform();
    let report = wakelat.report();
    // The kernel may also have made it sleep for a lock, which is short.
    let behind_hog = performance.reported.wakeups["wl-sleeper"].saturating_sub(performance.untraced);
    let found: u64 = report.with("comm", "wl-sleeper").map(|group| group.count).sum();
    assert!((behind_hog..=performance.wakeups()).contains(&found), "{behind_hog}: {report:?}");
    assert!(report.groups.iter().all(|group| group.min_ns >= 1_000_000), "{report:?}");
    Ok(())
}

/// What wakelat reports by the queue clock of a performance, and what the kernel counts for these threads meanwhile.
fn by_queue_clock<const N: usize>(
    attach: AttachCase,
    staged: &mut Staged,
    filter: &[&str],
    tids: [u32; N],
) -> (JsonReport, [Account; N]) {
    let before = tids.map(Account::of);
    let wakelat = Wakelat::hist(attach, &[&["--from", "queued", "--class", "runqueue"], filter].concat());
    staged.perform();
    let report = wakelat.report();
    let after = tids.map(Account::of);
    (report, std::array::from_fn(|index| after[index] - before[index]))
}

/// Asserts that a report accounts for all waits of the selected tasks, and counts those of `others` as filtered.
fn assert_selected(report: &JsonReport, selected: Account, others: Account) {
    let terms = switch_ins(report);
    selected.assert_is(Account::in_report(report), &terms);
    assert!(terms.measured > 0 && terms.measured >= selected.waits / 2, "{selected:?}: {terms:?}");
    assert_filtered(report, others);
}

/// Asserts that a report counts all waits of `others` as filtered, except those that the machine hides.
fn assert_filtered(report: &JsonReport, others: Account) {
    let terms = switch_ins(report);
    assert!(others.waits > 0 && terms.filtered + others.hidden_slices >= others.waits, "{others:?}: {terms:?}");
}

fn the_queue_clock_has_every_wait_of_a_cgroup_and_no_other(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let ours = hierarchy.group("queued");
    let mut staged = ping_pong().stage();
    let tids = ["wl-ping", "wl-pong"].map(|name| staged.tid(name));
    ours.add_process(tids[0]);
    let path = ours.path().to_str().expect("the path is UTF-8");
    let (report, [ping, pong]) = by_queue_clock(attach, &mut staged, &["--cgroup", path], tids);
    assert_selected(&report, ping, pong);
    Ok(())
}

fn the_queue_clock_has_every_wait_of_a_cpu_and_no_other(attach: AttachCase) -> TestOutcome {
    let [first, last] = machine::two_cpus()?;
    for cpu in [first, last] {
        let load = Sleeper { rounds: 100, sleep_ns: 500_000, place: TaskPlacement::fifo(last) };
        let mut staged = Workload::Sleeper(load).stage();
        let tids = [staged.tid("wl-sleeper")];
        let filter = ["--comm", "wl-sleeper", "--cpus", &cpu.to_string()];
        let (report, [sleeper]) = by_queue_clock(attach, &mut staged, &filter, tids);
        if cpu == last {
            assert_selected(&report, sleeper, Account { waits: 1, ..Account::default() });
        } else {
            let terms = switch_ins(&report);
            assert_eq!(terms.seen, terms.filtered, "{terms:?}");
            assert_filtered(&report, sleeper);
        }
    }
    Ok(())
}

fn the_queue_clock_has_every_wait_of_a_priority_and_no_other(attach: AttachCase) -> TestOutcome {
    if machine::is_preempt_rt() {
        return Err(Skip::because("a task that holds a lock may have the priority of another"));
    }
    let mut staged = fifo_33().stage();
    let tids = ["wl-sleeper", "wl-hog"].map(|name| staged.tid(name));
    // Other tasks of the machine may have this priority.
    let (report, [sleeper, hog]) = by_queue_clock(attach, &mut staged, &["--prio", "66", "--comm", "wl-*"], tids);
    assert_selected(&report, sleeper, hog);
    Ok(())
}

fn the_queue_clock_has_every_wait_of_a_policy_and_no_other(attach: AttachCase) -> TestOutcome {
    let mut staged = fifo_33().stage();
    let tids = ["wl-sleeper", "wl-hog"].map(|name| staged.tid(name));
    let (report, [sleeper, hog]) = by_queue_clock(attach, &mut staged, &["--policy", "fifo", "--comm", "wl-*"], tids);
    // The load's main task is SCHED_OTHER, and waits at least once.
    assert_selected(&report, sleeper + hog, Account { waits: 1, ..Account::default() });
    Ok(())
}
