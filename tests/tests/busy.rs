//! Runs every command that streams events while both CPUs wake and switch tasks as fast as they can:
//! each command ends, and accounts for every wakeup.

use std::{collections::BTreeMap, process::Command};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    machine, once,
    report::JsonTerms,
    suite::{Case, Skip, TestOutcome},
    task::TaskPlacement,
    wakelat::{RunOutput, Wakelat, command},
    workload::{Performance, PingPong, Staged, Workload},
};

pub fn cases() -> Vec<Case> {
    once![
        a_busy_machine_is_measured_with_samples,
        a_busy_machine_is_explained,
        a_busy_machine_is_traced,
        a_busy_machine_is_traced_with_every_switch,
        a_busy_machine_is_recorded,
        a_busy_machine_is_aggregated_in_the_kernel,
        records_of_two_cpus_come_in_the_order_of_time,
    ]
}

/// Two tasks on each of two CPUs that hand a byte to and fro without a pause.
fn busy_pairs() -> Result<[Staged; 2], Skip> {
    // Takes about a second in an emulator, less elsewhere.
    let rounds = 1000;
    let pair = |cpu| {
        let place = TaskPlacement::other(cpu);
        Workload::PingPong(PingPong { rounds, ping: place, pong: place, patient: false, sleep_after_ns: 0 }).stage()
    };
    Ok(machine::two_cpus()?.map(pair))
}

/// Runs wakelat on the pairs, both of which perform at once.
fn measured(arguments: &[&str]) -> Result<(RunOutput, [Performance; 2]), Skip> {
    measured_by(command(&[arguments, &["--comm", "wl-p?ng"]].concat()))
}

/// Runs this command on the pairs.
fn measured_by(command: Command) -> Result<(RunOutput, [Performance; 2]), Skip> {
    let pairs = busy_pairs()?;
    let wakelat = Wakelat::measuring(command);
    let performers = pairs.map(|mut pair| std::thread::spawn(move || (pair.perform(), pair)));
    let performed = performers.map(|performer| performer.join().expect("the load performs"));
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    // Only now, because the exit of a task is a wakeup, too.
    let performances = performed.map(|(performance, _pair)| performance);
    Ok((ended, performances))
}

/// Runs a command that needs the ring buffer: it accounts for every wakeup, or wakelat refuses it
/// because the kernel's ring buffer would freeze the machine.
fn streams(arguments: &[&str]) -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        let refused = Wakelat::start(command(arguments)).end();
        refused.assert_refused(1, &["ring buffer", "PREEMPT_RT"]);
        return Ok(());
    }
    let (ended, performances) = measured(arguments)?;
    assert_every_wakeup_accounted_for(&ended, &performances);
    Ok(())
}

/// Asserts that each block of a task is one wakeup in the coverage: measured, or counted as lost.
fn assert_every_wakeup_accounted_for(ended: &RunOutput, performances: &[Performance; 2]) {
    assert!(ended.status.success(), "{ended:#?}");
    let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
    let last = documents.map(|document| document.expect("each line is JSON")).last().expect("a document at the end");
    let terms: JsonTerms = serde_json::from_value(last["coverage"].clone()).expect("the document has a coverage");
    assert_accounted(&terms, performances);
}

fn assert_accounted(terms: &JsonTerms, performances: &[Performance; 2]) {
    let blocked: u64 = performances.iter().map(Performance::blocked).sum();
    let untraced: u64 = performances.iter().map(|performance| performance.untraced).sum();
    let accounted =
        terms.measured + terms.task_table_full + terms.ring_buffer_full + terms.invalid + terms.missed_switch;
    println!("\n  {blocked} wakeups, {terms:?}");
    assert!((blocked.saturating_sub(untraced)..=blocked).contains(&accounted), "{blocked} wakeups: {terms:?}");
    assert!(terms.measured > 0, "{terms:?}");
}

fn a_busy_machine_is_measured_with_samples() -> TestOutcome {
    streams(&["hist", "--json", "--mode", "samples"])
}

fn a_busy_machine_is_explained() -> TestOutcome {
    streams(&["why", "--json"])
}

fn a_busy_machine_is_traced() -> TestOutcome {
    streams(&["trace", "--json"])
}

fn a_busy_machine_is_traced_with_every_switch() -> TestOutcome {
    streams(&["trace", "--all", "--json"])
}

fn a_busy_machine_is_recorded() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("busy.wakelat");
    let file = file.to_str().expect("a path");
    let record = ["record", "-o", file];
    if machine::ring_buffer_may_sleep() {
        return streams(&record);
    }
    let (ended, performances) = measured(&record)?;
    assert!(ended.status.success(), "{ended:#?}");
    let shown = Wakelat::start(command(&["why", "--json", "-i", file])).end();
    assert_every_wakeup_accounted_for(&shown, &performances);
    Ok(())
}

/// Without the ring buffer: the remaining mode if the ring buffer is refused.
fn a_busy_machine_is_aggregated_in_the_kernel() -> TestOutcome {
    // With groups, both CPUs also insert elements and empty the freelist of a hash map.
    for groups in [&[][..], &["--by", "tid,comm"], &["--by", "tid,comm", "--group-memory", "1"]] {
        let (ended, performances) = measured(&[&["hist", "--json", "--mode", "aggregate"], groups].concat())?;
        assert_every_wakeup_accounted_for(&ended, &performances);
    }
    Ok(())
}

/// Each CPU sends its records through a ring buffer of its own.
fn records_of_two_cpus_come_in_the_order_of_time() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the kernel's ring buffer would freeze the machine"));
    }
    let size = machine::ring_size();
    let mut command = command(&["trace", "--json", "--comm", "wl-p?ng", "--ring-size", &size]);
    command.env("RUST_LOG", "wakelat::collect=info");
    let (ended, performances) = measured_by(command)?;
    assert_every_wakeup_accounted_for(&ended, &performances);
    let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
    let (mut by_cpu, mut first_ns, mut latest_ns, mut behind) = (BTreeMap::<u64, u64>::new(), u64::MAX, 0, 0);
    for document in documents.map(|document| document.expect("each line is JSON")) {
        let Some(at_ns) = document["at_ns"].as_u64() else {
            assert_eq!(document["coverage"]["ring_buffer_full"], 0, "{document}");
            continue;
        };
        *by_cpu.entry(document["cpu"].as_u64().expect("a CPU")).or_default() += 1;
        behind += u64::from(at_ns < latest_ns);
        (first_ns, latest_ns) = (first_ns.min(at_ns), latest_ns.max(at_ns));
    }
    // A hypervisor may take the CPU from a program for longer than wakelat holds later records back: from one program
    // on each CPU for each time that wakelat reads the ring buffers. It does so every 20 ms, once the first wait has
    // ended and at the end; none of the ring buffers becomes a quarter full.
    let reads = (latest_ns - first_ns) / 20_000_000 + 2;
    let late = ended.stderr.lines().find_map(|line| {
        let (before, _) = line.split_once(" records came from the ring buffers after later ones")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    println!("\n  waits by CPU: {by_cpu:?}; {behind} behind a later one, {late:?} reported");
    assert!(by_cpu.len() >= 2, "{by_cpu:?}");
    assert!(behind <= late.unwrap_or(0), "{behind} waits behind a later one, {late:?} reported");
    assert!(behind <= reads * by_cpu.len() as u64, "{behind} waits behind a later one in {reads} reads");
    Ok(())
}
