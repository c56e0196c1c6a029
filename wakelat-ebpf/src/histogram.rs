//! Aggregates a wait that `sched_switch` ended into this CPU's histogram of its class; user space reads
//! the histograms at the end of a window.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use wakelat_common::{
    Class, Sample,
    histogram::{HISTOGRAMS as ENTRIES, Histogram, slot},
};

use crate::{
    ended_wait::EndedWait,
    kernel_structs::TaskFields,
    wait_record::{WaitPart, sample},
};

/// Key: a [`slot`]. Value: this CPU's waits of that class. Read and cleared by user space, one half at a
/// time.
#[btf_map]
static HISTOGRAMS: PerCpuArray<Histogram, { ENTRIES as usize }> = PerCpuArray::new();

/// The half that programs write to. At the end of a window user space switches it, then waits until no
/// program is still writing to the other half.
#[btf_map]
static HALF: Array<u32, 1> = Array::new();

/// Adds a wait that an [`EndedWait`] describes to the histogram of its class.
#[inline(always)]
pub fn add<T: TaskFields>(ending: EndedWait, prev: T, next: T) {
    record(ending.class, ending.latency_ns, || sample(WaitPart::of(ending), prev, next));
}

/// The half that programs write to now: 0 or 1.
#[inline(always)]
pub fn half() -> u32 {
    // SAFETY: a word of a map is always there, and user space writes it in one access.
    HALF.get(0).map_or(0, |half| unsafe { core::ptr::read_volatile(half) }) & 1
}

/// Adds a wait to the histogram of its class. Calls `sample` for what is known about it if it is among the
/// longest.
#[inline(always)]
pub fn record(class: Class, latency_ns: u64, sample: impl FnOnce() -> Sample) {
    let Some(half) = HALF.get(0) else { return };
    // SAFETY: a word of a map is always there, and user space writes it in one access.
    let half = unsafe { core::ptr::read_volatile(half) };
    let Some(histogram) = HISTOGRAMS.get_ptr_mut(slot(class, half)) else { return };
    // SAFETY: the pointer is to this CPU's own entry. No other CPU writes it, and `sched_switch` runs
    // with interrupts off, so no program on this CPU interrupts.
    unsafe { (*histogram).record(latency_ns, sample) };
}
