//! The sums of causes that the kernel counts are complete: they are the kernel's own account of each thread, also where
//! tables and histories end, and `why`'s two modes agree.

use std::ops::RangeInclusive;

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    account::Account,
    attached_typed,
    cause_document::{cause, collected_alike, counted, document, is_not_separated, switch_ins, waited_for},
    competing_threads::{CompetingThread, accounts, pinned},
    machine,
    packet_flood::PacketFlood,
    procfs,
    spinner::Spinner,
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    task::Policy,
    wakelat::AttachCase,
    why::{culprit, ended, list, number, why},
    workload::{BehindHog, Performance, Planted, PlantedCause, Renamed, TimeBounds, Workload, until},
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        causes_add_up_to_the_run_delay_of_threads,
        groups_without_room_are_one_that_is_not_divided,
        pairs_without_room_are_drawn_together,
        the_part_of_a_wait_before_the_history_is_a_cause_of_its_own,
        a_long_wait_of_an_ordinary_task_is_divided_into_its_causes,
        the_part_of_an_ordinary_tasks_wait_before_the_history_is_a_cause_of_its_own,
        softirqs_of_ksoftirqd_are_its_own_time,
        both_modes_divide_a_wait_behind_a_higher_class_alike,
        both_modes_divide_a_wait_behind_the_same_class_alike,
        both_modes_divide_a_wait_behind_two_tasks_alike,
    ]
}

/// Groups for which the kernel's tables have room: a hash map, and in front of it a table of each CPU, in which not every
/// place may be taken (docs/why.md).
fn groups_with_room() -> RangeInclusive<u64> {
    4_096..=4_096 + (800 / machine::cpus().len() as u64).max(8)
}

/// The same for pairs.
fn pairs_with_room() -> RangeInclusive<u64> {
    16_384..=16_384 + (4_700 / machine::cpus().len() as u64).max(128)
}

/// Slices of a CPU that are kept (docs/why.md).
const HISTORY: u64 = 511;

/// The last of them, to which the history of a task that is not of the fair class is limited (docs/why.md).
const WALKED: u64 = 64;

/// The sum of all causes, as far as docs/queue-clock.md says that `run_delay` has it: ns.
fn accounted(document: &Value) -> Account {
    let terms = switch_ins(document);
    let measured_ns: u64 = list(&document["causes"]).iter().map(|one| number(&one["sum_ns"])).sum();
    Account {
        waits: terms.measured + terms.unknown_start + terms.after_unseen + terms.unseen,
        waited_ns: measured_ns + terms.unknown_ns + terms.unseen_ns,
        ..Account::default()
    }
}

fn causes_add_up_to_the_run_delay_of_threads(attach: AttachCase) -> TestOutcome {
    let workers = pinned("wl-causes");
    let before = accounts(&workers);
    let wakelat = counted(attach, &["--comm", "wl-causes", "--by", "comm"]);
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
    let document = document(wakelat);
    (accounts(&workers) - before).assert_is(accounted(&document), &switch_ins(&document));
    println!("\n  {}", document["causes"]);
    // They are more than the CPUs, so they wait for each other.
    assert!(waited_for(&document, "own_group", "wl-causes") > 0, "{document}");
    Ok(())
}

/// Counts the causes of one of two tasks that run in turn while one of them changes its name. Checks that they are the
/// kernel's account of that task.
fn renamed(attach: AttachCase, rounds: u64, waiting: &str) -> Value {
    let mut staged = Workload::Renamed(Renamed { rounds, cpu: machine::one_cpu() }).stage();
    let tid = staged.tid(waiting);
    let before = Account::of(tid);
    let wakelat = counted(attach, &["--tid", &tid.to_string(), "--class", "wakeup,new,preempted", "--by", "comm"]);
    // The reader would empty the tables each second.
    wakelat.signal(Signal::SIGSTOP);
    staged.perform();
    wakelat.signal(Signal::SIGCONT);
    let document = document(wakelat);
    (Account::of(tid) - before).assert_is(accounted(&document), &switch_ins(&document));
    document
}

fn groups_without_room_are_one_that_is_not_divided(attach: AttachCase) -> TestOutcome {
    let with_room = groups_with_room();
    let rounds = with_room.end() + 1_000;
    let document = renamed(attach, rounds, "wl-renamed");
    let named = list(&document["groups"]).iter().filter(|group| !group["group"].is_null()).count() as u64;
    let tracked = named + number(&document["groups_merged"]);
    assert!(with_room.contains(&tracked), "{tracked} groups: {}", document["coverage"]);
    let rest = list(&document["groups"]).iter().find(|group| group["group"].is_null());
    let rest = rest.unwrap_or_else(|| panic!("all groups have names: {}", document["coverage"]));
    let untracked_ns = cause(&document, "untracked_group");
    println!("\n  {named} groups have names; {untracked_ns} of {} ns without a group", document["sum_ns"]);
    assert!(untracked_ns > 0 && untracked_ns <= number(&rest["sum_ns"]), "{rest}");
    // Every other wait is behind the only other task.
    assert!(waited_for(&document, "other_groups", "wl-waiter") > 0, "{}", document["causes"]);
    assert_eq!(document["pairs_lost"], 0, "{}", document["causes"]);
    Ok(())
}

fn pairs_without_room_are_drawn_together(attach: AttachCase) -> TestOutcome {
    let with_room = pairs_with_room();
    let rounds = with_room.end() + 1_000;
    let document = renamed(attach, rounds, "wl-waiter");
    // Of the pairs without room, one has the time of all, for each CPU, half and cause.
    let drawn = 2 * 3 * machine::cpus().len() as u64;
    let pairs = list(&document["pairs"]).len() as u64 + number(&document["pairs_rest"]["count"]);
    assert!((*with_room.start()..=with_room.end() + drawn).contains(&pairs), "{pairs} pairs: {}", document["coverage"]);
    let (waits, lost) = (number(&document["waits"]), number(&document["pairs_lost"]));
    println!("\n  {lost} of {waits} waits have no pair of their own; {pairs} pairs");
    // In each round, it waits for a name of its own. Only a wait or a switch that was not seen hides which.
    let of_unseen = list(&document["causes"]).iter().filter(|one| one["cause"] == "unseen");
    let terms = switch_ins(&document);
    let hidden = terms.unknown_start
        + terms.after_unseen
        + terms.unseen
        + of_unseen.map(|one| number(&one["waits"])).sum::<u64>();
    assert!(lost > 0 && lost + hidden + with_room.end() >= rounds, "{lost} of {waits}: {}", document["coverage"]);
    // That none of the time is missing: `document` has checked it.
    assert_eq!(cause(&document, "untracked_group"), 0, "{}", document["causes"]);
    Ok(())
}

fn the_part_of_a_wait_before_the_history_is_a_cause_of_its_own(attach: AttachCase) -> TestOutcome {
    /// Two switches each.
    const TURNS: u64 = 48;
    let in_turn = PlantedCause::InTurn { spins_ns: [1_000_000, 2_000_000], turns: TURNS, victim: Policy::Fifo(10) };
    let mut staged = Workload::Planted(Planted { rounds: 4, cpu: machine::one_cpu(), cause: in_turn }).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let performance = staged.perform();
    let document = document(wakelat);
    let before_ns = cause(&document, "before_history");
    println!("\n  {before_ns} of {} ns are before the history", document["sum_ns"]);
    // The history ends when the first of the two, after the last turn, leaves the CPU to the sleeper: that is one of its
    // slices, and a short one. Before that, each has every second slice, unless other tasks run.
    let kept_of = |name: &str| if name == "wl-first" { WALKED / 2 - 1 } else { WALKED / 2 };
    let rounds = number(&document["waits"]);
    let mut due_before_ns = 0;
    for (name, took) in &performance.reported.took {
        let (found_ns, kept) = (waited_for(&document, "higher", name), kept_of(name));
        let of = |all_ns: u64, turns: u64| all_ns / TURNS * turns;
        let due = TimeBounds::any(rounds, took);
        let (least_ns, most_ns) = (of(due.least_ns, kept), of(due.most_ns, kept));
        println!("  {name}: {found_ns} ns by wakelat; {least_ns} to {most_ns} in {kept} turns");
        due_before_ns += of(due.least_ns, TURNS - kept);
        if machine::has_own_time() {
            assert!(found_ns * 100 <= (most_ns + performance.hidden_ns) * 105, "{name}: {document}");
        }
        // Other tasks make a slice two: each of their switches takes one from the history.
        if machine::is_emulated() {
            assert!(found_ns * 100 >= least_ns * 95, "{name}: {document}");
        }
    }
    let hidden_ns = cause(&document, "stolen") + cause(&document, "unseen");
    assert!((before_ns + hidden_ns) * 100 >= due_before_ns * 95, "{before_ns} of {due_before_ns} ns: {document}");
    Ok(())
}

/// Measures an ordinary task while two real-time tasks run in turn, `turns` times each in each of its waits: two switches
/// a turn.
fn behind_turns(attach: AttachCase, rounds: u64, spins_ns: [u64; 2], turns: u64) -> (Value, Performance) {
    let in_turn = PlantedCause::InTurn { spins_ns, turns, victim: Policy::Other };
    let mut staged = Workload::Planted(Planted { rounds, cpu: machine::one_cpu(), cause: in_turn }).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let performance = staged.perform();
    (document(wakelat), performance)
}

/// How long both tasks of [`behind_turns`] had the CPU during the waits, by the load's own clock.
fn took(document: &Value, performance: &Performance) -> TimeBounds {
    let waits = number(&document["waits"]);
    let took = performance.reported.took.values().map(|took| TimeBounds::any(waits, took));
    took.reduce(|one, other| TimeBounds {
        least_ns: one.least_ns + other.least_ns,
        most_ns: one.most_ns + other.most_ns,
    })
    .expect("two tasks")
}

fn a_long_wait_of_an_ordinary_task_is_divided_into_its_causes(attach: AttachCase) -> TestOutcome {
    let (document, performance) = behind_turns(attach, 4, [1_000_000, 2_000_000], 48);
    let (due, found_ns) = (took(&document, &performance), cause(&document, "higher"));
    // Of the tasks that ran in a wait, one is drawn. Another task of this machine may be.
    let by_name = performance.reported.took.keys().map(|name| waited_for(&document, "higher", name)).sum::<u64>();
    // After the two, the other tasks of a busy machine may switch so often that the history ends within the wait.
    let before_ns = cause(&document, "before_history");
    let hidden_ns = cause(&document, "stolen") + cause(&document, "unseen") + before_ns;
    println!(
        "\n  {found_ns} ns by wakelat, {by_name} of it by name; {} to {} ns by the load",
        due.least_ns, due.most_ns
    );
    assert!((found_ns + hidden_ns) * 100 >= due.least_ns * 95, "{document}");
    assert!(by_name > 0, "{document}");
    if machine::has_own_time() {
        assert!(by_name * 100 <= (due.most_ns + performance.hidden_ns) * 105, "{document}");
    }
    let is_whole = if machine::is_emulated() { before_ns == 0 } else { before_ns * 10 < due.least_ns };
    assert!(is_whole, "{before_ns} ns are before the history: {document}");
    Ok(())
}

fn the_part_of_an_ordinary_tasks_wait_before_the_history_is_a_cause_of_its_own(attach: AttachCase) -> TestOutcome {
    const TURNS: u64 = HISTORY * 3 / 4;
    let (document, performance) = behind_turns(attach, 2, [200_000, 200_000], TURNS);
    let (due, waited_ns) = (took(&document, &performance), number(&document["sum_ns"]));
    let (found_ns, before_ns) = (cause(&document, "higher"), cause(&document, "before_history"));
    // The two tasks run for the same time, so that their slices are alike.
    let in_history = |ns: u64| ns / (2 * TURNS) * HISTORY;
    let due_before_ns = due.least_ns - in_history(due.least_ns);
    println!("\n  {before_ns} of {waited_ns} ns are before the history, {due_before_ns} by the load");
    println!("  {found_ns} ns by wakelat, {} in the history", in_history(waited_ns));
    if machine::has_own_time() {
        assert!(found_ns * 100 <= (in_history(waited_ns) + performance.hidden_ns) * 105, "{document}");
    }
    // Other tasks make a slice two: each of their switches takes one from the history.
    if machine::is_emulated() {
        assert!(found_ns * 100 >= in_history(due.least_ns) * 95, "{document}");
    }
    let hidden_ns = cause(&document, "stolen") + cause(&document, "unseen");
    assert!((before_ns + hidden_ns) * 100 >= due_before_ns * 95, "{before_ns} of {due_before_ns} ns: {document}");
    Ok(())
}

/// The softirqs that `ksoftirqd` runs are no interrupts of it, whether interrupts are traced or the kernel counts them.
fn softirqs_of_ksoftirqd_are_its_own_time(attach: AttachCase) -> TestOutcome {
    const RUN_NS: u64 = 300_000_000;
    let [sending, cpu] = machine::two_cpus()?;
    let name = format!("ksoftirqd/{cpu}");
    let Some(ksoftirqd) = procfs::pids_named(&name).first().copied() else {
        return Err(Skip::because("this machine does not show the threads of the kernel"));
    };
    let flood = PacketFlood::new([sending, cpu])?;
    let spinner = Spinner::new("wl-spinner", cpu);
    let tid = spinner.tid.to_string();
    let whose = ["--tid", &tid, "--class", "wakeup,new,preempted", "--by", "comm"];
    let wakelat = counted(attach, &[&whose[..], &["--collect", "irq"]].concat());
    let supervised = Supervisor::now();
    // Otherwise runnable: it waits whenever `ksoftirqd` runs.
    spinner.begin();
    until("the spinner has run", || procfs::ran_ns(spinner.tid) > 1_000_000);
    let before_ns = procfs::ran_ns(ksoftirqd);
    flood.send_until(|| procfs::ran_ns(ksoftirqd) - before_ns > RUN_NS);
    until("`ksoftirqd` sleeps", || procfs::state(ksoftirqd) == Some('S'));
    let ran_ns = procfs::ran_ns(ksoftirqd) - before_ns;
    // With that, its last wait has ended.
    spinner.finish();
    let hidden_ns = (Supervisor::now() - supervised).ran_ns;
    drop(flood);
    let document = document(wakelat);
    if ran_ns < RUN_NS {
        return Err(Skip::because("the kernel left hardly any softirqs to `ksoftirqd`"));
    }
    let found_ns = waited_for(&document, "kernel_threads", &name);
    let terms = switch_ins(&document);
    // Not its interrupts, which take a hundredth of its time.
    let elsewhere_ns = ["stolen", "unseen", "before_history"].iter().map(|name| cause(&document, name)).sum::<u64>()
        + terms.unknown_ns
        + terms.unseen_ns
        + hidden_ns;
    println!("\n  {name}: {found_ns} ns by wakelat, {ran_ns} by schedstat; {elsewhere_ns} may be elsewhere");
    assert!((found_ns + elsewhere_ns) * 10 >= ran_ns * 9, "{found_ns} of {ran_ns} ns: {document}");
    Ok(())
}

/// Shows the same wakeups with both modes at once, and asserts that both name the same task of the load first and that
/// the share of each differs by at most five percentage points.
///
/// The modes begin at different instants: samples at `sched_wakeup`, after the kernel has put the task on the queue, and
/// aggregation when it reads the queue's clock for that. Both end at the same switch. A wait differs by the time between
/// the two, some µs where each wait takes 3 ms or more. Of the first wait, one mode may know nothing: all rounds of a
/// load are alike, so that shares do not change.
fn assert_alike(attach: AttachCase, load: Workload, [component, in_kernel]: [&str; 2]) {
    let mut staged = load.stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let collect = collected_alike();
    let whose = ["--tid", &tid, "--class", "wakeup"];
    let samples = why(attach, &[&whose[..], &["--from", "wakeup", "--collect", collect]].concat());
    let sums = counted(attach, &[&whose[..], &["--by", "comm"]].concat());
    let performance: Performance = staged.perform();
    let (sums, samples) = (document(sums), ended(samples, "wakeup"));
    assert_eq!(is_not_separated(&sums, "interrupts"), !collect.starts_with("irq"), "{sums}");
    let (all_sums, all_samples) = (number(&sums["sum_ns"]) as f64, number(&samples["sum_ns"]) as f64);
    let mut shares: Vec<(f64, f64, &str)> = Vec::new();
    for name in performance.reported.took.keys() {
        let in_sums = waited_for(&sums, in_kernel, name) as f64 / all_sums;
        let in_samples = culprit(&samples, component, name) as f64 / all_samples;
        println!("  {name}: {:.2} % aggregated, {:.2} % of samples", in_sums * 100.0, in_samples * 100.0);
        // A task that no instrument sees is `unseen` in one mode, and part of the task before it in the other.
        let hidden = (performance.hidden_ns + cause(&sums, "unseen")) as f64 / all_sums.min(all_samples);
        assert!((in_sums - in_samples).abs() <= 0.05 + hidden, "{name}: {sums} and {samples}");
        shares.push((in_sums, in_samples, name));
    }
    let first = |of: fn(&(f64, f64, &str)) -> f64| {
        shares.iter().max_by(|a, b| of(a).total_cmp(&of(b))).map(|(_, _, name)| (*name).to_owned())
    };
    assert_eq!(first(|share| share.0), first(|share| share.1), "{shares:?}");
    assert_eq!(sums["pairs"][0]["running"].as_str(), first(|share| share.0).as_deref(), "{sums}");
    assert_eq!(sums["pairs"][0]["cause"], in_kernel, "{sums}");
}

fn behind_hog(sleeper: Policy) -> Workload {
    Workload::BehindHog(BehindHog { rounds: 40, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper })
}

fn both_modes_divide_a_wait_behind_a_higher_class_alike(attach: AttachCase) -> TestOutcome {
    assert_alike(attach, behind_hog(Policy::Other), ["higher", "higher"]);
    Ok(())
}

fn both_modes_divide_a_wait_behind_the_same_class_alike(attach: AttachCase) -> TestOutcome {
    assert_alike(attach, behind_hog(Policy::Fifo(50)), ["same", "other_groups"]);
    Ok(())
}

fn both_modes_divide_a_wait_behind_two_tasks_alike(attach: AttachCase) -> TestOutcome {
    let cause = PlantedCause::InTurn { spins_ns: [4_000_000, 8_000_000], turns: 2, victim: Policy::Fifo(10) };
    let load = Planted { rounds: 8, cpu: machine::one_cpu(), cause };
    assert_alike(attach, Workload::Planted(load), ["higher", "higher"]);
    Ok(())
}
