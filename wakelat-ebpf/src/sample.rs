//! Sends a [`Sample`] through the ring buffer for each wait that `sched_switch` ends; also reserves and
//! submits the records of all other programs.

use aya_ebpf::{
    bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::bpf_get_smp_processor_id,
    maps::ring_buf::RingBufEntry,
};
use wakelat_common::{Counter, Sample, sample::KIND_SAMPLE};

use crate::{
    ended_wait::EndedWait,
    kernel_structs::TaskFields,
    maps::{CpuCounters, SAMPLES, WITH_CGROUP, ring_is_at_watermark},
};

/// A CPU checks the fill level of the ring buffer once in this many samples. Must be a power of two.
const CHECK_RING_EVERY: u64 = 16;

/// All that is known about a wait when `sched_switch` ends it.
#[inline(always)]
pub fn sample<T: TaskFields>(ending: EndedWait, prev: T, next: T) -> Sample {
    let EndedWait { pending, now, latency_ns, .. } = ending;
    Sample {
        kind: KIND_SAMPLE,
        sampling_shift: pending.sampling_shift,
        class: pending.class,
        preempted_sleeping: pending.preempted_sleeping,
        // SAFETY: no arguments, no side effects.
        cpu: unsafe { bpf_get_smp_processor_id() },
        at_ns: now,
        latency_ns,
        delivery_ns: pending.delivery_ns(),
        cgroup_id: if WITH_CGROUP.load() != 0 { next.cgroup_id() } else { 0 },
        pid: next.pid(),
        tgid: next.tgid(),
        prio: next.prio(),
        policy: next.policy(),
        prev_cpu: pending.prev_cpu,
        waker_pid: pending.waker_pid,
        prev_pid: prev.pid(),
        prev_prio: prev.prio(),
        comm: next.comm(),
        prev_comm: prev.comm(),
    }
}

/// Sends the sample and counts it as `measured`, or as `ring_buffer_full` if there is no room.
#[inline(always)]
pub fn emit<T: TaskFields>(tally: CpuCounters, ending: EndedWait, prev: T, next: T) {
    let Some(mut slot) = SAMPLES.reserve_untyped::<Sample>(0) else {
        tally.count(Counter::RingBufferFull);
        return;
    };
    slot.write(sample(ending, prev, next));
    // To wake the reader for each sample would cost ten times as much as the sample, and would itself be
    // measured.
    let measured = tally.count(Counter::Measured);
    let check_ring = measured & (CHECK_RING_EVERY - 1) == 0;
    slot.submit(if check_ring && ring_is_at_watermark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}

/// Reserves room for a record in the ring buffer; `None` if it is full.
#[inline(always)]
pub fn reserve<R: 'static>() -> Option<RingBufEntry<R>> {
    SAMPLES.reserve_untyped::<R>(0)
}

/// Submits a complete record. If `check_ring` is set, checks the fill level of the ring buffer and wakes the
/// reader if it has reached the watermark.
#[inline(always)]
pub fn submit<R: 'static>(slot: RingBufEntry<R>, check_ring: bool) {
    slot.submit(if check_ring && ring_is_at_watermark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}
