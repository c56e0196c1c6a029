//! What measuring takes, by the kernel's account of the programs and of wakelat's process, against what wakelat says and
//! keeps to.

use std::{fs, time::Instant};

use wakelat_tests::{
    attached, attached_typed, machine,
    report::{Group, Terms},
    suite::{self, Outcome, Skip},
    sysctl::Sysctl,
    wakelat::{Attach, Wakelat},
    workload::{Messaging, Workload},
};

fn main() {
    // What is made of waits is the same however they came.
    let typed = attached_typed![
        percentiles_of_drawn_tasks_are_those_of_all_within_their_bounds,
        percentiles_between_rests_are_those_of_all_the_time_within_their_bounds,
    ];
    suite::main(typed.into_iter().chain(attached![a_limit_of_the_overhead_is_held]));
}

/// Many tasks that do little but wake each other, on all CPUs.
const LOAD: Messaging = Messaging { groups: 4, fan: 12, messages: 1_500 };

/// The same for long enough to rest several times.
const LONG_LOAD: Messaging = Messaging { messages: 6_000, ..LOAD };

/// As many messages of few tasks: the reader has its turn soon. A late one begins and ends its rests late, which a short window
/// does not make up for.
const FEW: Messaging = Messaging { groups: 2, fan: 4, messages: 27_000 };

/// The same for long enough to make up for the time before the first rest.
const LONG_FEW: Messaging = Messaging { messages: 270_000, ..FEW };

/// Of what it takes to watch all: not to be had without watching fewer tasks, but with enough of them to tell.
const MOST: f64 = 3.0 / 4.0;

/// The same: not to be had without rests.
const LITTLE: f64 = 1.0 / 20.0;

/// An emulator's programs take any time.
fn real_time() -> Result<(), Skip> {
    machine::two_cpus()?;
    if machine::is_emulated() { Err(Skip::because("needs a machine that is not emulated")) } else { Ok(()) }
}

/// ns that the process `pid`, which has one thread, has been on a CPU, and that its programs have run while the kernel accounted them
/// (`bpf_prog_show_fdinfo()`, kernel/bpf/syscall.c).
fn taken_ns(pid: u32) -> u64 {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("wakelat is running");
    let infos = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let run_time =
        |info: String| info.lines().find_map(|line| line.strip_prefix("run_time_ns:")?.trim().parse::<u64>().ok());
    let programs: u64 = infos.filter_map(run_time).sum();
    let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("the kernel keeps accounts");
    let own: Option<u64> = schedstat.split_whitespace().next().and_then(|field| field.parse().ok());
    programs + own.expect("a number of ns")
}

/// The part of the time of all CPUs that `wakelat hist` with `arguments` takes under `load`.
fn share(attach: Attach, load: Messaging, arguments: &[&str]) -> f64 {
    let _accounted = Sysctl::set("kernel/bpf_stats_enabled", 1);
    let mut staged = Workload::Messaging(load).stage();
    let wakelat = Wakelat::hist(attach, arguments);
    let (before, begun) = (taken_ns(wakelat.pid()), Instant::now());
    staged.begin();
    staged.await_outcome();
    let (after, took) = (taken_ns(wakelat.pid()), begun.elapsed());
    let terms = wakelat.report().coverage.wakeups;
    let share = (after - before) as f64 / took.as_nanos() as f64 / machine::cpus().len() as f64;
    println!("\n  {arguments:?}: {:.3} % in {took:.1?}, {terms:?}", share * 100.0);
    share
}

/// As the flag takes it.
fn percent(share: f64) -> String {
    format!("{:.3}%", share * 100.0)
}

fn a_limit_of_the_overhead_is_held(attach: Attach) -> Outcome {
    real_time()?;
    let all = share(attach, FEW, &["--mode", "samples"]);
    for limit in [all / 3.0, all * LITTLE] {
        let limited = share(attach, LONG_FEW, &["--max-overhead", &percent(limit)]);
        assert!(limited <= limit * 1.1, "{limited} of at most {limit}: {all} without a limit");
    }
    Ok(())
}

fn percentiles_of_drawn_tasks_are_those_of_all_within_their_bounds(attach: Attach) -> Outcome {
    let drawn = assert_percentiles(attach, LOAD, MOST)?;
    assert!(drawn.not_watched > 0, "not all tasks were watched: {drawn:?}");
    Ok(())
}

fn percentiles_between_rests_are_those_of_all_the_time_within_their_bounds(attach: Attach) -> Outcome {
    let drawn = assert_percentiles(attach, LONG_LOAD, LITTLE)?;
    // Of so many tasks on so few CPUs some always wait.
    assert!(drawn.rested > 0, "there were rests: {drawn:?}");
    Ok(())
}

/// Asserts that what is said of `load` with a limit, of `part` of what it takes to watch all, holds of all. Returns what the limit
/// left.
fn assert_percentiles(attach: Attach, load: Messaging, part: f64) -> Result<Terms, Skip> {
    /// Longer than any wait of the load, and shorter than the rests.
    const NO_WAIT_NS: u64 = 500_000_000;
    real_time()?;
    let mine = ["--comm", "wl-receiver", "--ring-size", "64M"];
    let limit = percent(share(attach, LOAD, &[&mine[..], &["--mode", "samples"]].concat()) * part);
    let mut staged = Workload::Messaging(load).stage();
    let full = Wakelat::hist(attach, &mine);
    let drawn = Wakelat::hist(attach, &[&mine[..], &["--max-overhead", &limit]].concat());
    staged.begin();
    staged.await_outcome();
    let (drawn, full) = (drawn.report(), full.report());
    println!("\n  {:?}", drawn.coverage.wakeups);
    let of = |groups: &[Group]| groups.first().cloned().ok_or_else(|| Skip::because("no task was drawn"));
    let (sampled, exact) = (of(&drawn.groups)?, of(&full.groups)?);
    assert!(sampled.count < exact.count, "not all waits were watched");
    assert!(exact.max_ns >= NO_WAIT_NS || sampled.max_ns < NO_WAIT_NS, "a wait from before a rest ended after it");
    let intervals = sampled.percentile_intervals_ns.expect("asked for");
    for percent in ["50", "90", "99"] {
        let exact_ns = exact.percentiles_ns[percent];
        let Some(interval) = intervals[percent] else { return Err(Skip::because("too few were drawn to tell")) };
        println!("  p{percent}: {exact_ns} of all, {} within {interval:?}", sampled.percentiles_ns[percent]);
        // One interval in twenty does not hold its percentile. One that is twice as wide on either side always does, but for
        // one in ten thousand.
        let half = interval.high_ns.map(|high| high - interval.low_ns);
        assert!(exact_ns >= interval.low_ns - half.unwrap_or(interval.low_ns).min(interval.low_ns), "p{percent}");
        assert!(interval.high_ns.is_none_or(|high| exact_ns <= high + half.unwrap_or(0)), "p{percent}");
    }
    Ok(drawn.coverage.wakeups)
}
