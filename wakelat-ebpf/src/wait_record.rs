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

/// The fields of a [`Sample`] that describe the wait; all others describe its tasks.
pub struct WaitPart {
    pub class: u8,
    pub sampling_shift: u8,
    pub preempted_sleeping: u8,
    pub at_ns: u64,
    pub latency_ns: u64,
    pub delivery_ns: u64,
    pub prev_cpu: u32,
    pub waker_pid: u32,
}

impl WaitPart {
    /// What the task table kept of a wait.
    #[inline(always)]
    pub fn of(EndedWait { pending, now, latency_ns, .. }: EndedWait) -> Self {
        Self {
            class: pending.class,
            sampling_shift: pending.sampling_shift,
            preempted_sleeping: pending.preempted_sleeping,
            at_ns: now,
            latency_ns,
            delivery_ns: pending.delivery_ns(),
            prev_cpu: pending.prev_cpu,
            waker_pid: pending.waker_pid,
        }
    }
}

/// All that is known about a wait when `sched_switch` ends it.
#[inline(always)]
pub fn sample<T: TaskFields>(wait: WaitPart, prev: T, next: T) -> Sample {
    Sample {
        kind: KIND_SAMPLE,
        sampling_shift: wait.sampling_shift,
        class: wait.class,
        preempted_sleeping: wait.preempted_sleeping,
        // SAFETY: no arguments, no side effects.
        cpu: unsafe { bpf_get_smp_processor_id() },
        at_ns: wait.at_ns,
        latency_ns: wait.latency_ns,
        delivery_ns: wait.delivery_ns,
        cgroup_id: if WITH_CGROUP.load() != 0 { next.cgroup_id() } else { 0 },
        pid: next.pid(),
        tgid: next.tgid(),
        prio: next.prio(),
        policy: next.policy(),
        prev_cpu: wait.prev_cpu,
        waker_pid: wait.waker_pid,
        prev_pid: prev.pid(),
        prev_prio: prev.prio(),
        comm: next.comm(),
        prev_comm: prev.comm(),
    }
}

/// Sends the sample and counts it as `measured`, or as `ring_buffer_full` if there is no room.
#[inline(always)]
pub fn emit<T: TaskFields>(tally: CpuCounters, ending: EndedWait, prev: T, next: T) {
    if !send(|| sample(WaitPart::of(ending), prev, next), || tally.count(Counter::Measured)) {
        tally.count(Counter::RingBufferFull);
    }
}

/// Sends a sample. Calls `count` once it is written, for the number of samples that this CPU has sent.
/// Returns false if there is no room.
#[inline(always)]
pub fn send(sample: impl FnOnce() -> Sample, count: impl FnOnce() -> u64) -> bool {
    let Some(mut slot) = SAMPLES.reserve_untyped::<Sample>(0) else { return false };
    slot.write(sample());
    // To wake the reader for each sample would cost ten times as much as the sample, and would itself be
    // measured.
    let check_ring = count() & (CHECK_RING_EVERY - 1) == 0;
    slot.submit(if check_ring && ring_is_at_watermark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
    true
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
