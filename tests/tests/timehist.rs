//! Compares `wakelat trace --all` and `top` with `perf sched timehist` and `latency` in the same window.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use wakelat_tests::{
    attached, attached_typed, machine,
    perf_sched::{PerfSched, PerfTimehistLine},
    suite::{Case, Skip, TestOutcome},
    switches::JsonSwitch,
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, PingPong, Staged, WakeRace, Workload},
};

/// Maximum distance between two clock readings at one event, by two programs on one tracepoint: ns. The
/// other program and any other users of the tracepoint run between them, all with interrupts off: some
/// µs. On virtual machines, about one event in a hundred has 10 to 12 µs, likely because a program that
/// wakes its reader sends an interrupt to its own CPU, for which the guest is left. It is more if a
/// hypervisor takes the CPU at that moment, which [`OUTLIERS`] allows for.
const CLOCK_NS: u64 = 20_000;

/// The same for the mean of many events: ns.
const MEAN_CLOCK_NS: u64 = 10_000;

/// Resolution of perf's output: ns.
const PRINTED_NS: u64 = 1_000;

/// One of this many lines may differ by more.
const OUTLIERS: usize = 100;

pub fn cases() -> Vec<Case> {
    let switches =
        attached_typed![every_switch_matches_a_line_of_perf_timehist, switches_of_preempted_tasks_match_perf_timehist,];
    switches.into_iter().chain(attached![top_finds_the_waits_of_perf_latency]).collect()
}

/// The CPU on which no machine is known to hide switches from perf: docs/semantics.md, "When
/// instruments disagree".
fn first_cpu() -> usize {
    machine::cpus()[0]
}

/// What wakelat and perf report about one task.
type Both = (Vec<JsonSwitch>, Vec<PerfTimehistLine>);

/// What both report about the tasks of `load`, for each thread, and how many switches may have been
/// hidden from them.
fn both(attach: AttachCase, load: Workload, threads: &[&str]) -> Result<(Vec<Both>, usize), Skip> {
    let mut staged = load.stage();
    let tids: Vec<u32> = threads.iter().map(|name| staged.tid(name)).collect();
    let mut perf = PerfSched::record()?;
    let wakelat = trace(attach, &tids);
    let untraced = perform(&mut staged);
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    perf.stop()?;
    assert!(ended.status.success(), "{ended:#?}");
    let (switches, lines) = (JsonSwitch::parse_all(&ended.stdout), perf.timehist());
    let of = |tid: &u32| {
        let switches = switches.iter().filter(|switch| switch.tid == *tid).cloned().collect();
        (switches, lines.iter().filter(|line| line.tid == *tid).copied().collect())
    };
    Ok((tids.iter().map(of).collect(), untraced))
}

fn trace(attach: AttachCase, tids: &[u32]) -> Wakelat {
    let tids = tids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    // perf's delay begins at sched_waking.
    let arguments = ["trace", "--all", "--json", "--from", "waking", "--tid", &tids, "--attach", attach.name()];
    // Leaves room for all switches of any other load beside the test's.
    Wakelat::measuring(command(&[&arguments[..], &["--ring-size", &machine::ring_size()]].concat()))
}

/// Lets the load perform. Its tasks are blocked before and after, so that both instruments see the
/// same, whichever starts and ends first. Returns how many waits may pass unseen.
fn perform(staged: &mut Staged) -> usize {
    let performance = staged.perform();
    println!("\n  {} ms, {} waits may pass unseen", performance.duration_ns / 1_000_000, performance.untraced);
    performance.untraced as usize
}

/// Lines of both that describe the same switch, matched by time.
fn matched(switches: &[JsonSwitch], lines: &[PerfTimehistLine]) -> Vec<(JsonSwitch, PerfTimehistLine)> {
    let by_time: BTreeMap<u64, &PerfTimehistLine> = lines.iter().map(|line| (line.at_ns, line)).collect();
    let nearest = |at_ns: u64| {
        let before = by_time.range(..at_ns).next_back();
        let after = by_time.range(at_ns..).next();
        before.into_iter().chain(after).min_by_key(|(found, _)| found.abs_diff(at_ns)).map(|(_, line)| **line)
    };
    let pairs = switches.iter().filter_map(|switch| Some((switch.clone(), nearest(switch.at_ns)?)));
    let apart = |(switch, line): &(JsonSwitch, PerfTimehistLine)| switch.at_ns.abs_diff(line.at_ns);
    let mut pairs: Vec<_> = pairs.filter(|pair| apart(pair) <= CLOCK_NS).collect();
    // A line belongs to the nearest switch; other switches have none.
    pairs.sort_by_key(|pair| (pair.1.at_ns, apart(pair)));
    pairs.dedup_by_key(|pair| pair.1.at_ns);
    pairs
}

/// Asserts that the lines of both are the same, and their figures, except one in [`OUTLIERS`]. perf may
/// have missed `untraced` switch-ins.
fn assert_same(switches: &[JsonSwitch], lines: &[PerfTimehistLine], untraced: usize) -> usize {
    let pairs = matched(switches, lines);
    // The lines whose switch-in perf saw: for the others, it uses an earlier switch of the CPU.
    let whole: Vec<_> = pairs.iter().filter(|(switch, line)| line.came && switch.run_ns.is_some()).collect();
    let (ours, perfs, both, judged) = (switches.len(), lines.len(), pairs.len(), whole.len());
    println!("  lines: {ours} by wakelat, {perfs} by perf, {both} by both, {judged} judged");
    let few = |more: usize, all: usize| more * OUTLIERS <= all + OUTLIERS;
    assert!(
        few(ours - both, ours) && few(perfs - both, perfs),
        "{ours} lines by wakelat, {perfs} by perf, {both} by both"
    );
    assert!(few((both - judged).saturating_sub(untraced), both), "of {both} lines perf saw {judged} switch-ins");
    let mut apart = BTreeMap::<&str, Vec<String>>::new();
    let mut widest = 0;
    let mut judge = |what, found: u64, expected: u64, pair: &(JsonSwitch, PerfTimehistLine)| {
        let distance = found.abs_diff(expected);
        if distance > CLOCK_NS + PRINTED_NS {
            apart.entry(what).or_default().push(format!("{what}: {found} by wakelat, {expected} by perf: {pair:?}"));
        } else {
            widest = widest.max(distance);
        }
    };
    for pair @ (switch, line) in &whole {
        judge("run", switch.run_ns.expect("judged"), line.run_ns, pair);
        if line.wait_ns > 0 {
            judge("off cpu", switch.off_cpu_ns.unwrap_or(0), line.wait_ns, pair);
        }
        match (switch.class.as_deref(), switch.latency_ns) {
            // Its waker began before the task had left its CPU, or in the same moment, on another CPU:
            // perf forgets a `sched_waking` when the task leaves.
            (Some("wakeup"), Some(latency_ns))
                if line.delay_ns == 0 && switch.off_cpu_ns.is_some_and(|off_ns| latency_ns + CLOCK_NS > off_ns) => {}
            (Some("wakeup" | "new"), Some(latency_ns)) => judge("latency", latency_ns, line.delay_ns, pair),
            // perf knows a wait after a preemption only as part of its wait time, except for a task
            // that was woken in it.
            (Some("preempted"), Some(latency_ns)) => {
                judge("latency", latency_ns.max(line.delay_ns), latency_ns, pair);
                judge("latency", latency_ns, line.wait_ns, pair);
            }
            _ => judge("latency", 0, line.delay_ns.max(line.wait_ns), pair),
        }
    }
    println!(
        "  figures differ by up to {widest} ns, and by more in {:?}",
        apart.iter().map(|(what, all)| (what, all.len())).collect::<Vec<_>>()
    );
    for (what, all) in &apart {
        assert!(
            few(all.len(), judged),
            "{what} differs in {} of {judged} lines: {:#?}",
            all.len(),
            &all[..all.len().min(5)]
        );
    }
    judged
}

fn every_switch_matches_a_line_of_perf_timehist(attach: AttachCase) -> TestOutcome {
    const ROUNDS: usize = 2_000;
    let load = Workload::PingPong(PingPong::on_one(first_cpu(), ROUNDS as u64));
    let (tasks, untraced) = both(attach, load, &["wl-ping", "wl-pong"])?;
    for (switches, lines) in tasks {
        let judged = assert_same(&switches, &lines, untraced);
        assert!(judged + untraced + ROUNDS / OUTLIERS >= ROUNDS, "one line for each byte: {judged}");
    }
    let hog = BehindHog { rounds: 50, spin_ns: 2_000_000, cpu: first_cpu(), sleeper: Policy::Fifo(20) };
    let (tasks, untraced) = both(attach, Workload::BehindHog(hog), &["wl-hog", "wl-sleeper"])?;
    for (switches, lines) in tasks {
        let judged = assert_same(&switches, &lines, untraced);
        assert!(judged + untraced + 1 >= 50, "one line for each round: {judged}");
    }
    Ok(())
}

fn switches_of_preempted_tasks_match_perf_timehist(attach: AttachCase) -> TestOutcome {
    let [first, last] = machine::two_cpus()?;
    let load = WakeRace { rounds: 1_000, cpus: [last, first], preemptor: true, sleep_after_ns: 1_000_000 };
    let preempted =
        |(switches, _): &Both| switches.iter().filter(|switch| switch.class.as_deref() == Some("preempted")).count();
    // How often the preemptor finds the wakee on its way depends on the machine.
    let mut found = 0;
    for _ in 0..10 {
        let (both, untraced) = both(attach, Workload::WakeRace(load.clone()), &["wl-wakee", "wl-preemptor"])?;
        for (switches, lines) in &both {
            assert_same(switches, lines, untraced);
        }
        found += preempted(&both[0]);
        if found > 20 {
            return Ok(());
        }
    }
    panic!("the wakee was preempted {found} times");
}

fn top_finds_the_waits_of_perf_latency(attach: AttachCase) -> TestOutcome {
    let cpu = first_cpu();
    let loads = [
        (Workload::PingPong(PingPong::on_one(cpu, 2_000)), ["wl-ping", "wl-pong"]),
        (
            // So many that the time between the two readings of one wait does not show in the mean, even if a hypervisor
            // has the CPU meanwhile.
            Workload::BehindHog(BehindHog { rounds: 500, spin_ns: 1_000_000, cpu, sleeper: Policy::Fifo(20) }),
            ["wl-hog", "wl-sleeper"],
        ),
    ];
    for (load, threads) in loads {
        let mut staged = load.stage();
        let mut perf = PerfSched::record()?;
        let arguments = [
            "top",
            "--json",
            "--interval",
            "1h",
            "--class",
            "wakeup,new,preempted",
            "--by",
            "tid",
            "--attach",
            attach.name(),
        ];
        let wakelat = Wakelat::measuring(command(&arguments));
        perform(&mut staged);
        let report = wakelat.report();
        perf.stop()?;
        let latencies = perf.latency();
        for tid in threads.map(|name| staged.tid(name)) {
            let perfs = latencies.iter().find(|latency| latency.tid == tid).expect("perf knows the task");
            let groups: Vec<_> = report.with("tid", tid).collect();
            let sum =
                |of: fn(&wakelat_tests::report::JsonGroup) -> u64| groups.iter().map(|group| of(group)).sum::<u64>();
            let (count, sum_ns) = (sum(|group| group.count), sum(|group| group.sum_ns));
            let max_ns = groups.iter().map(|group| group.max_ns).max().unwrap_or(0);
            println!("  {tid}: {count} waits, {} ns, {max_ns} ns by wakelat; {perfs:?}", sum_ns / count.max(1));
            // Only the kernel's own threads preempt these SCHED_FIFO tasks, occasionally; perf 6.1
            // takes a task that is preempted in the kernel for asleep.
            let preempted: u64 =
                groups.iter().filter(|group| group.class == "preempted").map(|group| group.count).sum();
            let counts = count - preempted..=count;
            assert!(counts.contains(&perfs.count), "{} waits by perf, expected {counts:?}", perfs.count);
            assert!(count.abs_diff(perfs.count) * 100 <= count, "{} waits by perf, {count} by wakelat", perfs.count);
            if perfs.count == count {
                let (avg_ns, allowed_ns) = (sum_ns / count, MEAN_CLOCK_NS + PRINTED_NS);
                assert!(
                    avg_ns.abs_diff(perfs.avg_ns) <= allowed_ns,
                    "avg: {avg_ns} by wakelat, {} by perf",
                    perfs.avg_ns
                );
                // One wait may differ by more, and it may be the longest of either.
                let longer = groups.iter().flat_map(|group| &group.buckets);
                let longer = longer.filter(|bucket| bucket.from_ns > perfs.max_ns + allowed_ns);
                let longer: u64 = longer.map(|bucket| bucket.count).sum();
                assert!(
                    longer <= 1 + count / OUTLIERS as u64 && perfs.max_ns <= max_ns + count * allowed_ns,
                    "max: {max_ns} by wakelat, {} by perf; {longer} waits are longer than that",
                    perfs.max_ns
                );
            }
        }
    }
    Ok(())
}
