//! Runs every command that streams events while both CPUs wake and switch tasks as fast as they can:
//! each command ends, and accounts for every wakeup.

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    machine, once,
    report::JsonTerms,
    suite::{self, TestOutcome},
    task::TaskPlacement,
    wakelat::{RunOutput, Wakelat, command},
    workload::{Performance, PingPong, Staged, Workload},
};

fn main() {
    suite::main(once![
        a_busy_machine_is_measured_with_samples,
        a_busy_machine_is_explained,
        a_busy_machine_is_traced,
        a_busy_machine_is_traced_with_every_switch,
        a_busy_machine_is_recorded,
        a_busy_machine_is_aggregated_in_the_kernel,
    ]);
}

/// Two tasks on each of two CPUs that hand a byte to and fro without a pause.
fn busy_pairs() -> Result<[Staged; 2], suite::Skip> {
    // Takes a second or two in an emulator, less elsewhere.
    let rounds = 2000;
    let pair = |cpu| {
        let place = TaskPlacement::other(cpu);
        Workload::PingPong(PingPong { rounds, ping: place, pong: place, patient: false, sleep_after_ns: 0 }).stage()
    };
    Ok(machine::two_cpus()?.map(pair))
}

/// Runs wakelat on the pairs, both of which perform at once.
fn measured(arguments: &[&str]) -> Result<(RunOutput, [Performance; 2]), suite::Skip> {
    let pairs = busy_pairs()?;
    let wakelat = Wakelat::measuring(command(&[arguments, &["--comm", "wl-p?ng"]].concat()));
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
