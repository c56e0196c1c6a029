//! An iterator over all tasks (`iter/task`, since 5.8) that writes a [`WaitingTask`] for each task on a run
//! queue. User space runs it after the end of the window.

use aya_ebpf::helpers::{bpf_ktime_get_ns, generated::bpf_seq_write};
use wakelat_common::queue_clock::WaitingTask;

use crate::{
    filter,
    kernel_structs::{Direct, QueuedTask as _, RunQueueFields as _, Task, TaskFields as _},
    window,
};

/// `struct bpf_iter__task` (kernel/bpf/task_iter.c).
#[repr(C)]
struct Context {
    meta: *const Meta,
    /// Null at the end.
    task: *const u8,
}

/// The beginning of `struct bpf_iter_meta` (include/linux/bpf.h).
#[repr(C)]
struct Meta {
    /// `struct seq_file`.
    seq: *mut core::ffi::c_void,
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
extern "C" fn waiting_tasks(context: *const Context) -> i32 {
    // SAFETY: the kernel passes a context, whose pointers the verifier knows.
    let (meta, task) = unsafe { ((*context).meta, (*context).task) };
    if !task.is_null() {
        // SAFETY: `meta` is never null, and the verifier knows its type.
        write(unsafe { (*meta).seq }, Task::new(task));
    }
    0
}

#[inline(always)]
fn write(seq: *mut core::ffi::c_void, task: Task<Direct>) {
    let queued_at_ns = task.last_queued_ns();
    let pid = task.pid();
    // A sleeping task that a migration has queued by mistake keeps its stamp (from 6.12 on, see docs/queue-clock.md).
    if queued_at_ns == 0 || !task.is_runnable() || !filter::wants(task, pid) {
        return;
    }
    // The queue's clock was read at its last tick or later. On a CPU that idles while a quota keeps its tasks
    // waiting, it may be older, and the wait longer than this.
    let waited_ns = task.run_queue().clock_ns().saturating_sub(queued_at_ns);
    // SAFETY: no arguments, no side effects.
    let at_ns = unsafe { bpf_ktime_get_ns() }.saturating_sub(waited_ns);
    if at_ns >= window::end_at_ns() {
        return;
    }
    let waiting = WaitingTask { at_ns, pid, cpu: task.cpu() };
    // SAFETY: `waiting` is a local value of this length.
    unsafe { bpf_seq_write(seq.cast(), (&raw const waiting).cast_mut().cast(), size_of::<WaitingTask>() as u32) };
}
