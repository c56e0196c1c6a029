//! A finished wait goes to user space.

use aya_ebpf::{
    bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::bpf_get_smp_processor_id,
    maps::ring_buf::RingBufEntry,
};
use wakelat_common::{Counter, Sample, sample::KIND_SAMPLE};

use crate::{
    maps::{CpuCounters, SAMPLES, WITH_CGROUP, ring_is_at_watermark},
    switch::EndedWait,
    task::TaskFields,
};

/// How many samples a CPU delivers between two looks at how full the ring buffer is. Must be a power of two.
const CHECK_RING_EVERY: u64 = 16;

/// All that is known at the end of a wait, as user space takes it.
#[inline(always)]
pub fn sample<T: TaskFields>(ending: EndedWait, prev: T, next: T) -> Sample {
    let EndedWait { pending: start, now, latency_ns, .. } = ending;
    Sample {
        kind: KIND_SAMPLE,
        sampling_shift: start.sampling_shift,
        class: start.class,
        preempted_sleeping: start.preempted_sleeping,
        // SAFETY: no arguments, no side effects.
        cpu: unsafe { bpf_get_smp_processor_id() },
        at_ns: now,
        latency_ns,
        delivery_ns: start.delivery_ns(),
        cgroup_id: if WITH_CGROUP.load() != 0 { next.cgroup_id() } else { 0 },
        pid: next.pid(),
        tgid: next.tgid(),
        prio: next.prio(),
        policy: next.policy(),
        prev_cpu: start.prev_cpu,
        waker_pid: start.waker_pid,
        prev_pid: prev.pid(),
        prev_prio: prev.prio(),
        comm: next.comm(),
        prev_comm: prev.comm(),
    }
}

/// Puts the sample in the ring buffer, or counts that there was no room.
#[inline(always)]
pub fn emit<T: TaskFields>(tally: CpuCounters, ending: EndedWait, prev: T, next: T) {
    let Some(mut slot) = SAMPLES.reserve_untyped::<Sample>(0) else {
        tally.count(Counter::RingBufferFull);
        return;
    };
    slot.write(sample(ending, prev, next));
    // A wakeup of the reader per sample would cost ten times what the sample costs, and measure itself.
    let delivered = tally.count(Counter::Measured);
    let look = delivered & (CHECK_RING_EVERY - 1) == 0;
    slot.submit(if look && ring_is_at_watermark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}

/// A place for a record in the ring buffer, if there is room.
#[inline(always)]
pub fn reserve<R: 'static>() -> Option<RingBufEntry<R>> {
    SAMPLES.reserve_untyped::<R>(0)
}

/// The record is complete. `look`: whether to look at how full the ring buffer is, and call the reader.
#[inline(always)]
pub fn submit<R: 'static>(slot: RingBufEntry<R>, look: bool) {
    slot.submit(if look && ring_is_at_watermark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}
