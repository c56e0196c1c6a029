//! The same load under wakelat and under an independent instrument: both agree.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use wakelat_tests::{
    attached, machine,
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    task::Policy,
    tool,
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, Workload},
};

const ALL_CLASSES: &str = "wakeup,new,preempted";

pub fn cases() -> Vec<Case> {
    attached![
        perf_counts_the_same_events_of_a_pinned_pipe,
        perf_counts_the_same_events_of_a_free_pipe,
        runqlat_finds_the_same_waits,
    ]
}

fn perf_counts_the_same_events_of_a_pinned_pipe(attach: AttachCase) -> TestOutcome {
    perf_counts_the_same_events(attach, Some(machine::one_cpu()))
}

fn perf_counts_the_same_events_of_a_free_pipe(attach: AttachCase) -> TestOutcome {
    machine::two_cpus()?;
    perf_counts_the_same_events(attach, None)
}

fn perf_counts_the_same_events(attach: AttachCase, cpu: Option<usize>) -> TestOutcome {
    let perf = tool::find("perf", "linux-perf")?;
    let taskset = tool::find("taskset", "util-linux")?;
    // A wakeup on another CPU takes some ten times as long.
    let rounds = if cpu.is_some() { "100000" } else { "25000" };
    let pin = cpu.map(|cpu| vec![taskset, "-c".to_owned(), cpu.to_string()]).unwrap_or_default();
    let wakelat = Wakelat::hist(attach, &["--comm", "sched-pipe", "--class", ALL_CLASSES, "--ring-size", "64M"]);
    let (before, supervisor) = (machine::switches(), Supervisor::now());
    let output = Command::new(&perf)
        .args(["stat", "--all-cpus", "--field-separator", ","])
        .args(["-e", "sched:sched_wakeup", "--filter", r#"comm=="sched-pipe""#])
        .args(["-e", "sched:sched_wakeup_new", "--filter", r#"comm=="sched-pipe""#])
        .args(["-e", "sched:sched_switch", "--filter", r#"next_comm=="sched-pipe""#, "-e", "sched:sched_switch", "--"])
        .args(pin)
        .args([&perf, "bench", "sched", "pipe", "--loop", rounds])
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{perf}: {error}"));
    let (switches, supervisor) = (machine::switches() - before, Supervisor::now() - supervisor);
    let report = wakelat.report();
    let stat = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Skip::because(format!("`perf stat` cannot count here: {}", stat.trim())));
    }
    let counts: Vec<u64> = stat.lines().filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    let [perf_wakeups, perf_new, perf_switch_ins, perf_switches] = counts[..] else {
        panic!("not four counts: {stat}")
    };
    let wakeups = report.coverage.wakeups;
    let preemptions = report.coverage.preemptions.expect("asked for");
    println!("\n  {wakeups:?}\n  {preemptions:?}");
    // The first wakeup of a new task has an event of its own (`wake_up_new_task`, kernel/sched/core.c).
    let (found, by_perf) = (wakeups.selected(), perf_wakeups + perf_new);
    let switch_ins = wakeups.measured + preemptions.measured;
    println!("  wakeups: {found} by wakelat, {by_perf} by perf; switch-ins: {switch_ins} and {perf_switch_ins}");
    // Some kernels hide switches from perf and ftrace that they count and show to BPF:
    // docs/semantics.md, "When instruments disagree". Then perf's figure is a lower bound, and the
    // kernel's count of all switches an upper one.
    if perf_switches * 100 >= switches * 98 {
        // A task that returns to its CPU after a preemption that fired no tracepoint has a switch-in and no wait.
        let hidden = supervisor.untraced(2);
        // The events that this kernel hides only from perf: at most as many switches as it counted and perf did not, and in
        // the same moments no more wakeups.
        let kept_from_perf = switches.saturating_sub(perf_switches);
        assert!((by_perf..=by_perf + kept_from_perf).contains(&found), "{found} wakeups by wakelat, {by_perf} by perf");
        let bounds = perf_switch_ins.saturating_sub(hidden)..=perf_switch_ins + kept_from_perf;
        assert!(bounds.contains(&switch_ins), "{switch_ins} switch-ins by wakelat, not within {bounds:?}");
    } else {
        println!("  perf saw {perf_switches} of the {switches} switches that the kernel counted");
        for (what, found, least) in [("wakeups", found, by_perf), ("switch-ins", switch_ins, perf_switch_ins)] {
            assert!((least..=switches).contains(&found), "{found} {what} by wakelat, {least} by perf of {switches}");
        }
    }
    for terms in [wakeups, preemptions] {
        assert_eq!(terms.task_table_full + terms.ring_buffer_full + terms.invalid, 0, "{terms:?}");
    }
    Ok(())
}

/// A running `runqlat`, killed when dropped.
struct Runqlat {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Runqlat {
    /// Starts `runqlat` on the process `pid`. It prints a line once its programs are attached, but
    /// through a pipe only if that is unbuffered.
    fn start(path: &str, pid: &str) -> Result<Self, Skip> {
        let stdbuf = tool::find("stdbuf", "coreutils")?;
        let child =
            Command::new(stdbuf).args(["-oL", path, "-p", pid]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut runqlat = Self { stdout: BufReader::new(child.stdout.take().expect("piped")), child };
        let mut line = String::new();
        runqlat.stdout.read_line(&mut line).expect("UTF-8");
        if line.starts_with("Tracing run queue latency") {
            return Ok(runqlat);
        }
        let mut error = String::new();
        let _ = runqlat.child.stderr.take().expect("piped").read_to_string(&mut error);
        Err(Skip::because(format!("`runqlat` does not run here: {}", error.trim())))
    }

    /// Stops it as Ctrl-C does, and returns its histogram: upper bounds in µs, inclusive, and counts.
    fn histogram(mut self) -> Vec<(u64, u64)> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("runqlat is running");
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("UTF-8");
        // `         4 -> 7          : 12       |****      |`
        let rows = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("->")?;
            let (upper, rest) = rest.split_once(':')?;
            Some((upper.trim().parse().ok()?, rest.split_whitespace().next()?.parse().ok()?))
        });
        let rows: Vec<_> = rows.collect();
        assert!(!rows.is_empty(), "no histogram in {text}");
        rows
    }
}

impl Drop for Runqlat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Maximum distance between two clock readings at one event, by two programs on one tracepoint, with
/// the other program between them: ns.
const CLOCK_NS: u64 = 10_000;

/// In one of this many waits, the hypervisor may take the CPU between the two readings, at either end.
const OUTLIERS: u64 = 100;

/// Compares the waits of a task behind a hog: from slightly below a bound of runqlat's buckets, which waits
/// that are some 2 % longer would exceed, to slightly above it, which waits that are 2 % shorter would not reach.
fn runqlat_finds_the_same_waits(attach: AttachCase) -> TestOutcome {
    if machine::is_emulated() {
        return Err(Skip::because("an emulated CPU takes tens of µs to read its clock twice"));
    }
    /// The bound of one of runqlat's buckets: ns.
    const BOUND_NS: u64 = 2_048_000;
    let path = tool::find("runqlat", "libbpf-tools")?;
    for spin_ns in [BOUND_NS - 40_000, BOUND_NS + 12_000] {
        let cpu = machine::one_cpu();
        let load = BehindHog { rounds: 300, spin_ns, cpu, sleeper: Policy::Fifo(10) };
        let mut staged = Workload::BehindHog(load).stage();
        // Only one process, which is blocked before and after: both see the same, however far apart
        // they start and end.
        let pid = staged.tid("wl-sleeper").to_string();
        let runqlat = Runqlat::start(&path, &pid)?;
        let trace = ["trace", "--json", "--pid", &pid, "--class", ALL_CLASSES, "--attach", attach.name()];
        let wakelat = Wakelat::measuring(command(&trace));
        let performance = staged.perform();
        let waits_ns: Vec<u64> = wakelat.waits().iter().map(|wait| wait.latency_ns).collect();
        let rows = runqlat.histogram();
        let (found, total) = (waits_ns.len() as u64, rows.iter().map(|row| row.1).sum::<u64>());
        println!("\n  {found} waits by wakelat, {total} by runqlat, {} by the kernel", performance.blocked());
        assert!(found.abs_diff(total) <= performance.untraced, "{found} waits by wakelat, {total} by runqlat");
        let below = |bound_ns: u64| waits_ns.iter().filter(|wait_ns| **wait_ns < bound_ns).count() as u64;
        let mut by_runqlat = 0;
        for (upper_us, count) in rows {
            by_runqlat += count;
            let bound_ns = (upper_us + 1) * 1000;
            let allowed = found / OUTLIERS + performance.untraced;
            let (fewest, most) = (below(bound_ns.saturating_sub(CLOCK_NS)), below(bound_ns + CLOCK_NS));
            println!("  below {bound_ns} ns: {by_runqlat} by runqlat, {fewest} to {most} by wakelat");
            assert!(
                (fewest.saturating_sub(allowed)..=most + allowed).contains(&by_runqlat),
                "{by_runqlat} waits below {bound_ns} ns by runqlat, {fewest} to {most} by wakelat"
            );
        }
    }
    Ok(())
}
