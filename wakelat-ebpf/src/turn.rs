//! Every switch is told, with the wait that ends in it.

use core::mem;

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
};
use wakelat_common::{
    Counter, Sample,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
    start::Leaving,
    timeline::{IDLE_STATE_UNKNOWN, NO_WAIT, Turn, flag, kind, leaving_number, part, source},
};

use crate::{
    filter,
    maps::WITH_CGROUP,
    switch::{self, Ending},
    task::TaskFields,
    timeline::{self, Sender, tells},
};

/// How many switches a CPU tells between two looks at how full the ring buffer is. Must be a power of two.
const LOOK_EVERY: u32 = 16;

/// Takes the place of [`switch::switch`]. Goes from `prev` to `next` at one instant: where the wait of `prev` begins is where
/// its slice ends.
#[inline(always)]
pub fn turn<T: TaskFields>(ctx: &impl EbpfContext, preempt: bool, prev: T, next: T) {
    if switch::is_over(preempt, prev) {
        return;
    }
    // SAFETY: no arguments, no side effects.
    let (now, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    let (prev_pid, next_pid) = (prev.pid(), next.pid());
    let leaving = prev.leaves(preempt);
    if prev_pid != 0 {
        switch::switch_out(prev, prev_pid, leaving, || (now, cpu));
    }
    let ended = if next_pid != 0 { switch::switch_in(ctx, next, next_pid, || (now, cpu)) } else { None };
    tell(now, cpu, (prev, prev_pid, leaving), (next, next_pid), ended);
}

#[inline(always)]
fn tell<T: TaskFields>(
    now: u64,
    cpu: u32,
    (prev, prev_pid, leaving): (T, u32, Leaving),
    (next, next_pid): (T, u32),
    ended: Option<Ending>,
) {
    let Some(here) = timeline::here() else { return };
    let mut idle_state = IDLE_STATE_UNKNOWN;
    let look = {
        // SAFETY: the pointer is to this CPU's own entry, and nothing on this CPU interrupts a switch.
        let here = unsafe { &mut *here };
        if tells(part::NOISE) {
            // On PREEMPT_RT a softirq may lose the CPU like any code of its thread: what is under way belongs to the thread.
            here.from_ns[source::SOFTIRQ as usize] = 0;
        }
        if prev_pid == 0
            && let state @ 1.. = mem::take(&mut here.idle_state)
        {
            idle_state = (state - 1) as u8;
        }
        here.turns = here.turns.wrapping_add(1);
        here.turns & (LOOK_EVERY - 1) == 0
    };
    let mut flags = 0;
    let wants_cpu = filter::wants_cpu(cpu);
    if prev_pid != 0 && wants_cpu && filter::wants(prev, prev_pid) {
        flags |= flag::PREV_WANTED;
    }
    if next_pid != 0 && wants_cpu && filter::wants(next, next_pid) {
        flags |= flag::NEXT_WANTED;
    }
    if tells(part::CLOCKS) && prev.rt_throttled() {
        flags |= flag::RT_THROTTLED;
    }
    let cgroup_id = |task: T| if WITH_CGROUP.load() != 0 { task.cgroup_id() } else { 0 };
    let sent = timeline::send(here, Sender::Uninterrupted, look, |turn: &mut Turn, lost| {
        *turn = Turn {
            sample: Sample {
                kind: kind::TURN,
                level: 0,
                class: NO_WAIT,
                wakeable: 0,
                cpu,
                at_ns: now,
                latency_ns: 0,
                delivery_ns: 0,
                cgroup_id: cgroup_id(next),
                pid: next_pid,
                tgid: next.tgid(),
                prio: next.prio(),
                policy: next.policy(),
                prev_cpu: CPU_UNKNOWN,
                waker_pid: 0,
                prev_pid,
                prev_prio: prev.prio(),
                comm: next.comm(),
                prev_comm: prev.comm(),
            },
            lost,
            wait_cpu: CPU_UNKNOWN,
            waker_cpu: CPU_UNKNOWN,
            leaving: leaving_number(leaving),
            flags,
            idle_state,
            moves: 0,
            prev_tgid: prev.tgid(),
            prev_policy: prev.policy(),
            prev_cgroup_id: cgroup_id(prev),
            throttled_ns: 0,
            stolen_ns: 0,
        };
        if let Some(Ending { start, course, latency_ns, delivery_ns, .. }) = ended {
            // SAFETY: the entry is this task's, and the kernel's locks let one CPU at a time wake, move or switch it.
            let course = unsafe { &*course };
            turn.sample.level = start.level;
            turn.sample.class = start.class;
            turn.sample.wakeable = start.wakeable;
            turn.sample.latency_ns = latency_ns;
            turn.sample.delivery_ns = delivery_ns;
            turn.sample.prev_cpu = start.prev_cpu;
            turn.sample.waker_pid = start.waker_pid;
            turn.wait_cpu = course.cpu;
            if delivery_ns != DELIVERY_UNKNOWN {
                turn.waker_cpu = course.waker_cpu;
            }
            turn.moves = course.moves;
            let parts = course.end(timeline::clocks(next), now - start.at_ns);
            turn.flags |= parts.flags;
            turn.throttled_ns = parts.throttled_ns;
            turn.stolen_ns = parts.stolen_ns;
        }
    });
    if let Some(Ending { tally, .. }) = ended {
        tally.count(if sent { Counter::Delivered } else { Counter::RingFull });
    }
}
