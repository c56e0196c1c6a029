//! Aggregates a wait that `sched_switch` ended into its group, if waits are grouped and it has room, and
//! otherwise into this CPU's histogram of its class. User space reads both at the end of a window.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};
use wakelat_common::{
    Class, Sample,
    histogram::{HISTOGRAMS as ENTRIES, Histogram, slot},
};

use crate::{
    ended_wait::EndedWait,
    group,
    kernel_structs::TaskFields,
    wait_record::{WaitPart, sample},
    wait_settings::{LoadedSettings, WaitSettings},
    window,
};

/// Key: a [`slot`]. Value: this CPU's waits of that class. Read and cleared by user space, one half at a
/// time.
#[btf_map]
static HISTOGRAMS: PerCpuArray<Histogram, { ENTRIES as usize }> = PerCpuArray::new();

/// Adds a wait that an [`EndedWait`] describes, of `next`.
#[inline(always)]
pub fn add<T: TaskFields>(ending: EndedWait, prev: T, next: T) {
    let (class, latency_ns) = (ending.class, ending.latency_ns);
    record::<LoadedSettings, T>(window::half(), class, latency_ns, next, || {
        sample(WaitPart::of(ending, next), prev, next)
    });
}

/// Adds a wait of `task` to its group, or to the histogram of its class, in `half`. Calls `sample` for what is known
/// about it if it is among the longest.
#[inline(always)]
pub fn record<S: WaitSettings, T: TaskFields>(
    half: u32,
    class: Class,
    latency_ns: u64,
    task: T,
    sample: impl FnOnce() -> Sample,
) {
    if let Some((element, index)) = group::element::<S, T>(half, class, latency_ns, task) {
        // SAFETY: a value of the map, with this CPU in its key: no other CPU writes it, and `sched_switch` runs
        // with interrupts off, so no program on this CPU interrupts. User space deletes it only when no program
        // uses this half.
        let element = unsafe { &mut *element };
        if element.has_room(index) {
            return element.record(index, latency_ns, sample);
        }
    }
    let Some(histogram) = HISTOGRAMS.get_ptr_mut(slot(class, half)) else { return };
    // SAFETY: the pointer is to this CPU's own entry. No other CPU writes it, and `sched_switch` runs
    // with interrupts off, so no program on this CPU interrupts.
    unsafe { (*histogram).record(latency_ns, sample) };
}
