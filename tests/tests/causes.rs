//! Planted causes, counted in the kernel: `why --mode aggregate` ranks each first, with the time that it took by the
//! load's own clock, agrees with `why`'s other mode, and its causes add up.

use serde_json::Value;
use wakelat_tests::{
    attached_typed,
    cause_document::{
        assert_first_cause, cause, collected_alike, counted, document, is_not_separated, switch_ins, waited_for,
    },
    cgroup::{Hierarchy, TestCgroup},
    clock::{block_until, now_ns},
    ksm::{self, Ksmd},
    machine::{self, STAT_UNIT_NS},
    procfs,
    quota::{PERIOD_US, QuotaGroup},
    spinner::Spinner,
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    task::Policy,
    wakelat::AttachCase,
    why::{self, WhyRun, assert_first, culprit, ended, list, number, why},
    workload::{
        BehindHog, Hogs, Performance, Planted, PlantedCause, Staged, TimeBounds, WokenTogether, Workload, until,
    },
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        a_task_of_a_higher_class_is_the_first_cause_in_both_modes,
        a_task_of_the_same_cgroup_is_the_first_cause,
        a_task_of_a_neighbour_cgroup_is_the_first_cause,
        a_task_of_another_name_is_the_first_cause,
        two_tasks_in_turn_each_have_their_share_by_name,
        throttling_is_what_the_kernel_counts,
        a_kernel_thread_is_the_first_cause,
        the_exit_from_idle_is_the_first_cause_on_an_idle_cpu,
        interrupts_are_counted_if_the_kernel_does_so,
        a_planted_interrupt_is_the_first_cause_if_interrupts_are_traced,
        stolen_time_is_what_the_kernel_counts,
    ]
}

const SPIN_NS: u64 = 3_000_000;

fn behind_hog(sleeper: Policy) -> Workload {
    Workload::BehindHog(BehindHog { rounds: 60, spin_ns: SPIN_NS, cpu: machine::one_cpu(), sleeper })
}

/// Lets the load perform. Returns how long each of the tasks `names` ran meanwhile by the kernel's account, too: ns.
fn perform<const N: usize>(staged: &mut Staged, names: [&str; N]) -> (Performance, [u64; N]) {
    let tids = names.map(|name| staged.tid(name));
    let before_ns = tids.map(procfs::ran_ns);
    let performance = staged.perform();
    let mut ran_ns = tids.map(procfs::ran_ns);
    ran_ns.iter_mut().zip(before_ns).for_each(|(after_ns, before_ns)| *after_ns -= before_ns);
    (performance, ran_ns)
}

/// Asserts that `name` has, for this cause, the time by its own clock: at most 5 % less and, on a machine that has its
/// CPUs for itself, 5 % more. Stolen time passed on the load's clock as well. The task also ran while it read that
/// clock and went to sleep: it may have all of `ran_ns`, by the kernel's account. Its rank: [`assert_first_cause`].
fn assert_named(document: &Value, cause_name: &str, name: &str, performance: &Performance, ran_ns: u64) {
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
        let most_ns = most_ns.max(ran_ns) + hidden_ns;
        assert!(found_ns * 100 <= most_ns * 105, "{name}: {found_ns} of {most_ns} ns: {document}");
    }
}

/// Measures the same waits in `why`'s other mode, unless its ring buffer can freeze this kernel.
fn sampled(attach: AttachCase, tid: &str, classes: &str) -> Option<WhyRun> {
    let arguments = ["--tid", tid, "--class", classes, "--from", "wakeup", "--collect", collected_alike()];
    (!machine::ring_buffer_may_sleep()).then(|| why(attach, &arguments))
}

/// Asserts that `found_ns` is the same share of the aggregated waits as the task `name`, of the same class, has in the
/// other mode: at most five percentage points apart. A wait at the start or after an unseen switch can be in one mode
/// only; shares stay the same. `hidden_ns` may belong to the task in one mode only.
fn assert_same_share(samples: Option<WhyRun>, name: &str, document: &Value, found_ns: u64, hidden_ns: u64) {
    let Some(samples) = samples.map(why::document) else { return };
    let classes = list(&samples["classes"]);
    let sampled_ns = classes.iter().map(|class| number(&class["sum_ns"])).sum::<u64>() as f64;
    let by_task_ns: u64 = classes.iter().map(|class| culprit(class, "same", name)).sum();
    let all_ns = number(&document["sum_ns"]) as f64;
    let (in_sums, in_samples) = (found_ns as f64 / all_ns, by_task_ns as f64 / sampled_ns);
    let hidden = hidden_ns as f64 / all_ns.min(sampled_ns);
    println!("  {name}: {:.2} % aggregated, {:.2} % of samples", in_sums * 100.0, in_samples * 100.0);
    assert!((in_sums - in_samples).abs() <= 0.05 + hidden, "{name}: {document} and {samples}");
}

fn a_task_of_a_higher_class_is_the_first_cause_in_both_modes(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Other).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let timeline = why(attach, &["--tid", &tid, "--class", "wakeup", "--from", "wakeup"]);
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let before_ns = machine::idle_ns(machine::one_cpu());
    let (performance, [ran_ns]) = perform(&mut staged, ["wl-hog"]);
    let idle_ns = machine::idle_ns(machine::one_cpu()) - before_ns;
    let document = document(wakelat);
    let wakeups = ended(timeline, "wakeup");
    assert_named(&document, "higher", "wl-hog", &performance, ran_ns);
    assert_first(&wakeups, "higher", "wl-hog");
    // The sleeper, an ordinary task, also waits for other ordinary tasks of the machine. The hog is certainly first if,
    // by the kernel's account, everything outside the load had the CPU for less than half of the hog's time.
    let own_ns: u64 = performance.task_stats.values().map(|stats| stats.ran_ns).sum();
    let others_ns = performance.duration_ns.saturating_sub(idle_ns + own_ns) + 2 * STAT_UNIT_NS;
    println!("  {others_ns} ns of the CPU's time at most were outside the load");
    if others_ns * 2 < TimeBounds::any(number(&document["waits"]), &performance.reported.took["wl-hog"]).least_ns {
        assert_first_cause(&document, "higher", "wl-hog", &performance);
    }
    let (by_sums, by_timeline) = (waited_for(&document, "higher", "wl-hog"), culprit(&wakeups, "higher", "wl-hog"));
    println!("  {by_sums} ns by sums, {by_timeline} ns by the timeline");
    // The first wait of the sleeper may be in one of the modes only: its switch-out was not seen. A switch that was not
    // seen hides the hog's slice from the sums, and not from the timeline; so does a wait during which the CPU switched
    // more often than the history of the sums reaches back.
    let longest = performance.reported.took["wl-hog"].iter().map(|took| took.most_ns).max().unwrap_or_default();
    let tolerated = by_timeline / 20
        + longest
        + performance.hidden_ns
        + cause(&document, "unseen")
        + cause(&document, "before_history");
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
    let samples = sampled(attach, &tid, "wakeup");
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "cgroup"]);
    let performance = staged.perform();
    let document = document(wakelat);
    let least_ns = TimeBounds::any(number(&document["waits"]), &performance.reported.took["wl-hog"]).least_ns;
    let own_ns = cause(&document, "own_group");
    let hidden_ns = cause(&document, "stolen") + cause(&document, "unseen");
    assert!((own_ns + hidden_ns) * 100 >= least_ns * 95, "{own_ns} of {least_ns} ns: {document}");
    assert_eq!(document["groups"][0]["group"].as_str(), Some(&*name_of(&group)), "{document}");
    assert_first_cause(&document, "own_group", &name_of(&group), &performance);
    assert_same_share(samples, "wl-hog", &document, own_ns, performance.hidden_ns + cause(&document, "unseen"));
    Ok(())
}

fn a_task_of_a_neighbour_cgroup_is_the_first_cause(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let (own, neighbour) = (hierarchy.group("waits"), hierarchy.group("runs"));
    let mut staged = behind_hog(Policy::Fifo(50)).stage();
    own.add_process(staged.tid("wl-sleeper"));
    neighbour.add_process(staged.tid("wl-hog"));
    let tid = staged.tid("wl-sleeper").to_string();
    let samples = sampled(attach, &tid, "wakeup");
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "cgroup"]);
    let performance = staged.perform();
    let document = document(wakelat);
    let least_ns = TimeBounds::any(number(&document["waits"]), &performance.reported.took["wl-hog"]).least_ns;
    let found_ns = waited_for(&document, "other_groups", &name_of(&neighbour));
    let hidden_ns = cause(&document, "stolen") + cause(&document, "unseen");
    assert!((found_ns + hidden_ns) * 100 >= least_ns * 95, "{found_ns} of {least_ns} ns: {document}");
    assert_first_cause(&document, "other_groups", &name_of(&neighbour), &performance);
    assert_eq!(document["pairs"][0]["waiting"].as_str(), Some(&*name_of(&own)), "{document}");
    assert_same_share(samples, "wl-hog", &document, found_ns, performance.hidden_ns + cause(&document, "unseen"));
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
    let (performance, [ran_ns]) = perform(&mut staged, ["wl-hog"]);
    let document = document(wakelat);
    assert_named(&document, "other_groups", "wl-hog", &performance, ran_ns);
    assert_first_cause(&document, "other_groups", "wl-hog", &performance);
    assert_eq!(waited_for(&document, "higher", "wl-hog"), 0, "{document}");
    Ok(())
}

fn two_tasks_in_turn_each_have_their_share_by_name(attach: AttachCase) -> TestOutcome {
    let cause = PlantedCause::InTurn { spins_ns: [4_000_000, 8_000_000], turns: 2, victim: Policy::Fifo(10) };
    let mut staged = Workload::Planted(Planted { rounds: 10, cpu: machine::one_cpu(), cause }).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    let names = ["wl-first", "wl-second"];
    let (performance, ran_ns) = perform(&mut staged, names);
    let document = document(wakelat);
    for (name, ran_ns) in names.into_iter().zip(ran_ns) {
        assert_named(&document, "higher", name, &performance, ran_ns);
    }
    // It spins for twice as long. Only an emulator that follows the host's time can stretch the other's slices so far.
    let [first, second] =
        names.map(|name| TimeBounds::any(number(&document["waits"]), &performance.reported.took[name]));
    if first.most_ns < second.least_ns {
        assert_first_cause(&document, "higher", "wl-second", &performance);
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
    until("the group has been out of quota often enough", || limited.throttled().0 >= 30);
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
    let tolerated_ns = by_kernel_ns / 20 + unseen_ns;
    // On a machine with many other tasks, the hogs may wait for their turn longer than for their quota.
    if by_kernel_ns.saturating_sub(tolerated_ns) * 2 > number(&document["sum_ns"]) {
        assert_eq!(document["causes"][0]["cause"], "throttled", "{document}");
    }
    assert!(found_ns.abs_diff(by_kernel_ns) <= tolerated_ns, "{found_ns} of {by_kernel_ns}: {document}");
    Ok(())
}

fn a_kernel_thread_is_the_first_cause(attach: AttachCase) -> TestOutcome {
    const RUN_NS: u64 = 400_000_000;
    let cpu = machine::one_cpu();
    let ksmd = Ksmd::on(cpu)?;
    let spinner = Spinner::new("wl-spinner", cpu);
    // All classes: the kernel thread takes locks of the spinner's memory, so that the spinner may block for a moment.
    let (tid, classes) = (spinner.tid.to_string(), "wakeup,new,preempted");
    let samples = sampled(attach, &tid, classes);
    let wakelat = counted(attach, &["--tid", &tid, "--class", classes, "--by", "comm"]);
    let supervised = Supervisor::now();
    // Otherwise runnable, on the only CPU of the kernel thread: it waits whenever that runs.
    spinner.begin();
    until("the spinner has run", || procfs::ran_ns(spinner.tid) > 1_000_000);
    let before_ns = procfs::ran_ns(ksmd.tid);
    ksmd.begin();
    until("the kernel thread has run", || procfs::ran_ns(ksmd.tid) - before_ns > RUN_NS);
    ksmd.stop();
    // With that, its last wait has ended.
    spinner.finish();
    let ran_ns = procfs::ran_ns(ksmd.tid) - before_ns;
    let hidden_ns = (Supervisor::now() - supervised).ran_ns;
    drop(ksmd);
    let document = document(wakelat);
    let found_ns = waited_for(&document, "kernel_threads", ksm::NAME);
    let terms = switch_ins(&document);
    // Time that the kernel does not count as the thread's own, what came before the history where other tasks switch much,
    // and waits that were not measured.
    let elsewhere_ns =
        ["stolen", "interrupts", "unseen", "before_history"].iter().map(|name| cause(&document, name)).sum::<u64>()
            + terms.unknown_ns
            + terms.unseen_ns
            + hidden_ns;
    println!("\n  ksmd: {found_ns} ns by wakelat, {ran_ns} by schedstat; {elsewhere_ns} may be elsewhere");
    assert!(found_ns.abs_diff(ran_ns) <= ran_ns / 20 + elsewhere_ns, "{found_ns} of {ran_ns} ns: {document}");
    let first = &document["pairs"][0];
    assert_eq!((&first["cause"], &first["running"]), (&"kernel_threads".into(), &ksm::NAME.into()), "{document}");
    assert_eq!(document["causes"][0]["cause"], "kernel_threads", "{document}");
    assert_eq!(waited_for(&document, "higher", ksm::NAME) + waited_for(&document, "other_groups", ksm::NAME), 0);
    let in_one_ns = cause(&document, "unseen") + cause(&document, "before_history") + hidden_ns;
    assert_same_share(samples, ksm::NAME, &document, found_ns, in_one_ns);
    Ok(())
}

fn the_exit_from_idle_is_the_first_cause_on_an_idle_cpu(attach: AttachCase) -> TestOutcome {
    let cpu = machine::one_cpu();
    let mut staged = Workload::WokenTogether(WokenTogether { rounds: 100, others: 8, cpu }).stage();
    let sleeper = staged.tid("wl-sleeper");
    let wakelat = counted(attach, &["--tid", &sleeper.to_string(), "--class", "wakeup", "--by", "comm"]);
    let before_ns = machine::idle_ns(cpu);
    let performance = staged.perform();
    let idle_ns = machine::idle_ns(cpu) - before_ns;
    let document = document(wakelat);
    let (waited_ns, by_idle_ns) = (number(&document["sum_ns"]), cause(&document, "idle"));
    println!("\n  idle for {idle_ns} of {} ns: {by_idle_ns} of {waited_ns} ns", performance.duration_ns);
    if idle_ns * 10 < performance.duration_ns * 8 {
        return Err(Skip::because("other tasks had the CPU: it was not idle"));
    }
    if performance.task_stats[&sleeper].run_delay_ns == 0 {
        assert_eq!(waited_ns, 0, "{document}");
        return Err(Skip::because("the kernel's queue clock does not advance while a CPU leaves idle"));
    }
    // A fifth of the wakeups at most meets another task, which belongs to this machine.
    assert!(by_idle_ns > 0, "{document}");
    let by_tasks = |name: &str| list(&document["pairs"]).iter().any(|pair| pair["running"] == name);
    assert!(!by_tasks("wl-other-0") || by_idle_ns > waited_for(&document, "other_groups", "wl-other-0"), "{document}");
    // The load has none of these: they belong to this machine.
    let of_machine: u64 =
        ["interrupts", "stolen", "unseen", "kernel_threads"].iter().map(|name| cause(&document, name)).sum();
    if machine::is_emulated() {
        assert!((by_idle_ns + of_machine) * 100 >= waited_ns * 95, "{by_idle_ns} of {waited_ns} ns: {document}");
    }
    Ok(())
}

fn interrupts_are_counted_if_the_kernel_does_so(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Other).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let wakelat = counted(attach, &["--tid", &tid, "--class", "wakeup", "--by", "comm"]);
    staged.perform();
    let document = document(wakelat);
    let are_counted = machine::has_member("prev_irq_time");
    assert_eq!(is_not_separated(&document, "interrupts"), !are_counted, "{document}");
    assert!(are_counted || cause(&document, "interrupts") == 0, "{document}");
    Ok(())
}

fn a_planted_interrupt_is_the_first_cause_if_interrupts_are_traced(attach: AttachCase) -> TestOutcome {
    if machine::is_preempt_rt() {
        return Err(Skip::because("with PREEMPT_RT, timers of user space expire in a thread and not in the interrupt"));
    }
    if !machine::has_own_time() {
        return Err(Skip::because("an emulator that follows the host's time wakes the load too late for its timers"));
    }
    let cause_planted = PlantedCause::Timers { timers: 10_000 };
    let mut staged = Workload::Planted(Planted { rounds: 12, cpu: machine::one_cpu(), cause: cause_planted }).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let arguments = ["--tid", &tid, "--class", "wakeup", "--by", "comm"];
    let traced = counted(attach, &[&arguments[..], &["--collect", "irq"]].concat());
    let untraced = counted(attach, &arguments);
    let performance = staged.perform();
    let [traced, untraced] = [traced, untraced].map(document);
    assert!(!is_not_separated(&traced, "interrupts"), "{traced}");
    assert_the_interrupt_is_first(&traced, &performance);
    if machine::has_member("prev_irq_time") {
        assert_the_interrupt_is_first(&untraced, &performance);
        return Ok(());
    }
    // What is not counted belongs to the task that it interrupts.
    let due = TimeBounds::any(number(&untraced["waits"]), &performance.reported.took["interrupt"]);
    let of_task_ns = waited_for(&untraced, "higher", "wl-first");
    let hidden_ns = cause(&untraced, "stolen") + cause(&untraced, "unseen");
    println!("\n  not traced: {of_task_ns} ns behind wl-first, {hidden_ns} stolen or unseen");
    assert!((of_task_ns + hidden_ns) * 100 >= due.least_ns * 95, "{of_task_ns} of {due:?}: {untraced}");
    assert_first_cause(&untraced, "higher", "wl-first", &performance);
    Ok(())
}

/// Asserts that interrupts are the first cause, for the time that the planted interrupt took by the load's clock. The task
/// is interrupted for longer than it runs before and after.
fn assert_the_interrupt_is_first(document: &Value, performance: &Performance) {
    let found_ns = cause(document, "interrupts");
    let due = TimeBounds::any(number(&document["waits"]), &performance.reported.took["interrupt"]);
    let hidden_ns = cause(document, "stolen") + cause(document, "unseen");
    println!("\n  {found_ns} ns in interrupts, {hidden_ns} stolen or unseen; {} by the load's clock", due.least_ns);
    assert!((found_ns + hidden_ns) * 100 >= due.least_ns * 95, "{found_ns} of {due:?}: {document}");
    assert!(found_ns * 100 <= (due.most_ns + performance.foreign_ns) * 105, "{found_ns} of {due:?}: {document}");
    assert_eq!(document["causes"][0]["cause"], "interrupts", "{document}");
    let first = &document["pairs"][0];
    assert_eq!((&first["cause"], &first["running"]), (&"higher".into(), &"wl-first".into()), "{document}");
}

fn stolen_time_is_what_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    /// A reading of `/proc/stat` is a unit too low at most, and the kernel adds to it once a tick, which is not longer
    /// than a unit (`HZ` is 100 or more).
    const LATE_NS: u64 = 2 * STAT_UNIT_NS;
    let are_counted = machine::has_member("prev_steal_time_rq") || machine::has_member("prev_steal_time");
    let cpu = machine::one_cpu();
    let (one, other) = (Spinner::new("wl-spinner", cpu), Spinner::new("wl-spinner", cpu));
    let wakelat = counted(attach, &["--comm", "wl-spinner", "--class", "preempted", "--by", "comm"]);
    let stolen_ns = || machine::stolen_ns(cpu);
    let before_ns = stolen_ns();
    // One of the two waits at any time, or both.
    [&one, &other].iter().for_each(|spinner| spinner.begin());
    until("both have run", || [&one, &other].iter().all(|spinner| procfs::ran_ns(spinner.tid) > 1_000_000));
    let begun_ns = stolen_ns();
    block_until(now_ns() + 1_000_000_000);
    let least_ns = stolen_ns() - begun_ns;
    one.finish();
    other.finish();
    let most_ns = stolen_ns() - before_ns;
    let document = document(wakelat);
    let found_ns = cause(&document, "stolen");
    assert_eq!(is_not_separated(&document, "stolen"), !are_counted, "{document}");
    let terms = switch_ins(&document);
    let unknown_ns = terms.unknown_ns + terms.unseen_ns;
    println!("\n  stolen: {found_ns} ns by wakelat, {least_ns} to {most_ns} by the kernel, {unknown_ns} not divided");
    if !are_counted || stolen_ns() == 0 {
        assert_eq!(found_ns, 0, "{document}");
        return Ok(());
    }
    assert!(found_ns <= 2 * (most_ns + LATE_NS), "{found_ns} of {most_ns} ns: {document}");
    assert!(found_ns + unknown_ns + LATE_NS >= least_ns, "{found_ns} of {least_ns} ns: {document}");
    Ok(())
}
