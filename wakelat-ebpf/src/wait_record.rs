//! Sends a [`Sample`] for each wait that `sched_switch` ends.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use wakelat_common::{Counter, Sample, sample::KIND_SAMPLE};

use crate::{
    ended_wait::EndedWait,
    kernel_structs::TaskFields,
    maps::{CpuCounters, WITH_CGROUP},
    record_slots,
};

/// A CPU checks the fill level of its ring once in this many samples. Must be a power of two.
const CHECK_RING_EVERY: u64 = 16;

/// The fields of a [`Sample`] that describe the wait; all others describe its tasks.
pub struct WaitPart {
    pub class: u8,
    pub sampling_shift: u8,
    pub kernel_counts: u8,
    pub at_ns: u64,
    pub latency_ns: u64,
    pub delivery_ns: u64,
    pub prev_cpu: u32,
    pub waker_pid: u32,
}

impl WaitPart {
    /// What the task table kept of a wait of `next`.
    #[inline(always)]
    pub fn of<T: TaskFields>(EndedWait { pending, now, latency_ns, .. }: EndedWait, next: T) -> Self {
        Self {
            class: pending.class,
            sampling_shift: pending.sampling_shift,
            kernel_counts: next.kernel_counts(pending.preempted_sleeping),
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
    // SAFETY: no arguments, no side effects.
    sample_on(unsafe { bpf_get_smp_processor_id() }, wait, prev, next)
}

/// Does what [`sample`] does, on `cpu`, which is this CPU.
#[inline(always)]
pub fn sample_on<T: TaskFields>(cpu: u32, wait: WaitPart, prev: T, next: T) -> Sample {
    Sample {
        kind: KIND_SAMPLE,
        sampling_shift: wait.sampling_shift,
        class: wait.class,
        kernel_counts: wait.kernel_counts,
        cpu,
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
    if !send(|cpu| sample_on(cpu, WaitPart::of(ending, next), prev, next), || tally.count_up(Counter::Measured)) {
        tally.count(Counter::RingBufferFull);
    }
}

/// Sends the sample that `sample` makes for this CPU. Calls `count` once it is written, for the number of samples that this
/// CPU has sent. Returns false if there is no room. Call it only in programs on `sched_switch`.
#[inline(always)]
pub fn send(sample: impl FnOnce(u32) -> Sample, count: impl FnOnce() -> u64) -> bool {
    // SAFETY: no arguments, no side effects.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(mut room) = record_slots::reserve::<Sample>(cpu) else { return false };
    room.write(sample(cpu));
    // To wake the reader for each sample would cost ten times as much as the sample, and would itself be
    // measured.
    let check_fill = count() & (CHECK_RING_EVERY - 1) == 0;
    room.publish(cpu, check_fill);
    true
}
