//! How long a task's group was throttled since the task left its CPU, for waits by the run queue's clock: no program
//! sees where such a wait begins.

use aya_ebpf::{bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map};
use wakelat_common::{
    pending_wait::PrevState, queue_clock::TaskTag, wait_context::Throttling, wait_division::ThrottledClock,
};

use crate::{kernel_structs::QueuedTask, switch_queue_clock::slot_index};

/// Key: the low bits of a TID. Value: how long the queue of its group had been throttled when the task left a CPU. The
/// loader sets the number of elements, a power of two.
#[btf_map]
static THROTTLED_CLOCKS: Array<ThrottledClock, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Notes the clock of a task that leaves `cpu` and may be throttled.
#[inline(always)]
pub fn switch_out<T: QueuedTask>(task: T, pid: u32, leaving: PrevState, cpu: u32, period: u8) {
    let Some(slot) = THROTTLED_CLOCKS.get_ptr_mut(slot_index(pid)) else { return };
    let clocks = task.clocks();
    let is_exempt = matches!(clocks.throttling, Throttling::Exempt) || matches!(leaving, PrevState::Dead);
    let kept = if is_exempt {
        ThrottledClock::default()
    } else {
        ThrottledClock::of(TaskTag::of(task.stack()), cpu, period, clocks.throttled_ns)
    };
    let [owner, clock] = kept.to_words();
    // SAFETY: a value of the map; each word is written in one access.
    unsafe {
        slot.cast::<u64>().write_volatile(owner);
        slot.cast::<u64>().add(1).write_volatile(clock);
    }
}

/// How long the task's group was throttled on this CPU since the task left it: ns; 0 if that is not known.
#[inline(always)]
pub fn since_switch_out<T: QueuedTask>(task: T, pid: u32, cpu: u32, period: u8) -> u64 {
    let Some(slot) = THROTTLED_CLOCKS.get_ptr_mut(slot_index(pid)) else { return 0 };
    // SAFETY: a value of the map. Another task with this slot may write a word meanwhile; then the tags differ.
    let noted = unsafe {
        ThrottledClock::from_words([slot.cast::<u64>().read_volatile(), slot.cast::<u64>().add(1).read_volatile()])
    };
    if noted.is_of(TaskTag::of(task.stack()), cpu, period) {
        noted.since(task.clocks_of_wait(true).throttled_ns)
    } else {
        0
    }
}
