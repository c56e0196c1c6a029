//! A recording that is killed can be read, and the kernel keeps nothing of the recorder.
//!
//! Twenty recorders are killed, and fifty if `$WAKELAT_SOAK` is set. `cargo xtask test --full` sets it.

use std::{
    path::Path,
    sync::{Arc, Barrier},
    thread,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    bpf_objects::{self, BpfObject},
    clock::{block_until, now_ns},
    documents, machine, once,
    procfs::{self, TaskStats},
    random::Random,
    report::JsonWait,
    suite::{Case, Skip, TestOutcome},
    timed_ping_pong::{TimedPingPong, TimedWakeup},
    wakelat::{Wakelat, command},
    workload::until,
};

pub fn cases() -> Vec<Case> {
    once![a_recording_killed_at_any_moment_is_complete_up_to_the_last_second]
}

/// How many recorders are killed.
fn kills() -> usize {
    if std::env::var_os("WAKELAT_SOAK").is_some() { 50 } else { 20 }
}

/// How many of them run at a time: each has its own programs and its own file.
const AT_A_TIME: usize = 10;

/// Up to this long after it has begun to measure, a recorder is killed: ns.
const KILLED_WITHIN_NS: f64 = 2e9;

const SECOND_NS: u64 = 1_000_000_000;

/// A recorder that was killed.
struct Killed {
    file: String,
    /// When it had begun to measure, and when it was killed: ns of CLOCK_MONOTONIC.
    measuring_at_ns: u64,
    killed_at_ns: u64,
    /// How long its threads waited for a CPU: ns.
    waited_ns: u64,
    /// What it had in the kernel.
    objects: Vec<BpfObject>,
}

/// A recorder that gets a CPU in time, whatever else the machine does: none of its buffers becomes full.
fn recorder(file: &str) -> Wakelat {
    Wakelat::measuring(command(&["record", "--rt-priority", "1", "-o", file]))
}

/// How long the threads of a process have waited for a CPU: ns. A reading can be late by that.
fn waited_ns(pid: u32) -> u64 {
    let threads = procfs::other_threads(pid).into_iter().chain([pid]);
    threads.map(|tid| TaskStats::of(tid).run_delay_ns).sum()
}

/// Kills a recorder `after_ns` after it has begun to measure, and if that is a second or more, after all of `started` have:
/// loading their programs keeps the CPUs from the others.
fn kill_recorder(file: String, after_ns: u64, started: &Barrier) -> Killed {
    let recorder = recorder(&file);
    let (measuring_at_ns, waited_before_ns) = (now_ns(), waited_ns(recorder.pid()));
    let objects = bpf_objects::of_process(recorder.pid());
    assert!(objects.iter().all(|object| object.exists()), "{objects:?}");
    let kill = |recorder: &Wakelat, from_ns: u64| {
        block_until(from_ns + after_ns);
        let waited_ns = waited_ns(recorder.pid());
        let killed_at_ns = now_ns();
        recorder.signal(Signal::SIGKILL);
        (killed_at_ns, waited_ns)
    };
    let killed_early = (after_ns < SECOND_NS).then(|| kill(&recorder, measuring_at_ns));
    started.wait();
    let (killed_at_ns, waited_ns) = killed_early.unwrap_or_else(|| kill(&recorder, now_ns()));
    assert_eq!(recorder.end().killed_by(), Some(Signal::SIGKILL as i32), "{file}");
    Killed { file, measuring_at_ns, killed_at_ns, waited_ns: waited_ns - waited_before_ns, objects }
}

/// The waits of these threads in a recording.
fn waits(file: &str, tids: [u32; 2]) -> Vec<JsonWait> {
    let tids = tids.map(|tid| tid.to_string()).join(",");
    let shown = command(&["trace", "--json", "-q", "--class", "wakeup", "--tid", &tids, "-i", file]).output();
    let shown = shown.expect("wakelat");
    assert!(shown.status.success(), "{file}: {shown:?}");
    JsonWait::parse_all(&String::from_utf8(shown.stdout).expect("UTF-8"))
}

fn has(waits: &[JsonWait], wakeup: &TimedWakeup) -> bool {
    let from = waits.partition_point(|wait| wait.at_ns < wakeup.written_at_ns);
    waits[from..].iter().take_while(|wait| wait.at_ns <= wakeup.read_at_ns).any(|wait| wait.tid == wakeup.tid)
}

/// The coverage of a recording.
fn coverage(file: &str) -> Value {
    let shown = command(&["hist", "--json", "-q", "-i", file]).output().expect("wakelat");
    assert!(shown.status.success(), "{file}: {shown:?}");
    let text = String::from_utf8(shown.stdout).expect("UTF-8");
    documents::assert_valid(&text);
    serde_json::from_str::<Value>(&text).expect("one report")["coverage"].take()
}

fn a_recording_killed_at_any_moment_is_complete_up_to_the_last_second() -> TestOutcome {
    if machine::is_emulated() {
        return Err(Skip::because("ten recorders have no CPU for a reading in time in an emulator"));
    }
    // In memory: where a write waits for a disk, a reading is late, and no count of the threads says by how much.
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut random = Random(50);
    let mut moments = (0..kills()).map(|_| (random.fraction() * KILLED_WITHIN_NS) as u64);
    let mut compared = 0;
    for batch in 0..kills() / AT_A_TIME {
        let after_ns: Vec<u64> = moments.by_ref().take(AT_A_TIME).collect();
        compared += compare_with_load(directory.path(), batch, &after_ns);
    }
    assert!(compared > 0, "every recorder waited for a CPU all the time");
    Ok(())
}

/// Kills recorders of the same load after these times, and compares each with the load's clock. Where the machine hides a
/// switch, a recorder beside them, which is not killed, does not have it either. Returns the number of compared wakeups.
fn compare_with_load(directory: &Path, batch: usize, after_ns: &[u64]) -> usize {
    let path = |name: &str| directory.join(format!("{batch}-{name}.wakelat")).to_str().expect("a path").to_owned();
    let whole_file = path("whole");
    let whole = recorder(&whole_file);
    let whole_from_ns = now_ns();
    let load = TimedPingPong::start(machine::one_cpu(), 2_000_000);
    let tids = load.tids;
    let started = Arc::new(Barrier::new(after_ns.len()));
    let kill = |(number, after_ns): (usize, &u64)| {
        let (file, after_ns, started) = (path(&number.to_string()), *after_ns, started.clone());
        thread::spawn(move || kill_recorder(file, after_ns, &started))
    };
    let killed: Vec<_> = after_ns.iter().enumerate().map(kill).collect();
    let killed: Vec<_> = killed.into_iter().map(|thread| thread.join().expect("it was killed")).collect();
    let wakeups = load.stop();
    whole.signal(Signal::SIGINT);
    assert!(whole.end().status.success());
    let whole = waits(&whole_file, tids);
    let all = wakeups.iter().filter(|wakeup| wakeup.written_at_ns >= whole_from_ns).count();
    let seen: Vec<_> = wakeups.into_iter().filter(|wakeup| has(&whole, wakeup)).collect();
    assert!(seen.len() * 10 >= all * 9, "{} of {all} wakeups: {}", seen.len(), coverage(&whole_file));
    let mut compared = 0;
    for Killed { file, measuring_at_ns, killed_at_ns, waited_ns, objects } in killed {
        let (waits, ran_ns) = (waits(&file, tids), killed_at_ns - measuring_at_ns);
        let expected = seen.iter().filter(|wakeup| {
            wakeup.written_at_ns >= measuring_at_ns && wakeup.read_at_ns + SECOND_NS + waited_ns <= killed_at_ns
        });
        let missing: Vec<&TimedWakeup> = expected.clone().filter(|wakeup| !has(&waits, wakeup)).collect();
        assert!(missing.is_empty(), "killed after {ran_ns} ns, without {}: {:?}", missing.len(), missing[0]);
        let coverage = coverage(&file);
        assert!(coverage["missing_end"]["at_byte"].is_u64(), "killed after {ran_ns} ns: {coverage}");
        let strict = command(&["hist", "--strict", "-i", &file]).output().expect("wakelat");
        assert_eq!(strict.status.code(), Some(1), "{strict:?}");
        assert!(!objects.is_empty(), "{file}");
        until("the kernel has freed what the recorder had", || !objects.iter().any(|object| object.exists()));
        println!("\n  killed after {} ms: {} wakeups", ran_ns / 1_000_000, expected.clone().count());
        compared += expected.count();
    }
    compared
}
