//! Groups that the programs count in the kernel: each has exactly the waits of its tasks, and no wait is lost if
//! there are more groups than there is room for.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use wakelat_tests::{
    account::Account,
    attached, attached_typed,
    cgroup::Hierarchy,
    competing_threads::{CompetingThread, THREADS, set_affinity},
    csv_report::CsvReport,
    machine, once, procfs,
    report::{JsonGroup, JsonReport, JsonSwitchIns},
    stress_ng::{self, StressNg},
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    sysctl::Sysctl,
    wakelat::{AttachCase, Wakelat, command},
    workload::{ManyThreads, Messaging, Performance, PingPong, Renamed, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let attached = attached![
        each_thread_has_the_waits_that_the_kernel_counts_for_it,
        each_task_of_a_messaging_load_has_the_waits_that_the_kernel_counts_for_it,
        a_cgroup_has_the_waits_of_its_processes,
        groups_of_the_kernel_have_the_counts_of_those_of_samples,
        waits_without_room_for_their_group_are_other,
        each_window_has_its_own_groups
    ];
    let typed = attached_typed![
        each_task_of_stress_ng_has_the_waits_that_the_kernel_counts,
        each_of_many_threads_has_the_waits_that_the_kernel_counts
    ];
    let once = once![top_needs_samples_only_for_other_keys];
    attached.into_iter().chain(typed).chain(once).collect()
}

const QUEUED: [&str; 4] = ["--from", "queued", "--class", "runqueue"];

fn ping_pong() -> Workload {
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), 500))
}

/// Starts `wakelat hist` with these arguments, by this case.
fn hist(attach: AttachCase, arguments: &[&[&str]]) -> Wakelat {
    Wakelat::hist(attach, &arguments.concat())
}

fn count(report: &JsonReport) -> u64 {
    report.groups.iter().map(|group| group.count).sum()
}

/// Counts by the values of the keys.
fn counts(report: &JsonReport) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for JsonGroup { key, class, count, .. } in &report.groups {
        *counts.entry(format!("{key:?} {class}")).or_default() += count;
    }
    counts
}

fn each_thread_has_the_waits_that_the_kernel_counts_for_it(attach: AttachCase) -> TestOutcome {
    const NAME: &str = "wl-groups";
    // Waits of new threads are known from the first one on. A new thread has its creator's name until it sets its own.
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (answer, answers) = std::sync::mpsc::channel();
    let creator = move || {
        set_affinity([machine::one_cpu()]);
        answer.send((nix::unistd::gettid().as_raw().unsigned_abs(), Vec::new())).expect("the test has the receiver");
        asked.recv().expect("the test asks");
        let workers: Vec<CompetingThread> = (0..THREADS).map(|_| CompetingThread::new(NAME, None)).collect();
        answer.send((0, workers)).expect("the test has the receiver");
        // The thread lives as long as the test.
        _ = asked.recv();
    };
    std::thread::Builder::new().name(NAME.to_owned()).spawn(creator).expect("a thread can be started");
    let (creator, _) = answers.recv().expect("the creator answers");
    until("the creator is blocked", || procfs::is_blocked(creator));
    let (before, supervisor) = (Account::without_hidden_slices(creator), Supervisor::now());
    let wakelat = hist(attach, &[&QUEUED, &["--by", "tid", "--comm", NAME]]);
    // Switches that the machine hides are noticed by the kernel's count of them, from the first one on that is seen. This
    // thread is switched to and from the creator's CPU, before the creator is.
    let visitor = std::thread::spawn(|| set_affinity([machine::one_cpu()]));
    visitor.join().expect("a thread can move to the CPU");
    ask.send(()).expect("the creator is waiting");
    let (_, workers) = answers.recv().expect("the creator answers");
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
    until("the creator is blocked", || procfs::is_blocked(creator));
    let report = wakelat.report();
    let workers: Vec<u32> = workers.iter().map(|worker| worker.tid).collect();
    let of_workers = accounts_of_new(&workers);
    let of_creator = (creator, Account::without_hidden_slices(creator) - before);
    let kernel = of_workers.chain([of_creator]).collect();
    let terms = report.coverage.switch_ins.expect("the queue clock counts switch-ins");
    assert_eq!((report.mode.as_str(), report.coverage.groups_merged), ("aggregate", 0), "{report:#?}");
    assert_has_the_account_of_each(&by_tid(&report), &kernel, &terms, supervisor);
    Ok(())
}

/// The waits of each thread in a report by thread.
fn by_tid(report: &JsonReport) -> BTreeMap<u32, Account> {
    let waits = |group: &JsonGroup| {
        let tid = group.key["tid"].as_u64().and_then(|tid| u32::try_from(tid).ok()).expect("a thread ID");
        (tid, Account { waits: group.count, waited_ns: group.sum_ns, ..Account::default() })
    };
    report.groups.iter().map(waits).collect()
}

/// Asserts that the groups have all waits that the kernel has counted for each of the threads that the filter selects: the
/// terms have all that the groups lack; nothing, if every switch was seen. No group has more. A thread has no group if none
/// of its waits is known. `supervisor`: before the first of these waits.
fn assert_has_the_account_of_each(
    found: &BTreeMap<u32, Account>,
    kernel: &BTreeMap<u32, Account>,
    terms: &JsonSwitchIns,
    supervisor: Supervisor,
) {
    let missing = |(tid, kernel): (&u32, &Account)| {
        let found = found.get(tid).copied().unwrap_or_default();
        let is_part = found.waits <= kernel.waits && found.waited_ns <= kernel.waited_ns;
        assert!(is_part, "thread {tid}: {found:?} of {kernel:?}");
        *kernel - found
    };
    let hidden_slices = (Supervisor::now() - supervisor).switch_ins();
    let missing = Account { hidden_slices, ..kernel.iter().map(missing).sum::<Account>() };
    missing.assert_is(not_in_a_group(terms), terms);
}

/// The accounts of new threads, which must be blocked.
fn accounts_of_new(tids: &[u32]) -> impl Iterator<Item = (u32, Account)> {
    tids.iter().map(|tid| (*tid, Account::without_hidden_slices(*tid)))
}

/// The waits of selected tasks that are in no group.
fn not_in_a_group(terms: &JsonSwitchIns) -> Account {
    Account {
        waits: terms.unknown_start + terms.after_unseen + terms.unseen,
        waited_ns: terms.unknown_ns + terms.unseen_ns,
        ..Account::default()
    }
}

fn each_task_of_a_messaging_load_has_the_waits_that_the_kernel_counts_for_it(attach: AttachCase) -> TestOutcome {
    let tasks = || -> Vec<u32> { ["wl-sender", "wl-receiver"].into_iter().flat_map(procfs::pids_named).collect() };
    until("no task of another load is left", || tasks().is_empty());
    // The tasks begin while wakelat measures, so that all of their waits are known. Each has the name of the load's main
    // task, `wl-main`, until it sets its own.
    let supervisor = Supervisor::now();
    let wakelat = hist(attach, &[&QUEUED, &["--by", "tid", "--comm", "wl-*"]]);
    let load = Messaging { groups: 2, fan: 4, messages: 200 };
    let mut staged = Workload::Messaging(load.clone()).stage();
    let tids = tasks();
    assert_eq!(tids.len(), 2 * load.fan * load.groups);
    staged.perform();
    until("all tasks are blocked", || tids.iter().all(|tid| procfs::is_blocked(*tid)));
    let kernel = accounts_of_new(&tids).chain([(staged.pid(), staged.main_account())]).collect();
    let report = wakelat.report();
    let terms = report.coverage.switch_ins.expect("the queue clock counts switch-ins");
    assert_eq!((report.mode.as_str(), report.coverage.groups_merged), ("aggregate", 0), "{report:#?}");
    assert_has_the_account_of_each(&by_tid(&report), &kernel, &terms, supervisor);
    drop(staged);
    // Only a task that was preempted in a sleeping state and then migrated has a wait with an unknown start.
    assert!(terms.unknown_start < tids.len() as u64 && terms.measured > 100, "{report:#?}");
    Ok(())
}

fn each_task_of_stress_ng_has_the_waits_that_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    let path = StressNg::find()?;
    let supervisor = Supervisor::now();
    // All tasks begin under this name, while wakelat measures.
    let wakelat = hist(attach, &[&QUEUED, &["--by", "tid", "--comm", stress_ng::NAME]]);
    // A task for each of the two CPU hogs, and two tasks that wake each other for each of the two switchers.
    let stress = StressNg::start(&path, &["--cpu", "2", "--switch", "2"], 2 + 2 * 2);
    let waits = || stress.workers().into_iter().map(|tid| Account::of(tid).waits).collect::<Vec<u64>>();
    until("hogs have been preempted, and switchers have woken each other", || {
        let waits = waits();
        waits.iter().all(|waits| *waits >= 20) && waits.iter().sum::<u64>() >= 20_000
    });
    let tids = stress.stop();
    let report = wakelat.report();
    let terms = report.coverage.switch_ins.expect("the queue clock counts switch-ins");
    println!("\n  {} tasks: {terms:?}", tids.len());
    assert_eq!((report.mode.as_str(), report.coverage.groups_merged), ("aggregate", 0), "{report:#?}");
    assert_has_the_account_of_each(&by_tid(&report), &accounts_of_new(&tids).collect(), &terms, supervisor);
    drop(stress);
    assert!(terms.measured > 1_000, "{report:#?}");
    Ok(())
}

fn each_of_many_threads_has_the_waits_that_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    /// Memory for the groups of a thread: its waits in a second are in some octaves of the histogram, on some CPUs.
    const GROUP_BYTES: u64 = 6_000;
    let (load, _mappings) = ManyThreads::with_room(20_000)?;
    let threads = load.threads;
    // A slot for each TID: the start of a wait is unknown if another task of the machine has used the slot meanwhile.
    let slots = Sysctl::get("kernel/pid_max").next_power_of_two().to_string();
    let memory = (threads * GROUP_BYTES).to_string();
    let room = ["--max-groups", "100000", "--group-memory", &memory, "--max-tasks", &slots];
    let arguments = ["hist", "--csv", "--by", "tid", "--comm", "wl-ma*"];
    let supervisor = Supervisor::now();
    // All threads begin under the name of the load's main task, `wl-main`, while wakelat measures.
    let wakelat = Wakelat::measuring(command(&[&arguments[..], &QUEUED, &room, attach.arguments()].concat()));
    let mut staged = Workload::ManyThreads(load).stage();
    staged.perform();
    let tids = procfs::other_threads(staged.pid());
    tids.iter().for_each(|tid| until("all threads are blocked", || procfs::is_blocked(*tid)));
    let kernel = accounts_of_new(&tids).chain([(staged.pid(), staged.main_account())]).collect();
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{}", ended.stderr);
    let CsvReport { by_tid, groups_merged, switch_ins } = CsvReport::parse(&ended.stdout);
    println!("  {switch_ins:?}");
    assert_eq!((tids.len() as u64, groups_merged), (threads, 0));
    assert_has_the_account_of_each(&by_tid, &kernel, &switch_ins, supervisor);
    drop(staged);
    // Each has begun, and was woken once.
    assert!(switch_ins.measured > threads * 3 / 2, "{switch_ins:?}");
    Ok(())
}

fn groups_of_the_kernel_have_the_counts_of_those_of_samples(attach: AttachCase) -> TestOutcome {
    let by = ["--by", "cpu,class,cgroup,pid,tid,comm", "--comm", "wl-p?ng", "--class", "wakeup,new"];
    let mut staged = ping_pong().stage();
    let samples = hist(attach, &[&by, &["--mode", "samples"]]);
    let counted = hist(attach, &[&by, &["--mode", "aggregate"]]);
    let performance = staged.perform();
    let (counted, samples) = (counted.report(), samples.report());
    assert_eq!(samples.mode, "samples");
    counted.coverage.wakeups.assert_complete(performance.wakeups(), &performance);
    if performance.untraced == 0 {
        assert_eq!(counts(&counted), counts(&samples));
    }
    for group in &counted.groups {
        assert_eq!(group.worst.first().map(|wait| wait.latency_ns), Some(group.max_ns), "{group:?}");
    }
    Ok(())
}

/// Each name waits once. Room for names with the least `--group-memory`: an element of the hash map, and the table of the
/// CPU in front of it (docs/semantics.md).
const ROOM: u64 = 1 + 128;

fn waits_without_room_for_their_group_are_other(attach: AttachCase) -> TestOutcome {
    let mut staged = Workload::Renamed(Renamed { rounds: 1_000, cpu: machine::one_cpu() }).stage();
    let tid = staged.tid("wl-renamed");
    let before = Account::of(tid);
    let wakelat = hist(attach, &[&QUEUED, &["--by", "comm", "--tid", &tid.to_string(), "--group-memory", "1"]]);
    // The reader would empty the tables each second.
    wakelat.signal(Signal::SIGSTOP);
    staged.perform();
    wakelat.signal(Signal::SIGCONT);
    let report = wakelat.report();
    let terms = report.coverage.switch_ins.expect("the queue clock counts switch-ins");
    let measured_ns: u64 = report.groups.iter().map(|group| group.sum_ns).sum();
    let accounted = Account {
        waits: count(&report) + terms.unknown_start + terms.after_unseen + terms.unseen,
        waited_ns: measured_ns + terms.unknown_ns + terms.unseen_ns,
        ..Account::default()
    };
    (Account::of(tid) - before).assert_is(accounted, &terms);
    let other: u64 = report.with("comm", "(other)").map(|group| group.count).sum();
    assert_eq!((report.coverage.group_table_full, report.coverage.groups_merged), (other, other), "{report:#?}");
    let named = count(&report) - other;
    assert!((1..=ROOM).contains(&named) && other > 0, "{report:#?}");
    Ok(())
}

/// A performance of a ping-pong in a cgroup, measured with these arguments.
fn in_cgroup(attach: AttachCase, arguments: &[&str]) -> Result<(JsonReport, Performance), Skip> {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("groups");
    let mut staged = ping_pong().stage();
    ["wl-ping", "wl-pong"].iter().for_each(|name| group.add_process(staged.tid(name)));
    let wakelat = hist(attach, &[&["--by", "cgroup,container", "--comm", "wl-p?ng"], arguments]);
    let performance = staged.perform();
    Ok((wakelat.report(), performance))
}

fn a_cgroup_has_the_waits_of_its_processes(attach: AttachCase) -> TestOutcome {
    let (report, performance) = in_cgroup(attach, &[])?;
    report.coverage.wakeups.assert_complete(performance.wakeups(), &performance);
    assert_one_cgroup(&report);
    let (report, _) = in_cgroup(attach, &QUEUED)?;
    let terms = report.coverage.switch_ins.expect("the queue clock counts switch-ins");
    assert_eq!(count(&report), terms.measured);
    assert_one_cgroup(&report);
    Ok(())
}

fn assert_one_cgroup(report: &JsonReport) {
    assert!(count(report) > 0, "{report:#?}");
    for JsonGroup { key, .. } in &report.groups {
        let path = key["cgroup"].as_str().expect("a path");
        assert!(path.ends_with("-groups") && key["container"] == "(none)", "{report:#?}");
    }
}

fn each_window_has_its_own_groups(attach: AttachCase) -> TestOutcome {
    let mut staged = ping_pong().stage();
    let mut arguments = vec!["hist", "--json", "--by", "tid", "--comm", "wl-p?ng", "500ms", "3"];
    arguments.extend(attach.arguments());
    let wakelat = Wakelat::measuring(command(&arguments));
    let performance = staged.perform();
    let reports = wakelat.end().reports();
    // A reader that is late skips intervals, and counts them.
    assert_eq!(reports.iter().map(|report| 1 + report.skipped_intervals).sum::<u64>(), 3, "{reports:?}");
    // The documents of each window are checked when they are read: groups add up to what was measured. No wait is in two
    // windows.
    let measured: u64 = reports.iter().map(count).sum();
    assert!(measured > 0 && measured <= performance.wakeups(), "{measured} of {performance:?}");
    Ok(())
}

fn top_needs_samples_only_for_other_keys() -> TestOutcome {
    for (by, mode) in [(&[][..], "aggregate"), (&["--by", "cgroup"], "aggregate"), (&["--by", "waker"], "samples")] {
        let mut staged = ping_pong().stage();
        let arguments = ["top", "--json", "--comm", "wl-p?ng", "--class", "wakeup"];
        let wakelat = Wakelat::measuring(command(&[&arguments, by].concat()));
        let performance = staged.perform();
        let reports = wakelat.reports();
        let last = reports.last().expect("at least the report of the end");
        assert_eq!(last.mode, mode);
        last.coverage.wakeups.assert_complete(performance.wakeups(), &performance);
    }
    Ok(())
}
