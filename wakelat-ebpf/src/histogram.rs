//! A finished wait is counted where it ended.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use wakelat_common::histogram::{HISTOGRAMS as ENTRIES, Histogram, slot};

use crate::{sample::sample, switch::EndedWait, task::TaskFields};

/// Key: a [`slot`]. Value: this CPU's waits of that class. Read and cleared by user space, half by half.
#[btf_map]
static HISTOGRAMS: PerCpuArray<Histogram, { ENTRIES as usize }> = PerCpuArray::new();

/// The half that is written to. User space changes it at the end of a window, and waits until no program is in the
/// other one any more.
#[btf_map]
static HALF: Array<u32, 1> = Array::new();

/// Adds a wait to its class.
#[inline(always)]
pub fn add<T: TaskFields>(ending: EndedWait, prev: T, next: T) {
    let Some(half) = HALF.get(0) else { return };
    // SAFETY: a word of a map is always there, and is written at once.
    let half = unsafe { core::ptr::read_volatile(half) };
    let Some(histogram) = HISTOGRAMS.get_ptr_mut(slot(ending.class, half)) else { return };
    // SAFETY: the pointer is to this CPU's own entry, which no other CPU writes and no program on this one interrupts.
    unsafe { (*histogram).record(ending.latency_ns, || sample(ending, prev, next)) };
}
