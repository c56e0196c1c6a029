//! `sched_process_fork` and `sched_process_exec`: emit a [`ForkExecRecord`] with the task's TID and
//! name, and the TID of its child.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::timeline::{ForkExecRecord, kind};

use crate::{cpu_state, kernel_structs::TaskFields, ring_buffers, window};

/// Emits a record for `task`. `child` is the TID of the new thread; 0 means that `task` called exec.
#[inline(always)]
pub fn emit<T: TaskFields>(task: T, child: u32) {
    if !window::is_open() {
        return;
    }
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(at_ns) {
        return;
    }
    let Some((mut slot, lost)) = cpu_state::reserve(here, cpu) else { return };
    let exec = (child == 0).into();
    let (pid, comm) = (task.pid(), task.comm());
    slot.write(ForkExecRecord {
        kind: kind::FORK_EXEC,
        exec,
        reserved: 0,
        cpu,
        lost,
        pid,
        at_ns,
        child,
        reserved2: 0,
        comm,
    });
    ring_buffers::submit(slot, cpu, false);
}
