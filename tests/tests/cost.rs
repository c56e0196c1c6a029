//! The cost of a wakeup and the switch to its task, in instructions: of the programs, and of the hist
//! triggers that measure the same, on a machine whose time is a count of instructions.

use nix::sys::signal::Signal;
use wakelat_tests::{
    clock::now_ns,
    machine, once,
    suite::{Case, Skip, TestOutcome},
    tracefs,
    wakelat::{AttachCase, Wakelat, command},
    workload::{PingPong, Workload},
};

pub fn cases() -> Vec<Case> {
    once![a_wait_costs_fewer_instructions_than_hist_triggers]
}

/// Duration of an instruction in the deterministic machine (`xtask/kernel-vm/src/qemu.rs`): ns.
const INSTRUCTION_NS: u64 = 4;

/// Bytes each way in one performance: enough to make a timer tick negligible.
const ROUNDS: u64 = 1_000;

/// Number of performances. What else the kernel does meanwhile, such as freeing the memory of a process that has just
/// ended, only adds instructions: the least of all performances has none of it.
const PERFORMANCES: u64 = 6;

/// The recipe of docs/hist-triggers.md, for every task.
struct Triggers;

const SYNTHETIC: &str = "wl_cost u64 lat";
const TRIGGERS: [[&str; 2]; 3] = [
    ["events/sched/sched_wakeup/trigger", "hist:keys=pid:wl_at=common_timestamp.usecs:size=16384"],
    [
        "events/sched/sched_switch/trigger",
        "hist:keys=next_pid:wl_lat=common_timestamp.usecs-$wl_at:onmatch(sched.sched_wakeup).wl_cost($wl_lat):size=16384",
    ],
    ["events/synthetic/wl_cost/trigger", "hist:keys=lat:size=16384"],
];

impl Triggers {
    fn install() -> Self {
        tracefs::append("synthetic_events", SYNTHETIC);
        let triggers = Self;
        TRIGGERS.iter().for_each(|[file, trigger]| tracefs::append(file, trigger));
        triggers
    }
}

impl Drop for Triggers {
    fn drop(&mut self) {
        for [file, trigger] in TRIGGERS.iter().rev() {
            if tracefs::read(file).contains("hist:") {
                tracefs::append(file, &format!("!{trigger}"));
            }
        }
        tracefs::append("synthetic_events", "!wl_cost");
    }
}

/// Instructions of half a round trip, a wakeup and a switch, with whatever measures at the moment.
fn instructions() -> u64 {
    let of_one_performance = |_| {
        let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS)).stage();
        let begun_ns = now_ns();
        let performance = staged.perform();
        (now_ns() - begun_ns) / INSTRUCTION_NS / performance.wakeups()
    };
    (0..PERFORMANCES).map(of_one_performance).min().expect("there are some")
}

/// How many instructions more `measured` takes than nothing, and prints it. What nothing takes changes by a tenth while
/// a kernel runs, so it is measured just before and just after, until both agree.
fn added(mode: &str, measured: impl Fn() -> u64) -> u64 {
    /// How often: a kernel changes rarely.
    const TRIES: usize = 6;
    for _ in 0..TRIES {
        let before = instructions();
        let with = measured();
        let after = instructions();
        println!("  {mode}: {with}; without: {before} before and {after} after");
        if before.abs_diff(after) * 100 <= before {
            let added = with.saturating_sub(before.midpoint(after));
            println!("EXECUTED {mode} {added}");
            return added;
        }
    }
    panic!("{mode}: the kernel's own instructions changed {TRIES} times");
}

fn with_queue_clock(arguments: &[&str]) -> u64 {
    let arguments = [&["--from", "queued"], arguments].concat();
    let wakelat = Wakelat::hist(AttachCase::Btf, &arguments);
    let instructions = instructions();
    let terms = wakelat.report().coverage.switch_ins.expect("the queue clock counts switch-ins");
    assert!(terms.measured >= (2 * ROUNDS - 2) * PERFORMANCES && terms.ring_buffer_full == 0, "{terms:?}");
    instructions
}

fn with_causes() -> u64 {
    let wakelat = Wakelat::measuring(command(&["why", "--mode", "aggregate", "--by", "cgroup", "--json"]));
    let instructions = instructions();
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    instructions
}

fn with_wakelat(arguments: &[&str]) -> u64 {
    let wakelat = Wakelat::hist(AttachCase::Btf, arguments);
    let instructions = instructions();
    let terms = wakelat.report().coverage.wakeups;
    assert!(terms.measured >= 2 * ROUNDS * PERFORMANCES && terms.ring_buffer_full == 0, "{terms:?}");
    instructions
}

fn a_wait_costs_fewer_instructions_than_hist_triggers() -> TestOutcome {
    if !machine::is_emulated() || !machine::has_own_time() {
        return Err(Skip::because("instructions are counted only in the deterministic virtual machine"));
    }
    tracefs::need_hist_triggers()?;
    // The reader, which has to share the CPU, runs only at the end.
    let samples = ["--mode", "samples", "--ring-size", "16M", "--drain-interval", "60s"];
    // Everything runs in one cgroup, so the groups of both are alike.
    let by_cgroup = ["--by", "cgroup", "--mode", "aggregate"];
    // `cargo xtask vm` compares what is printed with the accepted figures.
    println!("\n  instructions of a wakeup and a switch:");
    let triggers = added("hist_triggers", || {
        let _triggers = Triggers::install();
        instructions()
    });
    let counted = added("wakeup_aggregate", || with_wakelat(&[]));
    let grouped = added("wakeup_by_cgroup", || with_wakelat(&by_cgroup));
    let delivered = added("wakeup_samples", || with_wakelat(&samples));
    let queued = added("queued_aggregate", || with_queue_clock(&[]));
    let queued_grouped = added("queued_by_cgroup", || with_queue_clock(&by_cgroup));
    let queued_samples = added("queued_samples", || with_queue_clock(&samples));
    let causes = added("queued_causes", with_causes);
    assert!(counted < triggers && delivered < triggers);
    assert!(queued < counted && queued_samples < delivered);
    assert!(queued_grouped < grouped && grouped < triggers);
    assert!(queued_grouped < causes && causes < triggers);
    Ok(())
}
