//! What grows with the number of CPUs: the memory that each command takes, and where waits can get lost.
//! `cargo xtask vm --mode large` runs this suite on 160 CPUs.

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    agreement::assert_agrees,
    machine, once, procfs,
    report::JsonTerms,
    suite::{Case, Skip, TestOutcome},
    task::TaskPlacement,
    tracefs,
    wakelat::{Wakelat, command},
    workload::{PingPong, Staged, Workload},
};

pub fn cases() -> Vec<Case> {
    once![
        aggregating_commands_take_less_than_64_mib,
        commands_that_read_each_wait_take_less_than_256_mib,
        every_wakeup_on_every_cpu_is_accounted_for,
        verify_agrees_on_all_cpus_and_takes_less_than_256_mib,
    ]
}

const MIB: u64 = 1 << 20;

/// Pairs of tasks that hand a byte to and fro, on up to 16 CPUs that are far apart.
fn pairs() -> Vec<Staged> {
    let cpus = machine::cpus();
    let pair = |cpu: &usize| {
        let place = TaskPlacement::other(*cpu);
        Workload::PingPong(PingPong { rounds: 50, ping: place, pong: place, patient: false, sleep_after_ns: 0 }).stage()
    };
    cpus.iter().step_by(cpus.len().div_ceil(16)).map(pair).collect()
}

/// Asserts that the command that measures stays below this much memory: its own pages, with those of the maps that
/// it has mapped, and the maps of its programs in the kernel.
fn assert_takes_less_than(limit: u64, wakelat: &Wakelat, arguments: &[&str]) {
    let (resident, maps) = (procfs::peak_resident_bytes(wakelat.pid()), procfs::map_bytes(wakelat.pid()));
    println!("\n  {arguments:?}: {} MiB resident, {} MiB of maps", resident / MIB, maps / MIB);
    assert!(resident < limit && maps < limit, "{arguments:?}: {resident} bytes resident, {maps} bytes of maps");
}

/// Asserts that the command stays below this much memory while it measures waits on many CPUs.
fn takes_less_than(limit: u64, arguments: &[&str]) {
    let mut pairs = pairs();
    let wakelat = Wakelat::measuring(command(arguments));
    for pair in &mut pairs {
        pair.perform();
    }
    assert_takes_less_than(limit, &wakelat, arguments);
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
}

fn aggregating_commands_take_less_than_64_mib() -> TestOutcome {
    for arguments in [
        &["hist"][..],
        &["hist", "--from", "queued"],
        &["hist", "--from", "queued", "--by", "cgroup"],
        &["why", "--mode", "aggregate"],
    ] {
        takes_less_than(64 * MIB, &[arguments, &["--json", "-d", "10m"]].concat());
    }
    Ok(())
}

fn commands_that_read_each_wait_take_less_than_256_mib() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the BPF ring buffer of this kernel can freeze the machine"));
    }
    for arguments in [&["hist", "--json", "--mode", "samples", "-d", "10m"][..], &["why", "--json", "-d", "10m"]] {
        takes_less_than(256 * MIB, arguments);
    }
    Ok(())
}

fn every_wakeup_on_every_cpu_is_accounted_for() -> TestOutcome {
    let mut pairs = pairs();
    let wakelat = Wakelat::measuring(command(&["hist", "--json", "-d", "10m", "--comm", "wl-p?ng"]));
    let performed: Vec<_> = pairs.iter_mut().map(Staged::perform).collect();
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    // The report on the last line is that of the whole window.
    let report: Value = serde_json::from_str(ended.stdout.lines().last().unwrap_or_default()).expect("a report");
    let terms: JsonTerms = serde_json::from_value(report["coverage"].clone()).expect("a coverage");
    let blocked: u64 = performed.iter().map(|performance| performance.blocked()).sum();
    let untraced: u64 = performed.iter().map(|performance| performance.untraced).sum();
    let accounted = terms.measured + terms.missed_switch;
    assert_eq!(terms.task_table_full + terms.ring_buffer_full + terms.invalid, 0, "{terms:?}");
    assert!((blocked.saturating_sub(untraced)..=blocked).contains(&accounted), "{blocked} wakeups: {terms:?}");
    Ok(())
}

fn verify_agrees_on_all_cpus_and_takes_less_than_256_mib() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let mut pairs = pairs();
    let arguments = ["verify", "--json", "-d", "10m"];
    let wakelat = Wakelat::measuring(command(&arguments));
    for pair in &mut pairs {
        pair.perform();
    }
    assert_takes_less_than(256 * MIB, &wakelat, &arguments);
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    assert_agrees(ended.status.code().expect("not killed"), &document);
    Ok(())
}
