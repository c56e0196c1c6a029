//! What measuring takes, by the kernel's account of the programs and of wakelat's process, against what wakelat says and
//! keeps to.

use std::{fs, time::Instant};

use wakelat_tests::{
    attached, machine,
    report::Group,
    suite::{self, Outcome, Skip},
    sysctl::Sysctl,
    wakelat::{Attach, Wakelat},
    workload::{Messaging, Workload},
};

fn main() {
    suite::main(attached![
        a_limit_of_the_overhead_is_held,
        percentiles_of_drawn_tasks_are_those_of_all_within_their_bounds,
    ]);
}

/// Many tasks that do little but wake each other, on all CPUs.
const LOAD: Messaging = Messaging { groups: 4, fan: 12, messages: 1_500 };

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

/// The part of the time of all CPUs that `wakelat hist` with `arguments` takes under the load.
fn share(attach: Attach, arguments: &[&str]) -> f64 {
    let _accounted = Sysctl::set("kernel/bpf_stats_enabled", 1);
    let mut staged = Workload::Messaging(LOAD).stage();
    let wakelat = Wakelat::hist(attach, arguments);
    let (before, begun) = (taken_ns(wakelat.pid()), Instant::now());
    staged.begin();
    staged.await_outcome();
    let (after, took) = (taken_ns(wakelat.pid()), begun.elapsed());
    let terms = wakelat.report().coverage.wakeups;
    let share = (after - before) as f64 / took.as_nanos() as f64 / machine::cpus().len() as f64;
    println!("\n  {arguments:?}: {:.2} % in {took:.1?}, {terms:?}", share * 100.0);
    share
}

fn a_limit_of_the_overhead_is_held(attach: Attach) -> Outcome {
    real_time()?;
    let all = share(attach, &["--mode", "samples"]);
    let none = share(attach, &["--max-overhead", "0.01%"]);
    // Where it can be held: between what watching all takes and what turning all away takes.
    let limit = none + (all - none) / 3.0;
    let limited = share(attach, &["--max-overhead", &format!("{:.3}%", limit * 100.0)]);
    assert!(limited <= limit * 1.1, "{limited} of at most {limit}: {all} without a limit, {none} at the least");
    Ok(())
}

fn percentiles_of_drawn_tasks_are_those_of_all_within_their_bounds(attach: Attach) -> Outcome {
    real_time()?;
    let all = share(attach, &["--mode", "samples"]);
    let none = share(attach, &["--max-overhead", "0.01%"]);
    // Some tasks are watched all the time: less than that, and with so few of them none may be.
    let limit = format!("{:.3}%", (none + all) * 50.0);
    let mut staged = Workload::Messaging(LOAD).stage();
    let mine = ["--comm", "wl-receiver", "--ring-size", "64M"];
    let full = Wakelat::hist(attach, &mine);
    let drawn = Wakelat::hist(attach, &[&mine[..], &["--max-overhead", &limit]].concat());
    staged.begin();
    staged.await_outcome();
    let (drawn, full) = (drawn.report(), full.report());
    println!("\n  {:?}", drawn.coverage.wakeups);
    let of = |groups: &[Group]| groups.first().cloned().ok_or_else(|| Skip::because("no task was drawn"));
    let (sampled, exact) = (of(&drawn.groups)?, of(&full.groups)?);
    assert!(sampled.count < exact.count && drawn.coverage.wakeups.not_watched > 0, "not all tasks were watched");
    let intervals = sampled.percentile_intervals_ns.expect("asked for");
    for percent in ["50", "90", "99"] {
        let exact_ns = exact.percentiles_ns[percent];
        let Some(interval) = intervals[percent] else { return Err(Skip::because("tasks of one part were drawn")) };
        println!("  p{percent}: {exact_ns} of all, {} within {interval:?}", sampled.percentiles_ns[percent]);
        // One interval in twenty does not hold its percentile. One that is twice as wide on either side always does, but for
        // one in ten thousand.
        let half = interval.high_ns.map(|high| high - interval.low_ns);
        assert!(exact_ns >= interval.low_ns - half.unwrap_or(interval.low_ns).min(interval.low_ns), "p{percent}");
        assert!(interval.high_ns.is_none_or(|high| exact_ns <= high + half.unwrap_or(0)), "p{percent}");
    }
    Ok(())
}
