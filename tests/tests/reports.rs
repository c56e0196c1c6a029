//! Whole reports of a load, as users see them. If time is counted in instructions, every figure in them
//! is the same each time: `cargo xtask vm` runs this twice in a machine, and requires the same output.

use nix::sys::signal::Signal;
use wakelat_tests::{
    from_each_source, machine, once,
    suite::{Case, Skip, TestOutcome},
    tracefs, tracer,
    wakelat::{Wakelat, command},
    workload::{WakeRace, Workload},
};

pub fn cases() -> Vec<Case> {
    from_each_source![timerlat_reports_a_load, osnoise_reports_a_load]
        .into_iter()
        .chain(once![waits_of_a_load_are_reported_by_every_command])
        .collect()
}

fn timerlat_reports_a_load(source: &str) -> TestOutcome {
    need_counted_time()?;
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    print(&["timerlat", "why", "--source", source], "causes of latency");
    print(&["timerlat", "hist", "--source", source], "thread latency");
    Ok(())
}

fn osnoise_reports_a_load(source: &str) -> TestOutcome {
    need_counted_time()?;
    tracer::need("osnoise")?;
    tracer::need_source(source)?;
    // The load takes longer than two periods.
    print(&["osnoise", "top", "--source", source, "-p", "50ms", "-r", "40ms"], "Max Noise");
    Ok(())
}

fn waits_of_a_load_are_reported_by_every_command() -> TestOutcome {
    need_counted_time()?;
    print(&["hist"], "wakeup latency");
    print(&["hist", "--by", "comm,cpu", "--class", "runqueue", "--json"], "wl-wakee");
    print(&["why"], "wl-wakee");
    print(&["trace", "--comm", "wl-wakee"], "wl-wakee");
    // Without triggers there is nothing to compare with, which has an exit code of its own.
    let (code, expected) = if tracefs::has_hist_triggers() { (0, "agree") } else { (4, "not compared") };
    print_ending_with(code, &["verify", "--comm", "wl-wakee", "-d", "10m"], expected);
    Ok(())
}

fn need_counted_time() -> TestOutcome {
    if machine::is_emulated() && machine::has_own_time() {
        Ok(())
    } else {
        Err(Skip::because("only where time is counted in instructions is a report the same each time"))
    }
}

/// Runs wakelat while the load performs, and prints everything that it reports.
fn print(arguments: &[&str], expected: &str) {
    print_ending_with(0, arguments, expected);
}

fn print_ending_with(code: i32, arguments: &[&str], expected: &str) {
    let cpu = machine::one_cpu();
    let load = WakeRace { rounds: 200, cpus: [cpu, cpu], preemptor: true, sleep_after_ns: 100_000_000 };
    let mut staged = Workload::WakeRace(load).stage();
    let wakelat = Wakelat::measuring(command(arguments));
    staged.perform();
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert_eq!(ended.status.code(), Some(code), "{ended:#?}");
    assert!(ended.stdout.contains(expected), "no `{expected}` in {ended:#?}");
    println!("\n  wakelat {}", arguments.join(" "));
    // Indented, so that no line can be mistaken for one of the test's own.
    ended.stdout.lines().chain(ended.stderr.lines()).for_each(|line| println!("  {line}"));
}
