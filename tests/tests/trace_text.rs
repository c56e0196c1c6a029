//! `-i` with the text of `perf script` and of ftrace: the waits are those that perf and the oracle find in the same
//! events.

use std::{collections::BTreeMap, fs, fs::File, path::Path};

use serde_json::Value;
use wakelat_tests::{
    ftrace_recording::EventRecording,
    machine, once,
    perf_sched::PerfSched,
    replay,
    report::{JsonReport, JsonWait},
    suite::{Case, Skip, TestOutcome},
    switches::JsonSwitch,
    task::Policy,
    tracefs,
    wakelat::command,
    workload::{BehindHog, PingPong, WakeRace, Workload},
};

/// Precision of perf's analysis and of ftrace's text: ns.
const PRINTED_NS: u64 = 1_000;

pub fn cases() -> Vec<Case> {
    once![the_text_of_perf_script_has_the_waits_of_perf_timehist, the_text_of_ftrace_has_the_waits_of_the_oracle,]
}

/// The output of a view of `text`, which it reads from standard input.
fn view(arguments: &[&str], text: &Path) -> String {
    let mut command = command(arguments);
    let output = command.args(["--quiet", "-i", "-"]).stdin(File::open(text).expect("the text")).output();
    let output = output.expect("wakelat");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Workloads in which no wakeup overlaps with another one of the same task: for those that do, perf has a rule of its
/// own.
fn loads() -> [(Workload, [&'static str; 2]); 2] {
    let cpu = machine::cpus()[0];
    let hog = BehindHog { rounds: 50, spin_ns: 2_000_000, cpu, sleeper: Policy::Fifo(20) };
    [
        (Workload::PingPong(PingPong::on_one(cpu, 2_000)), ["wl-ping", "wl-pong"]),
        (Workload::BehindHog(hog), ["wl-hog", "wl-sleeper"]),
    ]
}

fn the_text_of_perf_script_has_the_waits_of_perf_timehist() -> TestOutcome {
    for (load, threads) in loads() {
        let mut staged = load.stage();
        let mut perf = PerfSched::record()?;
        staged.perform();
        perf.stop()?;
        let directory = tempfile::tempdir().expect("a directory");
        let text = directory.path().join("text");
        fs::write(&text, perf.script()).expect("a file");
        for tid in threads.map(|name| staged.tid(name)) {
            assert_has_the_lines_of_timehist(&text, &perf, tid);
            assert_has_the_waits_of_latency(&text, &perf, tid);
        }
    }
    Ok(())
}

/// Every switch-out of the thread, and the wait before its switch-in, is that of `perf sched timehist`.
fn assert_has_the_lines_of_timehist(text: &Path, perf: &PerfSched, tid: u32) {
    let all = view(&["trace", "--all", "--json", "--from", "waking", "--tid", &tid.to_string()], text);
    let us = |at_ns: u64| at_ns / 1_000;
    let lines: BTreeMap<u64, _> =
        perf.timehist().into_iter().filter(|line| line.tid == tid).map(|line| (us(line.at_ns), line)).collect();
    let (mut ours, mut woken, mut preempted, mut forgotten) = (0, 0, 0, 0);
    for switch in JsonSwitch::parse_all(&all).into_iter().filter(|switch| switch.tid == tid) {
        // perf rounds down.
        let line = lines.get(&us(switch.at_ns)).unwrap_or_else(|| panic!("perf has no line for {switch:?}"));
        ours += 1;
        let is = |ours_ns: u64, perfs_ns: u64| {
            assert!(ours_ns.abs_diff(perfs_ns) <= PRINTED_NS, "{ours_ns} ns in {switch:?}, {perfs_ns} ns in {line:?}");
        };
        if !line.came {
            continue;
        }
        is(switch.run_ns.expect("its switch-in is in the trace"), line.run_ns);
        match (switch.class.as_deref(), switch.latency_ns) {
            // perf forgets a `sched_waking` that came before the task had left its CPU.
            (Some("wakeup"), Some(latency_ns))
                if line.delay_ns == 0 && switch.off_cpu_ns.is_some_and(|off_ns| latency_ns + PRINTED_NS > off_ns) =>
            {
                forgotten += 1;
            }
            (Some("wakeup" | "new"), Some(latency_ns)) => {
                woken += 1;
                is(latency_ns, line.delay_ns);
            }
            (Some("preempted"), Some(latency_ns)) => {
                preempted += 1;
                is(latency_ns, line.wait_ns);
            }
            // Only the first switch-in of the trace, and those that the kernel does not explain.
            _ => assert_eq!(line.delay_ns, 0, "{switch:?}, {line:?}"),
        }
    }
    println!("\n  {tid}: {ours} lines, {woken} woken, {preempted} preempted, {forgotten} forgotten by perf");
    assert_eq!(ours, lines.len(), "lines of perf and of wakelat");
    // The load has 50 or more; a machine may hide the switches of some.
    assert!(woken + preempted > 25 && forgotten < woken, "{woken} and {preempted} waits, {forgotten} forgotten");
}

/// The waits from `sched_wakeup` on are those of `perf sched latency`.
fn assert_has_the_waits_of_latency(text: &Path, perf: &PerfSched, tid: u32) {
    let class = "wakeup,new,preempted";
    let json = view(&["top", "--json", "--class", class, "--by", "tid", "--tid", &tid.to_string()], text);
    let report: JsonReport = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let latency = perf.latency().into_iter().find(|latency| latency.tid == tid).expect("perf knows the thread");
    let of = |class: &str| {
        report.groups.iter().find(|group| group.class == class).map_or((0, 0), |group| (group.count, group.sum_ns))
    };
    let all = ["wakeup", "new", "preempted"].map(of);
    let (count, sum_ns) = all.iter().fold((0, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
    println!("  {tid}: {all:?} by wakelat, {latency:?}");
    // perf 6.1 takes a task that is preempted in the kernel (`R+`) for asleep.
    let counts = count - all[2].0..=count;
    assert!(counts.contains(&latency.count), "{} waits by perf, expected {counts:?}", latency.count);
    if latency.count == count {
        let avg_ns = sum_ns / count.max(1);
        assert!(avg_ns.abs_diff(latency.avg_ns) <= PRINTED_NS, "{avg_ns} ns by wakelat, {latency:?}");
    }
    let max_ns = report.groups.iter().map(|group| group.max_ns).max().unwrap_or(0);
    assert!(latency.max_ns <= max_ns + PRINTED_NS, "{max_ns} ns by wakelat, {latency:?}");
}

/// `trace --all -w -M` shows as many as the text has lines.
fn assert_has_each_wakeup_and_migration(text: &Path, threads: [&str; 2]) {
    let lines = fs::read_to_string(text).expect("the text");
    for comm in threads {
        let all = view(&["trace", "--all", "-w", "-M", "--json", "--comm", comm], text);
        let events: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for (name, line) in [("wakeup", "sched_wakeup"), ("migration", "sched_migrate_task")] {
            let found = events.iter().filter(|event| event["event"] == name).count();
            assert_eq!(found, lines.matches(&format!("{line}: comm={comm} ")).count(), "{line} of {comm}");
        }
    }
}

fn the_text_of_ftrace_has_the_waits_of_the_oracle() -> TestOutcome {
    if !Path::new(&tracefs::path("instances")).is_dir() {
        return Err(Skip::because("tracefs is not mounted, or has no instances"));
    }
    let race = WakeRace { rounds: 500, cpus: machine::two_cpus()?, preemptor: true, sleep_after_ns: 1_000_000 };
    let race = (Workload::WakeRace(race), ["wl-wakee", "wl-preemptor"]);
    for (load, threads) in loads().into_iter().chain([race]) {
        let mut staged = load.stage();
        let recording = EventRecording::start();
        staged.perform();
        let directory = tempfile::tempdir().expect("a directory");
        let text = directory.path().join("text");
        fs::write(&text, recording.stopped_text()).expect("a file");
        let own = replay::own(&recording.events(), |comm| threads.contains(&comm));
        let mut arguments = vec!["trace", "--json", "--class", "wakeup,new,preempted"];
        threads.iter().for_each(|comm| arguments.extend(["--comm", comm]));
        let waits = JsonWait::parse_all(&view(&arguments, &text));
        assert_has_each_wakeup_and_migration(&text, threads);
        println!("\n  {} waits by the oracle, {} by wakelat", own.waits.len(), waits.len());
        assert!(own.waits.len() > 25 && own.waits.len() == waits.len(), "{} and {}", own.waits.len(), waits.len());
        let by_end = |at_ns: u64, tid: u32| (at_ns / 1_000, tid);
        let mut expected: Vec<_> = own.waits.iter().collect();
        expected.sort_by_key(|wait| by_end(wait.at_ns, wait.tid));
        let mut found: Vec<_> = waits.iter().collect();
        found.sort_by_key(|wait| by_end(wait.at_ns, wait.tid));
        for (found, expected) in found.into_iter().zip(expected) {
            let apart_ns = |of: Option<u64>, from: Option<u64>| of.zip(from).map(|(of, from)| of.abs_diff(from));
            assert_eq!(
                (found.tid, &*found.class, found.cpu),
                (expected.tid, expected.class, expected.cpu),
                "{found:?}"
            );
            assert!(found.at_ns.abs_diff(expected.at_ns) <= PRINTED_NS, "{found:?}, {expected:?}");
            assert!(found.latency_ns.abs_diff(expected.latency_ns) <= PRINTED_NS, "{found:?}, {expected:?}");
            if expected.class == "wakeup" {
                assert_eq!(found.waker_tid, expected.waker, "{found:?}, {expected:?}");
                assert!(
                    apart_ns(found.delivery_ns, expected.delivery_ns) <= Some(PRINTED_NS),
                    "{found:?}, {expected:?}"
                );
            }
        }
    }
    Ok(())
}
