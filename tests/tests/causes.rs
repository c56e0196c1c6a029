//! Planted causes, counted in the kernel: `why --mode aggregate` ranks each first, with the time that it took by the
//! load's own clock, agrees with `why`'s other mode, and its causes add up.

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached_typed,
    cgroup::{Hierarchy, TestCgroup},
    machine, procfs,
    quota::{PERIOD_US, QuotaGroup},
    suite::{self, TestOutcome},
    supervisor::Supervisor,
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    why::{culprit, ended, list, number, why},
    workload::{BehindHog, Hogs, Performance, Planted, PlantedCause, TimeBounds, Workload, until},
};

fn main() {
    suite::main(attached_typed![
        a_task_of_a_higher_class_is_the_first_cause_in_both_modes,
        a_task_of_the_same_cgroup_is_the_first_cause,
        a_task_of_a_neighbour_cgroup_is_the_first_cause,
        a_task_of_another_name_is_the_first_cause,
        two_tasks_in_turn_each_have_their_share_by_name,
        throttling_is_what_the_kernel_counts,
    ]);
}

const SPIN_NS: u64 = 3_000_000;

fn behind_hog(sleeper: Policy) -> Workload {
    Workload::BehindHog(BehindHog { rounds: 60, spin_ns: SPIN_NS, cpu: machine::one_cpu(), sleeper })
}

/// Starts `wakelat why --mode aggregate --json` with `arguments`, and returns once it measures.
fn counted(attach: AttachCase, arguments: &[&str]) -> Wakelat {
    let all = ["why", "--mode", "aggregate", "--json", "--attach", attach.name()];
    Wakelat::measuring(command(&[&all[..], arguments].concat()))
}

/// Ends the run as Ctrl-C does, and returns its document. Checks that all causes add up, and that each wait that was
/// measured is divided.
fn document(wakelat: Wakelat) -> Value {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {ended:?}"));
    assert_eq!(document["schema"], "wakelat.why-causes/1");
    for waits in std::iter::once(&document).chain(list(&document["groups"])) {
        let sum: u64 = list(&waits["causes"]).iter().map(|one| number(&one["sum_ns"])).sum();
        assert_eq!(sum, number(&waits["sum_ns"]), "the causes do not add up: {waits}");
    }
    assert_eq!(document["waits"], document["coverage"]["switch_ins"]["measured"], "{document}");
    document
}

/// The time of a cause: ns.
fn cause(document: &Value, name: &str) -> u64 {
    list(&document["causes"]).iter().find(|one| one["cause"] == name).map_or(0, |one| number(&one["sum_ns"]))
}

/// The time that tasks waited for `running`, for this cause: ns.
fn waited_for(document: &Value, cause: &str, running: &str) -> u64 {
    let of = list(&document["pairs"]).iter().filter(|pair| pair["cause"] == cause && pair["running"] == running);
    of.map(|pair| number(&pair["sum_ns"])).sum()
}

/// Asserts that of what the load does, `name` has the most time, and the time by its own clock: at most 5 % less and, on
/// a machine that has its CPUs for itself, 5 % more. Stolen time passed on the load's clock as well.
fn assert_named(document: &Value, cause_name: &str, name: &str, performance: &Performance) {
    let TimeBounds { least_ns, most_ns } =
        TimeBounds::any(number(&document["waits"]), &performance.reported.took[name]);
    let (found_ns, stolen_ns) = (waited_for(document, cause_name, name), cause(document, "stolen"));
    // An unseen switch away from the hog, while it had the CPU, hides whose time it was.
    let unseen_ns = cause(document, "unseen");
    println!(
        "\n  {name}: {found_ns} ns by wakelat, {stolen_ns} stolen, {unseen_ns} unseen; {least_ns} to {most_ns} by its own clock"
    );
    assert!(
        (found_ns + stolen_ns + unseen_ns) * 100 >= least_ns * 95,
        "{name}: {found_ns} of {least_ns} ns: {document}"
    );
    let hidden_ns = performance.hidden_ns;
    if machine::has_own_time() {
        assert!(found_ns * 100 <= (most_ns + hidden_ns) * 105, "{name}: {found_ns} of {most_ns} ns: {document}");
    }
}

fn a_task_of_a_higher_class_is_the_first_cause_in_both_modes(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Other).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let timeline = why(attach, &["--tid", &tid, "--class", "wakeup", "--from", "wakeup"]);
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let performance = staged.perform();
    let document = document(wakelat);
    let wakeups = ended(timeline, "wakeup");
    assert_named(&document, "higher", "wl-hog", &performance);
    let (by_sums, by_timeline) = (waited_for(&document, "higher", "wl-hog"), culprit(&wakeups, "higher", "wl-hog"));
    println!("  {by_sums} ns by sums, {by_timeline} ns by the timeline");
    // The first wait of the sleeper may be in one of the modes only: its switch-out was not seen.
    let longest = performance.reported.took["wl-hog"].iter().map(|took| took.most_ns).max().unwrap_or_default();
    let tolerated = by_timeline / 20 + longest + performance.hidden_ns;
    assert!(!machine::has_own_time() || by_sums.abs_diff(by_timeline) <= tolerated, "{document} and {wakeups}");
    Ok(())
}

fn a_task_of_the_same_cgroup_is_the_first_cause(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("own");
    // Real-time tasks of the same priority: neither is of a higher class.
    let mut staged = behind_hog(Policy::Fifo(50)).stage();
    ["wl-sleeper", "wl-hog"].iter().for_each(|task| group.add_process(staged.tid(task)));
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "cgroup"]);
    let performance = staged.perform();
    let document = document(wakelat);
    let least_ns = TimeBounds::any(number(&document["waits"]), &performance.reported.took["wl-hog"]).least_ns;
    let own_ns = cause(&document, "own_group") + cause(&document, "stolen") + cause(&document, "unseen");
    assert!(own_ns * 100 >= least_ns * 95, "{own_ns} of {least_ns} ns: {document}");
    assert_eq!(document["groups"][0]["group"].as_str(), Some(&*name_of(&group)), "{document}");
    Ok(())
}

fn a_task_of_a_neighbour_cgroup_is_the_first_cause(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let (own, neighbour) = (hierarchy.group("waits"), hierarchy.group("runs"));
    let mut staged = behind_hog(Policy::Fifo(50)).stage();
    own.add_process(staged.tid("wl-sleeper"));
    neighbour.add_process(staged.tid("wl-hog"));
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "cgroup"]);
    let performance = staged.perform();
    let document = document(wakelat);
    let least_ns = TimeBounds::any(number(&document["waits"]), &performance.reported.took["wl-hog"]).least_ns;
    let found_ns = waited_for(&document, "other_groups", &name_of(&neighbour));
    let hidden_ns = cause(&document, "stolen") + cause(&document, "unseen");
    assert!((found_ns + hidden_ns) * 100 >= least_ns * 95, "{found_ns} of {least_ns} ns: {document}");
    assert_eq!(document["pairs"][0]["waiting"].as_str(), Some(&*name_of(&own)), "{document}");
    Ok(())
}

/// The path of a group below the mount, as wakelat shows it.
fn name_of(group: &TestCgroup) -> String {
    format!("/{}", group.path().file_name().expect("a group has a name").display())
}

fn a_task_of_another_name_is_the_first_cause(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Fifo(50)).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let performance = staged.perform();
    let document = document(wakelat);
    assert_named(&document, "other_groups", "wl-hog", &performance);
    assert_eq!(waited_for(&document, "higher", "wl-hog"), 0, "{document}");
    Ok(())
}

fn two_tasks_in_turn_each_have_their_share_by_name(attach: AttachCase) -> TestOutcome {
    let cause = PlantedCause::InTurn { spins_ns: [4_000_000, 8_000_000], turns: 2 };
    let mut staged = Workload::Planted(Planted { rounds: 10, cpu: machine::one_cpu(), cause }).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let performance = staged.perform();
    let document = document(wakelat);
    for name in performance.reported.took.keys() {
        assert_named(&document, "higher", name, &performance);
    }
    Ok(())
}

fn throttling_is_what_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    let limited = QuotaGroup::to_percent(10)?;
    let supervised = Supervisor::now();
    let mut staged = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
    limited.add_process(staged.pid());
    let wakelat = counted(attach, &["--comm", "wl-hog", "--class", "preempted", "--by", "comm"]);
    staged.begin();
    until("the group has been out of quota often enough", || limited.throttled().0 >= 60);
    let hogs = procfs::pids_named("wl-hog");
    assert!(!hogs.is_empty(), "the hogs are processes");
    limited.remove_quota();
    let (_, by_kernel_ns) = limited.throttled();
    // Now each of its waits ends, once its task runs again.
    for (hog, ran_ns) in hogs.iter().map(|hog| (*hog, procfs::ran_ns(*hog))) {
        until("a task of the group runs again", || procfs::ran_ns(hog) > ran_ns);
    }
    let document = document(wakelat);
    drop(staged);
    let found_ns = cause(&document, "throttled");
    // A wait whose end is not seen is at most as long as a period of the quota.
    let unseen_ns = (Supervisor::now() - supervised).switch_ins() * PERIOD_US * 1_000;
    println!("\n  throttled: {found_ns} ns by wakelat, {by_kernel_ns} by cpu.stat, at most {unseen_ns} unseen");
    assert!(
        found_ns.abs_diff(by_kernel_ns) <= by_kernel_ns / 20 + unseen_ns,
        "{found_ns} of {by_kernel_ns}: {document}"
    );
    Ok(())
}
