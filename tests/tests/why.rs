//! Planted causes: `why` ranks each first, with the time that it took by the load's own clock, and the
//! components add up.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use wakelat_tests::{
    attached_typed, machine, procfs,
    quota::{PERIOD_US, QuotaGroup},
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    task::{Policy, TaskPlacement},
    wakelat::{AttachCase, Wakelat, command},
    why::{
        assert_due, assert_first, assert_longest_first, assert_not_planted, component, culprit, document, due, ended,
        list, number, waits_with, why,
    },
    workload::{BehindHog, CrossWake, Hogs, Performance, Planted, PlantedCause, Sleeper, Workload, until},
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        a_hog_of_a_higher_class_causes_the_wait_behind_it,
        a_hog_of_the_same_priority_is_not_a_higher_one,
        a_task_above_all_others_waits_for_none_of_them,
        two_tasks_in_turn_each_have_their_share,
        a_migrated_wait_is_explained_on_either_cpu,
        a_softirq_is_separated_from_the_task_that_it_interrupts,
        an_interrupt_is_separated_from_the_task_that_it_interrupts,
        on_an_idle_cpu_no_task_is_in_the_way,
        a_wakeup_from_another_cpu_has_a_delivery,
        a_wakeup_sent_to_a_cpu_waits_until_it_takes_interrupts,
        throttling_by_quota_is_separated_from_queueing,
        preemptions_on_other_cpus_are_left_out,
        each_switch_continues_the_previous_one_of_its_cpu,
    ]
}

fn behind_hog(sleeper: Policy) -> Workload {
    Workload::BehindHog(BehindHog { rounds: 60, spin_ns: SPIN_NS, cpu: machine::one_cpu(), sleeper })
}

const SPIN_NS: u64 = 3_000_000;

/// The kernel's name for the interrupt of a CPU's timer: a vector on x86, the handler of an interrupt on arm64.
const TIMER_INTERRUPT: &str = if cfg!(target_arch = "aarch64") { "arch_timer" } else { "local_timer" };

/// Number of timers whose interrupt takes some ms.
const TIMERS: u64 = 10_000;

/// What starts the clock, where a test does not depend on it.
const STARTS: [&str; 2] = ["waking", "queued"];

/// The result of `why` for the wakeups of the only waiting task, and what the load does.
fn planted(attach: AttachCase, rounds: u64, cpu: usize, cause: PlantedCause) -> (Value, Performance) {
    planted_from(attach, "waking", rounds, cpu, cause)
}

/// Does the same, with another start of the clock.
fn planted_from(attach: AttachCase, from: &str, rounds: u64, cpu: usize, cause: PlantedCause) -> (Value, Performance) {
    let mut staged = Workload::Planted(Planted { rounds, cpu, cause }).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let why = why(attach, &["--tid", &tid, "--class", "wakeup", "--from", from]);
    let performance = staged.perform();
    (ended(why, "wakeup"), performance)
}

fn a_hog_of_a_higher_class_causes_the_wait_behind_it(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Other).stage();
    let why = why(attach, &["--tid", &staged.tid("wl-sleeper").to_string(), "--class", "wakeup"]);
    let performance = staged.perform();
    let wakeups = ended(why, "wakeup");
    assert_first(&wakeups, "higher", "wl-hog");
    assert!(number(&wakeups["count"]) <= performance.wakeups(), "{wakeups}");
    let mut due = due(&wakeups, &performance, "wl-hog");
    // An invisible task may run before the sleeper, even an ordinary one: its time is attributed to the
    // task seen last.
    due.most_ns += performance.hidden_ns;
    assert_due("wl-hog", culprit(&wakeups, "higher", "wl-hog"), due, &wakeups);
    assert_not_planted(&wakeups, "higher");
    assert_eq!(wakeups["migrated"], 0, "{wakeups}");
    Ok(())
}

fn a_hog_of_the_same_priority_is_not_a_higher_one(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Fifo(50)).stage();
    let why = why(attach, &["--tid", &staged.tid("wl-sleeper").to_string(), "--class", "wakeup"]);
    let performance = staged.perform();
    let wakeups = ended(why, "wakeup");
    assert_first(&wakeups, "same", "wl-hog");
    let due = due(&wakeups, &performance, "wl-hog");
    assert_due("wl-hog", culprit(&wakeups, "same", "wl-hog"), due, &wakeups);
    assert_eq!(culprit(&wakeups, "higher", "wl-hog"), 0, "{wakeups}");
    Ok(())
}

fn a_task_above_all_others_waits_for_none_of_them(attach: AttachCase) -> TestOutcome {
    let mut staged = behind_hog(Policy::Other).stage();
    let why = why(attach, &["--tid", &staged.tid("wl-hog").to_string(), "--class", "wakeup"]);
    staged.perform();
    let document = document(why);
    let wakeups = &document["classes"][0];
    assert_eq!(component(wakeups, "throttled"), 0, "{wakeups}");
    for culprit in list(&wakeups["culprits"]) {
        assert!(culprit["component"] == "lower" || culprit["name"] != "wl-sleeper", "{culprit} in {wakeups}");
    }
    Ok(())
}

fn two_tasks_in_turn_each_have_their_share(attach: AttachCase) -> TestOutcome {
    for from in STARTS {
        let cause = PlantedCause::InTurn { spins_ns: [4_000_000, 8_000_000], turns: 2, victim: Policy::Fifo(10) };
        let (wakeups, performance) = planted_from(attach, from, 10, machine::one_cpu(), cause);
        assert_longest_first(&wakeups, "higher", &performance);
        for name in performance.reported.took.keys() {
            let due = due(&wakeups, &performance, name);
            assert_due(name, culprit(&wakeups, "higher", name), due, &wakeups);
        }
        assert_not_planted(&wakeups, "higher");
    }
    Ok(())
}

fn a_migrated_wait_is_explained_on_either_cpu(attach: AttachCase) -> TestOutcome {
    let [cpu, to] = machine::two_cpus()?;
    let cause = PlantedCause::Migrated { to, spins_ns: [6_000_000, 12_000_000] };
    let (wakeups, performance) = planted(attach, 10, cpu, cause);
    assert_longest_first(&wakeups, "higher", &performance);
    assert_eq!(wakeups["migrated"], wakeups["count"], "{wakeups}");
    for name in performance.reported.took.keys() {
        let due = due(&wakeups, &performance, name);
        assert_due(name, culprit(&wakeups, "higher", name), due, &wakeups);
    }
    assert_not_planted(&wakeups, "higher");
    Ok(())
}

fn a_softirq_is_separated_from_the_task_that_it_interrupts(attach: AttachCase) -> TestOutcome {
    for from in STARTS {
        let cause = PlantedCause::Softirq { receivers: 2_000, for_ns: SPIN_NS };
        let (wakeups, performance) = planted_from(attach, from, 20, machine::one_cpu(), cause);
        assert_first(&wakeups, "softirq", "NET_RX");
        assert_due("NET_RX", culprit(&wakeups, "softirq", "NET_RX"), due(&wakeups, &performance, "send"), &wakeups);
        assert_not_planted(&wakeups, "softirq");
    }
    Ok(())
}

fn an_interrupt_is_separated_from_the_task_that_it_interrupts(attach: AttachCase) -> TestOutcome {
    if machine::is_preempt_rt() {
        return Err(Skip::because("with PREEMPT_RT, timers of user space expire in a thread and not in the interrupt"));
    }
    let (wakeups, performance) = planted(attach, 12, machine::one_cpu(), PlantedCause::Timers { timers: TIMERS });
    assert_first(&wakeups, "irq", TIMER_INTERRUPT);
    let due = due(&wakeups, &performance, "interrupt");
    assert_due(TIMER_INTERRUPT, culprit(&wakeups, "irq", TIMER_INTERRUPT), due, &wakeups);
    assert_eq!(culprit(&wakeups, "softirq", "NET_RX"), 0, "{wakeups}");
    Ok(())
}

fn on_an_idle_cpu_no_task_is_in_the_way(attach: AttachCase) -> TestOutcome {
    let cpu = machine::one_cpu();
    let mut staged =
        Workload::Sleeper(Sleeper { rounds: 200, sleep_ns: 2_000_000, place: TaskPlacement::fifo(cpu) }).stage();
    let why = why(attach, &["--tid", &staged.tid("wl-sleeper").to_string(), "--class", "wakeup"]);
    let before_ns = machine::idle_ns(cpu);
    let performance = staged.perform();
    let idle_ns = machine::idle_ns(cpu) - before_ns;
    let wakeups = ended(why, "wakeup");
    assert!(number(&wakeups["count"]) <= performance.wakeups(), "{wakeups}");
    let waits = waits_with(&wakeups, "idle");
    let by_cpu = ["placement", "ipi", "idle", "irq", "softirq"].map(|name| component(&wakeups, name));
    let (by_cpu_ns, all_ns) = (by_cpu.iter().sum::<u64>(), number(&wakeups["sum_ns"]));
    println!("\n  idle for {idle_ns} of {} ns: {waits} of {} waits", performance.duration_ns, performance.wakeups());
    println!("  no task in the way: {by_cpu_ns} of {all_ns} ns");
    // Idle at least half as often as the kernel's idle time suggests, if the CPU was idle most of the
    // time: short idle times, a few ticks in the kernel's accounting, are no fair sample of the wakeups.
    let was_idle = idle_ns * 2 > performance.duration_ns;
    let due = u128::from(performance.wakeups()) * u128::from(idle_ns) / u128::from(performance.duration_ns) / 2;
    assert!(!was_idle || u128::from(waits) >= due, "{waits} of {due} waits for the way out of idle: {wakeups}");
    if machine::has_own_time() && idle_ns * 10 > performance.duration_ns * 9 {
        // The load has no other task. Others on an emulated machine are the reader and, every ten seconds, the one that
        // makes huge pages; elsewhere, any of the kernel's threads can hold the CPU for ms.
        let foreign_ns = if machine::is_emulated() {
            ["wakelat", "khugepaged"].map(|name| culprit(&wakeups, "lower", name)).iter().sum()
        } else {
            component(&wakeups, "lower").min(all_ns / 4)
        };
        let others_ns = all_ns - foreign_ns;
        assert!(by_cpu_ns * 2 > others_ns - component(&wakeups, "stolen"), "tasks were in the way: {wakeups}");
        assert!(!machine::is_emulated() || by_cpu_ns * 20 >= others_ns * 19, "tasks were in the way: {wakeups}");
    }
    Ok(())
}

fn a_wakeup_from_another_cpu_has_a_delivery(attach: AttachCase) -> TestOutcome {
    let cpus = machine::two_cpus()?;
    let mut staged = Workload::CrossWake(CrossWake { rounds: 200, cpus }).stage();
    let wakee = staged.tid("wl-wakee").to_string();
    let there = why(attach, &["--tid", &wakee, "--class", "wakeup", "--cpus", &cpus[1].to_string()]);
    let here = why(attach, &["--tid", &wakee, "--class", "wakeup", "--cpus", &cpus[0].to_string()]);
    staged.perform();
    for (class, is_other) in [(ended(there, "wakeup"), true), (ended(here, "wakeup"), false)] {
        let (placement, ipi) = (waits_with(&class, "placement"), waits_with(&class, "ipi"));
        println!(
            "\n  from the {} CPU: {placement} placed, {ipi} by an interrupt",
            if is_other { "other" } else { "same" }
        );
        assert_eq!(placement + ipi, number(&class["count"]), "{class}");
        assert!(is_other || ipi == 0, "no CPU interrupts itself: {class}");
    }
    Ok(())
}

fn a_wakeup_sent_to_a_cpu_waits_until_it_takes_interrupts(attach: AttachCase) -> TestOutcome {
    if machine::is_preempt_rt() {
        return Err(Skip::because(
            "with PREEMPT_RT, timers of user space expire in a thread, in which a CPU takes interrupts",
        ));
    }
    if machine::is_emulated() {
        return Err(Skip::because("emulated CPUs run in turn: none wakes a task while another one is in an interrupt"));
    }
    let [from, cpu] = machine::two_cpus()?;
    let deaf = Planted { rounds: 33, cpu, cause: PlantedCause::InterruptsOff { from, timers: TIMERS } };
    let mut staged = Workload::Planted(deaf).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let ring_size = machine::ring_size();
    let whose = ["trace", "--json", "--breakdown", "--tid", &tid, "--class", "wakeup", "--from", "waking"];
    let how = ["--ring-size", &ring_size, "--attach", attach.name()];
    let trace = Wakelat::measuring(command(&[&whose[..], &how].concat()));
    let before_ns = machine::idle_ns(cpu);
    let Performance { reported: known, duration_ns, .. } = staged.perform();
    let idle_ns = machine::idle_ns(cpu) - before_ns;
    let waits = trace.waits();
    let mut sent = 0;
    for (round, least) in known.took["interrupt"].iter().enumerate() {
        let (began_ns, most_ns) = (known.began_ns[round], known.waits_ns[round]);
        let Some(wait) = waits.iter().find(|wait| (began_ns..=began_ns + most_ns).contains(&wait.at_ns)) else {
            continue;
        };
        let ipi_ns = wait.components["ipi"];
        println!("  {} to {most_ns} ns by the load: {ipi_ns} of {} ns by wakelat", least.least_ns, wait.latency_ns);
        assert!(wait.latency_ns <= most_ns, "the load knows of {most_ns} ns: {wait:?}");
        // If another task has that CPU, the waker itself puts this one on its run queue, and sends no interrupt.
        if ipi_ns > 0 {
            sent += 1;
            // If one interrupt of the timers ends before all of them have expired, the CPU handles the
            // wakeup there, and the rest of the wait is the next timer interrupt. The load does not know what the
            // hypervisor took of it.
            let by_cpu = ["ipi", "idle", "irq", "stolen"].map(|name| wait.components[name]);
            let found_ns = by_cpu.iter().sum::<u64>();
            assert!(found_ns >= least.least_ns, "the CPU was in an interrupt for {} ns: {wait:?}", least.least_ns);
        }
    }
    if idle_ns * 3 < duration_ns {
        return Err(Skip::because("other tasks ran on the CPU: no interrupt is sent to a CPU that is not idle"));
    }
    // The CPU was idle for a third of the time or more: the probability that it was idle at no more
    // than two of 33 independent instants is less than one in a thousand.
    assert!(sent >= 3, "{sent} of {} wakeups were sent: {waits:?}", known.waits_ns.len());
    Ok(())
}

fn throttling_by_quota_is_separated_from_queueing(attach: AttachCase) -> TestOutcome {
    let limited = QuotaGroup::to_percent(10)?;
    let supervised = Supervisor::now();
    let mut staged = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
    limited.add_process(staged.pid());
    let both = STARTS.map(|from| why(attach, &["--comm", "wl-hog", "--class", "preempted", "--from", from]));
    staged.begin();
    until("the group has been out of quota often enough", || limited.throttled().0 >= 30);
    // Now each of its waits ends, once its task runs again.
    let hogs = procfs::pids_named("wl-hog");
    assert!(!hogs.is_empty(), "the hogs are processes");
    limited.remove_quota();
    let (_, by_kernel_ns) = limited.throttled();
    for (hog, ran_ns) in hogs.iter().map(|hog| (*hog, procfs::ran_ns(*hog))) {
        until("a task of the group runs again", || procfs::ran_ns(hog) > ran_ns);
    }
    let both = both.map(|why| ended(why, "preempted"));
    drop(staged);
    // A wait whose end is not seen is at most as long as a period of the quota.
    let unseen_ns = (Supervisor::now() - supervised).switch_ins() * PERIOD_US * 1_000;
    let tolerated_ns = by_kernel_ns / if machine::is_emulated() { 20 } else { 200 } + unseen_ns;
    for (from, preempted) in STARTS.into_iter().zip(both) {
        let by_why_ns = component(&preempted, "throttled");
        println!("\n  throttled from {from}: {by_why_ns} of {by_kernel_ns} ns by cpu.stat, at most {unseen_ns} unseen");
        assert!(
            by_why_ns.abs_diff(by_kernel_ns) <= tolerated_ns,
            "from {from}, {by_why_ns} of {by_kernel_ns}: {}",
            preempted["components"]
        );
    }
    Ok(())
}

fn preemptions_on_other_cpus_are_left_out(attach: AttachCase) -> TestOutcome {
    let cpus = machine::two_cpus()?;
    // A task of a higher class takes its CPU from the hogs there, again and again.
    let mut staged = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
    let on = |cpu: usize| why(attach, &["--comm", "wl-hog", "--class", "preempted", "--cpus", &cpu.to_string()]);
    let (first, last) = (on(cpus[0]), on(cpus[1]));
    staged.begin();
    let place = TaskPlacement::fifo(cpus[1]);
    let mut above = Workload::Sleeper(Sleeper { rounds: 200, sleep_ns: 1_000_000, place }).stage();
    above.perform();
    drop((above, staged));
    let taken = |document: &Value| -> u64 {
        let its = list(&document["preemptions"]).iter();
        let its = its.filter(|chain| chain["from"] == "wl-hog" && chain["to"] == "wl-sleeper");
        its.map(|chain| number(&chain["count"])).sum()
    };
    let (first, last) = (document(first), document(last));
    assert_eq!(taken(&first), 0, "{first}");
    assert!(taken(&last) > 0, "{last}");
    Ok(())
}

/// Checks the stream that all of this is computed from: each CPU's switches form a chain, and breaks in
/// it are reported.
fn each_switch_continues_the_previous_one_of_its_cpu(attach: AttachCase) -> TestOutcome {
    // A short load, because everything else on the machine is reported as well.
    let load = BehindHog { rounds: 100, spin_ns: 100_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let ring_size = machine::ring_size();
    let arguments =
        ["trace", "--all", "--json", "--include-self", "--ring-size", &ring_size, "--attach", attach.name()];
    let trace = Wakelat::measuring(command(&arguments));
    staged.perform();
    trace.signal(nix::sys::signal::Signal::SIGINT);
    let ended = trace.end();
    assert!(ended.status.success(), "{ended:#?}");
    let mut last: HashMap<u64, (u64, u64)> = HashMap::new();
    let (mut switches, mut broken) = (0, 0);
    // CPUs whose events were lost because the reader did not run for too long.
    let mut lost_on = HashSet::new();
    for line in ended.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        if event["schema"] != "wakelat.event/1" {
            continue;
        }
        let cpu = number(&event["cpu"]);
        match event["event"].as_str() {
            Some("switch") => {
                let at_ns = number(&event["at_ns"]);
                if let Some((tid, switched_in_ns)) = last.insert(cpu, (number(&event["next_tid"]), at_ns)) {
                    assert_eq!(event["tid"], tid, "{line}");
                    assert_eq!(event["run_ns"], at_ns - switched_in_ns, "{line}");
                }
                switches += 1;
            }
            Some("unseen") => {
                match last.remove(&cpu) {
                    Some((tid, _)) => assert_eq!(event["switched_in_tid"], tid, "{line}"),
                    None => assert!(lost_on.contains(&cpu), "no task had been switched in: {line}"),
                }
                broken += 1;
            }
            Some("lost") => {
                last.remove(&cpu);
                lost_on.insert(cpu);
            }
            _ => {}
        }
    }
    println!("\n  {switches} switches, {broken} times with unseen ones in between");
    assert!(switches > 200 && broken * 10 < switches, "{broken} of {switches}");
    Ok(())
}
