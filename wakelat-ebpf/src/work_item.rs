//! `workqueue_execute_start` and `workqueue_execute_end`: emit a [`WorkItemRecord`] with the worker's
//! TID and the function.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::timeline::{WorkItemRecord, kind};

use crate::{cpu_state, kernel_structs, ring_buffers, window};

/// In place of a function: the work item ends.
pub const NONE: u64 = 0;

/// Emits a record if the current task is a worker. `function` is the address of the work item's
/// function, or [`NONE`].
#[inline(always)]
pub fn emit(function: u64) {
    if !window::is_open() || !kernel_structs::is_worker() {
        return;
    }
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu, pid) =
        unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid() as u32) };
    if !window::contains(at_ns) {
        return;
    }
    let Some((mut slot, lost)) = cpu_state::reserve(here, cpu) else { return };
    slot.write(WorkItemRecord { kind: kind::WORK_ITEM, reserved: [0; 3], cpu, lost, pid, at_ns, function });
    ring_buffers::submit(slot, cpu, false);
}
