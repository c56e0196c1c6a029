//! The same load under wakelat and under an independent instrument: the two agree.

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
    report::Report,
    suite::{self, Outcome, Skip},
    tool,
    wakelat::{Attach, Wakelat},
    workload::{WakeRace, Workload},
};

const ALL_CLASSES: &str = "wakeup,new,preempted";

fn main() {
    suite::main(attached![
        perf_counts_the_same_events_of_a_pinned_pipe,
        perf_counts_the_same_events_of_a_free_pipe,
        runqlat_finds_as_many_waits_of_the_same_lengths,
    ]);
}

fn assert_within_percent(percent: u64, what: &str, found: u64, expected: u64) {
    println!("\n  {what}: {found} by wakelat, {expected} by the other");
    let apart = found.abs_diff(expected);
    assert!(apart * 100 <= expected * percent, "{what}: {found} by wakelat, {expected} by the other");
}

fn perf_counts_the_same_events_of_a_pinned_pipe(attach: Attach) -> Outcome {
    perf_counts_the_same_events(attach, Some(machine::one_cpu()))
}

fn perf_counts_the_same_events_of_a_free_pipe(attach: Attach) -> Outcome {
    machine::two_cpus()?;
    perf_counts_the_same_events(attach, None)
}

fn perf_counts_the_same_events(attach: Attach, cpu: Option<usize>) -> Outcome {
    let perf = tool::find("perf", "linux-perf")?;
    let taskset = tool::find("taskset", "util-linux")?;
    let pin = cpu.map(|cpu| vec![taskset, "-c".to_owned(), cpu.to_string()]).unwrap_or_default();
    let wakelat = Wakelat::hist(attach, &["--comm", "sched-pipe", "--class", ALL_CLASSES, "--ring-size", "64M"]);
    let before = machine::switches();
    let output = Command::new(&perf)
        .args(["stat", "--all-cpus", "--field-separator", ","])
        .args(["-e", "sched:sched_wakeup", "--filter", r#"comm=="sched-pipe""#])
        .args(["-e", "sched:sched_switch", "--filter", r#"next_comm=="sched-pipe""#, "-e", "sched:sched_switch", "--"])
        .args(pin)
        .args([&perf, "bench", "sched", "pipe", "--loop", "100000"])
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{perf}: {error}"));
    let switches = machine::switches() - before;
    let report = wakelat.report();
    let stat = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Skip::because(format!("`perf stat` cannot count here: {}", stat.trim())));
    }
    let counts: Vec<u64> = stat.lines().filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    let [perf_wakeups, perf_switch_ins, perf_switches] = counts[..] else { panic!("not three counts: {stat}") };
    let wakeups = report.coverage.wakeups;
    let preemptions = report.coverage.preemptions.expect("asked for");
    println!("\n  {wakeups:?}\n  {preemptions:?}");
    assert_within_percent(1, "wakeups", wakeups.wanted(), perf_wakeups);
    let switch_ins = wakeups.delivered + preemptions.delivered;
    // Some kernels keep switches from perf and from ftrace that they count and show to BPF: docs/semantics.md, "When
    // instruments disagree". There, perf's figure is a lower bound, and the kernel's count of all switches an upper one.
    if perf_switches * 100 >= switches * 98 {
        assert_within_percent(1, "switch-ins", switch_ins, perf_switch_ins);
    } else {
        println!("  perf saw {perf_switches} of the {switches} switches that the kernel counted");
        let bounds = perf_switch_ins - perf_switch_ins / 100..=switches;
        assert!(bounds.contains(&switch_ins), "{switch_ins} switch-ins by wakelat, not within {bounds:?}");
    }
    for terms in [wakeups, preemptions] {
        assert_eq!(terms.start_map_full + terms.ring_full + terms.discarded, 0, "{terms:?}");
    }
    Ok(())
}

/// A running `runqlat`, killed when dropped.
struct Runqlat {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Runqlat {
    /// Starts it on the process `pid`; it prints a line once its programs are attached, through a pipe only if that is not buffered.
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

    /// Ends it as Ctrl-C does, and gives its histogram: upper bounds in µs, inclusive, and counts.
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

fn runqlat_finds_as_many_waits_of_the_same_lengths(attach: Attach) -> Outcome {
    let path = tool::find("runqlat", "libbpf-tools")?;
    let cpus = [machine::cpus()[0], machine::one_cpu()];
    let mut staged = Workload::WakeRace(WakeRace { rounds: 10_000, cpus, preemptor: true, rest_ns: 1_000_000 }).stage();
    // Of one process, which is blocked before and after: however far apart the two begin and end, they see the same.
    let pid = staged.tid("wl-wakee").to_string();
    let runqlat = Runqlat::start(&path, &pid)?;
    let wakelat = Wakelat::hist(attach, &["--pid", &pid, "--class", ALL_CLASSES, "--ring-size", "16M"]);
    staged.perform();
    let report = wakelat.report();
    let rows = runqlat.histogram();
    let (found, total) = (report.groups.iter().map(|group| group.count).sum(), rows.iter().map(|row| row.1).sum());
    assert_within_percent(2, "waits", found, total);
    // Each instrument's programs run before or after the other's on the same tracepoint, so that one begins or ends every
    // wait later than the other by the time these take: some hundreds of ns, up to some us on a busy machine.
    let apart =
        (0..=20).flat_map(|steps| [steps * 100, -steps * 100]).find(|apart_ns| agree(&rows, &report, *apart_ns));
    println!("  runqlat's are {apart:?} ns longer");
    assert!(apart.is_some(), "{rows:?} by runqlat, {report:?}");
    Ok(())
}

/// Whether there are as many waits below each of runqlat's bounds where each wait is so much longer by runqlat: ns. Besides, one may
/// have been a fifth and 800 ns longer or shorter, and one of fifty anything.
fn agree(rows: &[(u64, u64)], report: &Report, apart_ns: i64) -> bool {
    let (mut below, total) = (0, rows.iter().map(|row| row.1).sum::<u64>());
    rows.iter().all(|(upper_us, count)| {
        below += count;
        let bound_ns = ((upper_us + 1) * 1000).saturating_add_signed(-apart_ns);
        let wide_ns = bound_ns / 5 + 800;
        let (fewest, most) =
            (count_below(report, bound_ns.saturating_sub(wide_ns)), count_below(report, bound_ns + wide_ns));
        (fewest.saturating_sub(total / 50)..=most + total / 50).contains(&below)
    })
}

/// Waits in buckets that begin below `bound_ns`.
fn count_below(report: &Report, bound_ns: u64) -> u64 {
    let buckets = report.groups.iter().flat_map(|group| &group.buckets);
    buckets.filter(|bucket| bucket.from_ns < bound_ns).map(|bucket| bucket.count).sum()
}
