//! A finished wait goes to user space.

use aya_ebpf::{
    bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    maps::ring_buf::RingBufEntry,
};
use wakelat_common::{Counter, Sample, sample::KIND_SAMPLE, start::Start};

use crate::{
    maps::{SAMPLES, Tally, WITH_CGROUP, ring_is_at_mark},
    task::TaskFields,
};

/// How many samples a CPU delivers between two looks at how full the ring buffer is. Must be a power of two.
const LOOK_EVERY: u64 = 16;

/// All that is known at the end of a wait.
pub struct End<T> {
    pub start: Start,
    pub now: u64,
    pub cpu: u32,
    pub latency_ns: u64,
    pub delivery_ns: u64,
    pub next: T,
    pub next_pid: u32,
    pub prev: T,
    pub prev_pid: u32,
}

impl<T: TaskFields> End<T> {
    /// As user space takes it.
    #[inline(always)]
    pub fn sample(self) -> Sample {
        let Self { start, now, cpu, latency_ns, delivery_ns, next, next_pid, prev, prev_pid } = self;
        Sample {
            kind: KIND_SAMPLE,
            level: start.level,
            class: start.class,
            wakeable: start.wakeable,
            cpu,
            at_ns: now,
            latency_ns,
            delivery_ns,
            cgroup_id: if WITH_CGROUP.load() != 0 { next.cgroup_id() } else { 0 },
            pid: next_pid,
            tgid: next.tgid(),
            prio: next.prio(),
            policy: next.policy(),
            prev_cpu: start.prev_cpu,
            waker_pid: start.waker_pid,
            prev_pid,
            prev_prio: prev.prio(),
            comm: next.comm(),
            prev_comm: prev.comm(),
        }
    }
}

/// Puts the sample in the ring buffer, or counts that there was no room.
#[inline(always)]
pub fn deliver<T: TaskFields>(tally: Tally, end: End<T>) {
    let Some(mut slot) = SAMPLES.reserve_untyped::<Sample>(0) else {
        tally.count(Counter::RingFull);
        return;
    };
    slot.write(end.sample());
    // A wakeup of the reader per sample would cost ten times what the sample costs, and measure itself.
    let delivered = tally.count(Counter::Delivered);
    let look = delivered & (LOOK_EVERY - 1) == 0;
    slot.submit(if look && ring_is_at_mark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}

/// A place for a record in the ring buffer, if there is room.
#[inline(always)]
pub fn reserve<R: 'static>() -> Option<RingBufEntry<R>> {
    SAMPLES.reserve_untyped::<R>(0)
}

/// The record is complete. `look`: whether to look at how full the ring buffer is, and call the reader.
#[inline(always)]
pub fn submit<R: 'static>(slot: RingBufEntry<R>, look: bool) {
    slot.submit(if look && ring_is_at_mark() { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}
