//! The cost of a wakeup and the switch to its task, in instructions: of the programs, and of the hist
//! triggers that measure the same, on a machine whose time is a count of instructions.

use wakelat_tests::{
    clock::now_ns,
    machine, once,
    suite::{self, Skip, TestOutcome},
    tracefs,
    wakelat::{AttachCase, Wakelat},
    workload::{PingPong, Workload},
};

fn main() {
    suite::main(once![a_wait_costs_fewer_instructions_than_hist_triggers]);
}

/// Duration of an instruction in the deterministic machine (`xtask/kernel-vm/src/qemu.rs`): ns.
const INSTRUCTION_NS: u64 = 4;

/// Bytes each way: enough to make a timer tick negligible.
const ROUNDS: u64 = 4_000;

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
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS)).stage();
    let begun_ns = now_ns();
    let performance = staged.perform();
    (now_ns() - begun_ns) / INSTRUCTION_NS / performance.wakeups()
}

fn with_queue_clock(arguments: &[&str]) -> u64 {
    let arguments = [&["--from", "queued"], arguments].concat();
    let wakelat = Wakelat::hist(AttachCase::Btf, &arguments);
    let instructions = instructions();
    let terms = wakelat.report().coverage.switch_ins.expect("the queue clock counts switch-ins");
    assert!(terms.measured >= 2 * ROUNDS - 2 && terms.ring_buffer_full == 0, "{terms:?}");
    instructions
}

fn with_wakelat(arguments: &[&str]) -> u64 {
    let wakelat = Wakelat::hist(AttachCase::Btf, arguments);
    let instructions = instructions();
    let terms = wakelat.report().coverage.wakeups;
    assert!(terms.measured >= 2 * ROUNDS && terms.ring_buffer_full == 0, "{terms:?}");
    instructions
}

fn a_wait_costs_fewer_instructions_than_hist_triggers() -> TestOutcome {
    if !machine::is_emulated() || !machine::has_own_time() {
        return Err(Skip::because("instructions are counted only in the deterministic virtual machine"));
    }
    tracefs::need_hist_triggers()?;
    let nothing = instructions();
    let triggers = {
        let _triggers = Triggers::install();
        instructions()
    };
    let counted = with_wakelat(&[]);
    // The reader, which has to share the CPU, runs only at the end.
    let delivered = with_wakelat(&["--mode", "samples", "--ring-size", "16M", "--drain-interval", "60s"]);
    let queued = with_queue_clock(&[]);
    let queued_samples = with_queue_clock(&["--mode", "samples", "--ring-size", "16M", "--drain-interval", "60s"]);
    // Everything runs in one cgroup, so the groups of both are alike.
    let grouped = with_wakelat(&["--by", "cgroup", "--mode", "aggregate"]);
    let queued_grouped = with_queue_clock(&["--by", "cgroup", "--mode", "aggregate"]);
    println!(
        "\n  COST a wakeup and a switch: {nothing} instructions; more with hist triggers: {}, counted: {}, each delivered: {}; \
         by the run queue's clock counted: {}, each delivered: {}; counted by cgroup: {}, by the run queue's clock: {}",
        triggers - nothing,
        counted - nothing,
        delivered - nothing,
        queued - nothing,
        queued_samples - nothing,
        grouped - nothing,
        queued_grouped - nothing
    );
    assert!(counted < triggers && delivered < triggers);
    assert!(queued < counted && queued_samples < delivered);
    assert!(queued_grouped < grouped && grouped < triggers);
    Ok(())
}
