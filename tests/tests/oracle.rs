//! The exact oracle: every single wait matches the one that a recording of the same events yields by
//! the same rules.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached,
    clock::now_ns,
    clock_differences::ClockDifferences,
    ftrace_recording::EventRecording,
    golden, machine, once,
    replay::{self, ReplayedWaits},
    suite::{Case, Skip, TestOutcome},
    task::TaskPlacement,
    tracefs,
    wakelat::{AttachCase, Wakelat, command},
    workload::{ForkWorkload, Performance, PingPong, WakeRace, Workload},
};

pub fn cases() -> Vec<Case> {
    let by_every_way = attached![each_sample_of_a_ping_pong_is_the_one_recorded];
    let once = once![
        each_sample_of_a_wake_race_is_the_one_recorded,
        each_sample_of_a_fork_burst_is_the_one_recorded,
        the_triggers_of_verify_count_what_was_recorded,
        a_whole_report_is_the_golden_one_with_the_recorded_latencies,
    ];
    by_every_way.into_iter().chain(once).collect()
}

/// By how much a latency may differ from the recorded one if time is counted in instructions (4 ns each): ns.
///
/// At a wakeup the program reads the clock 0.9 to 2.3 µs after the record's time was taken, at a switch
/// 3.8 to 6.3 µs after: it has handled the outgoing task first, and looks up the incoming one.
/// Interrupts are off at both, so nothing else comes between, except a full page of the ring buffer.
const EXACT_NS: i64 = 4_000;

/// Measures `load` with `trace` and with a recording, and compares them wait by wait, for the tasks
/// with these names.
///
/// # Errors
/// On a machine whose kernel may hide switches from its own recording: docs/semantics.md, "When
/// instruments disagree".
fn recorded(attach: AttachCase, load: Workload, comms: &[&str]) -> Result<(ReplayedWaits, Performance), Skip> {
    if !machine::is_emulated() {
        return Err(Skip::because("recordings are complete only in the tests' virtual machines"));
    }
    let mut staged = load.stage();
    let recording = EventRecording::start();
    let mut arguments = vec!["trace", "--json", "--attach", attach.name(), "--threshold", "1ns", "--ring-size", "16M"];
    arguments.extend(["--class", "wakeup,new,preempted"]);
    comms.iter().for_each(|comm| arguments.extend(["--comm", comm]));
    let wakelat = Wakelat::measuring(command(&arguments));
    let opened_ns = now_ns();
    let performance = staged.perform();
    // The tasks that the load names are blocked, but an exiting child may not be gone yet.
    let window = opened_ns..now_ns();
    let mut samples = wakelat.waits();
    let mut own = replay::own(&recording.events(), |comm| comms.contains(&comm));
    samples.retain(|sample| window.contains(&sample.at_ns));
    own.waits.retain(|wait| window.contains(&wait.at_ns));
    let distances = ClockDifferences::of(&samples, &own.waits);
    println!("\n  {} waits, {}", own.waits.len(), distances.text());
    assert_eq!(own.unexplained, 0);
    if machine::is_emulated() && machine::has_own_time() {
        for distance_ns in distances.latency_ns.iter().chain(&distances.delivery_ns) {
            assert!(distance_ns.abs() <= EXACT_NS, "{}", distances.text());
        }
    }
    Ok((own, performance))
}

fn count(own: &ReplayedWaits, class: &str) -> u64 {
    own.waits.iter().filter(|wait| wait.class == class).count() as u64
}

fn each_sample_of_a_ping_pong_is_the_one_recorded(attach: AttachCase) -> TestOutcome {
    let load = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 1000));
    let (own, performance) = recorded(attach, load, &["wl-ping", "wl-pong"])?;
    assert_eq!(count(&own, "wakeup"), performance.wakeups());
    Ok(())
}

/// A load that has waits of both kinds and runs into each of the traps.
fn wake_race(rounds: u64) -> (Workload, [&'static str; 3]) {
    let cpu = machine::one_cpu();
    let load = WakeRace { rounds, cpus: [cpu, cpu], preemptor: true, sleep_after_ns: 1_000_000 };
    (Workload::WakeRace(load), ["wl-wakee", "wl-waker", "wl-preemptor"])
}

fn each_sample_of_a_wake_race_is_the_one_recorded() -> TestOutcome {
    let (load, comms) = wake_race(200);
    let (own, _) = recorded(AttachCase::Btf, load, &comms)?;
    assert!(count(&own, "preempted") > 0 && count(&own, "wakeup") > 200);
    Ok(())
}

fn each_sample_of_a_fork_burst_is_the_one_recorded() -> TestOutcome {
    let load = ForkWorkload { children: 50, run_ns: 500_000, place: TaskPlacement::other(machine::one_cpu()) };
    let (own, _) = recorded(AttachCase::Btf, Workload::Forks(load), &["wl-forker"])?;
    assert_eq!(count(&own, "new"), 50);
    Ok(())
}

fn the_triggers_of_verify_count_what_was_recorded() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let (load, comms) = wake_race(200);
    let mut staged = load.stage();
    let mut arguments = vec!["verify", "--json", "-d", "10m"];
    comms.iter().for_each(|comm| arguments.extend(["--comm", comm]));
    let wakelat = Wakelat::measuring(command(&arguments));
    // The instance of `verify`: there an event has one time, for the record and for the triggers.
    let left = tracefs::left_by_wakelat();
    let instance = left.iter().find(|name| !name.contains(' ')).expect("verify has an instance");
    let recording = EventRecording::within(instance);
    staged.perform();
    let tids: Vec<u32> = comms.iter().map(|comm| staged.tid(comm)).collect();
    let waits = replay::trigger(&recording.events(), |tid| tids.contains(&tid));
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));

    let (comparison, mut buckets) = (&document["comparison"], BTreeMap::new());
    let recorded_ns: u64 = waits.iter().map(|(_, latency_ns)| latency_ns).sum();
    for (_, latency_ns) in &waits {
        // `~ 2^k` is (2^(k−1), 2^k].
        *buckets.entry(latency_ns.next_power_of_two()).or_default() += 1;
    }
    let counted: BTreeMap<u64, u64> = comparison["buckets"].as_array().expect("a list").iter().map(bucket).collect();
    let number = |side: &str, name: &str| comparison[side][name].as_u64().expect("a number");
    let bpf_ns = number("wakelat", "sum_ns");
    println!(
        "\n  {} waits, recorded {recorded_ns} ns, trigger {} ns, wakelat {bpf_ns} ns",
        waits.len(),
        number("trigger", "sum_ns")
    );
    assert_eq!(counted.into_iter().filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>(), buckets);
    for (side, name, expected) in [
        ("trigger", "count", waits.len() as u64),
        ("trigger", "sum_ns", recorded_ns),
        ("trigger", "dropped", 0),
        ("wakelat", "count", waits.len() as u64),
    ] {
        assert_eq!(number(side, name), expected, "{side} {name}: {document:#}");
    }
    if machine::is_emulated() && machine::has_own_time() {
        assert!(bpf_ns.abs_diff(recorded_ns) <= EXACT_NS as u64 * waits.len() as u64, "{document:#}");
    }
    assert_eq!(ended.status.code(), Some(0), "{document:#}");
    Ok(())
}

fn a_whole_report_is_the_golden_one_with_the_recorded_latencies() -> TestOutcome {
    if !machine::is_emulated() || !machine::has_own_time() {
        return Err(Skip::because("only where time is counted in instructions is every figure exact"));
    }
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 500)).stage();
    let recording = EventRecording::start();
    let wakelat = Wakelat::hist(AttachCase::Btf, &["--by", "comm,cpu", "--comm", "wl-ping", "--comm", "wl-pong"]);
    staged.perform();
    let report = wakelat.report();
    let own = replay::own(&recording.events(), |comm| ["wl-ping", "wl-pong"].contains(&comm));
    for group in &report.groups {
        let tid = staged.tid(group.key["comm"].as_str().expect("a name"));
        let waits: Vec<&replay::ReplayWait> =
            own.waits.iter().filter(|wait| wait.tid == tid && wait.class == group.class).collect();
        // The golden counts hold there, too.
        if !machine::records_blocks_on_locks_as_preemptions() {
            golden::assert_recorded(group, &waits, EXACT_NS.unsigned_abs());
        }
    }
    // Under PREEMPT_RT, a task woken by one of lower priority sleeps once more, for a lock that its waker holds.
    let golden = if machine::is_preempt_rt() {
        include_str!("../golden/ping_pong.preempt_rt.json")
    } else {
        include_str!("../golden/ping_pong.json")
    };
    let text = golden::text(&report).replace("\"missed\":null", "\"missed\":0");
    assert_eq!(text, golden, "tests/golden should be:\n{text}");
    Ok(())
}

/// The largest value of a bucket, and the trigger's count in it.
fn bucket(bucket: &Value) -> (u64, u64) {
    (bucket["last_ns"].as_u64().expect("a number"), bucket["trigger"].as_u64().expect("a number"))
}
