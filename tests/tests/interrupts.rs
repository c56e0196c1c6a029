//! While it measures, wakelat interrupts no other CPU: it changes no kernel code and calls no function there.

use std::process::Command;

use nix::sys::signal::Signal;
use wakelat_tests::{
    clock::{block_until, now_ns},
    cpu_interrupts::{RemoteCall, RemoteCalls},
    machine, once, procfs,
    report::JsonReport,
    suite::{Case, Skip, TestOutcome},
    task,
    wakelat::{AttachCase, RunOutput, Wakelat, command},
    workload::{Messaging, Workload},
};

pub fn cases() -> Vec<Case> {
    once![
        no_other_cpu_is_interrupted_while_windows_are_open,
        no_other_cpu_is_interrupted_by_the_pauses_of_an_overhead_limit,
    ]
}

/// Longer than any interval at which wakelat does something: ns.
const WINDOW_NS: u64 = 5_000_000_000;

/// Long enough to learn what measuring costs: ns.
const SHORT_NS: u64 = 2_000_000_000;

/// Tasks that wake each other on all CPUs, and never end by themselves.
const LOAD: Messaging = Messaging { groups: 2, fan: 4, messages: usize::MAX / 1_000 };

/// What wakelat calls before it measures, and while it measures.
struct Calls {
    before: Vec<RemoteCall>,
    meanwhile: Vec<RemoteCall>,
}

/// Runs these commands at the same time, under a load of wakeups for `window_ns`. They run on a CPU of their own, so that a
/// function that one calls on other CPUs is not one that flushes its own addresses from the translation buffers there.
fn calls_of(commands: Vec<Command>, window_ns: u64) -> Result<(Calls, Vec<RunOutput>), Skip> {
    machine::two_cpus()?;
    let cpus = machine::cpus();
    let mut load = Workload::Messaging(LOAD).stage_nice();
    let functions = RemoteCalls::start("wl-interrupts")?;
    load.begin();
    // A child inherits the affinity.
    task::pin_to(0, &cpus[..1]);
    let measuring: Vec<Wakelat> = commands.into_iter().map(Wakelat::measuring).collect();
    task::pin_to(0, &cpus);
    let from_ns = now_ns();
    let pids = measuring.iter().map(Wakelat::pid);
    let threads: Vec<u32> = pids.flat_map(|pid| [vec![pid], procfs::other_threads(pid)].concat()).collect();
    block_until(from_ns + window_ns);
    let to_ns = now_ns();
    let (before, later): (Vec<_>, Vec<_>) = functions
        .so_far()
        .into_iter()
        .filter(|call| threads.contains(&call.tid) && call.at_ns <= to_ns)
        .partition(|call| call.at_ns <= from_ns);
    // The kernel's workers, which the end of wakelat needs, can get no CPU for long beside such a load.
    drop(load);
    measuring.iter().for_each(|wakelat| wakelat.signal(Signal::SIGINT));
    let ended: Vec<RunOutput> = measuring.into_iter().map(Wakelat::end).collect();
    assert!(ended.iter().all(|ended| ended.status.success()), "{ended:#?}");
    Ok((Calls { before, meanwhile: later }, ended))
}

/// [`calls_of`] `wakelat hist`.
fn calls_of_hist(arguments: &[&str], window_ns: u64) -> Result<(Calls, JsonReport), Skip> {
    let line = [&["hist", "--json"], arguments, AttachCase::Btf.arguments()].concat();
    let (calls, ended) = calls_of(vec![command(&line)], window_ns)?;
    let report = ended.iter().flat_map(RunOutput::reports).next().expect("a report");
    Ok((calls, report))
}

/// Attaching patches the tracepoints: the recording shows it, so it would show the same in the window.
fn assert_none_in_the_window(calls: &Calls) {
    println!("\n  {} calls before the window", calls.before.len());
    assert!(calls.before.iter().any(RemoteCall::patches_code), "attaching was not recorded: {:?}", calls.before);
    assert_eq!(calls.meanwhile, [], "other CPUs were interrupted");
}

/// Runs all at once, by the tracepoints and by the run queue's clock.
fn no_other_cpu_is_interrupted_while_windows_are_open() -> TestOutcome {
    let lines = [
        &["hist", "--json", "--attach", "btf"][..],
        &["hist", "--json", "--from", "queued"],
        &["hist", "--json", "--from", "queued", "--mode", "samples"],
        // What the kernel has aggregated is read, and the next half begun, within the window.
        &["hist", "--json", "--from", "queued", "--by", "comm", "1"],
        &["why", "--json", "--mode", "aggregate", "--by", "comm"],
    ];
    let ring_buffer = machine::ring_buffer_may_sleep();
    let can_run = |line: &&[&str]| !ring_buffer || !line.contains(&"samples");
    let commands = lines.into_iter().filter(can_run).map(command).collect();
    let (calls, ended) = calls_of(commands, WINDOW_NS)?;
    assert_none_in_the_window(&calls);
    let overhead = ended[0].reports()[0].overhead.expect("hist reports its overhead");
    assert!(overhead.programs_ns > 0 && overhead.timed_runs > 0, "the programs timed themselves: {overhead:?}");
    Ok(())
}

fn no_other_cpu_is_interrupted_by_the_pauses_of_an_overhead_limit() -> TestOutcome {
    // If the kernel aggregates, each period ends with an RCU grace period, whose kernel threads may be on other CPUs.
    let way = ["--mode", "samples"];
    // What measuring every wait costs on this machine, as a share of all CPUs' time. A part of that cannot be kept
    // without pauses, unless it is large; but if it has no room for the calls of the stopped programs, wakelat detaches
    // them, which interrupts other CPUs. What other tasks on this machine do decides which part has room, so it is
    // looked for.
    let (_, report) = calls_of_hist(&way, SHORT_NS)?;
    let all = report.overhead.expect("hist reports its overhead").share(report.duration_ns) * 100.0;
    let mut others = Vec::new();
    let mut part = 1.6;
    for _ in 0..10 {
        let limit = format!("{:.3}%", all / part);
        let limited = [&way[..], &["--max-overhead", &limit]].concat();
        let measured = calls_of_hist(&limited, WINDOW_NS);
        let (calls, report) = measured.unwrap_or_else(|skip| panic!("{skip:?} after a first run"));
        let sampling = report.sampling.expect("there is a limit");
        println!("  limit {limit}: measured for {} of {} ns", sampling.measured_ns, report.duration_ns);
        let has_pauses = sampling.measured_ns < report.duration_ns * 9 / 10;
        // A pause at the start pays for attaching. In an emulator on a busy host, it may last for the whole window.
        let has_measured = sampling.measured_ns > 0;
        let patches = calls.meanwhile.iter().filter(|call| call.patches_code()).count();
        if patches > 0 || !has_measured || !has_pauses {
            others.push((limit, sampling.measured_ns, patches));
            part *= if patches > 0 || !has_measured { 0.8 } else { 1.3 };
            continue;
        }
        assert_none_in_the_window(&calls);
        return Ok(());
    }
    panic!("with each limit, there were no pauses, only a pause, or the programs were detached: {others:?}");
}
