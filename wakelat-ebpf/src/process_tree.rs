//! The descendants of the processes that the filter accepts (`--tree`): `sched_process_fork` adds the child of a
//! process in the map, and `sched_process_free` removes a process that is gone. Both work outside of the window too.
//!
//! The kernel passes a child to `sched_process_fork` before it wakes it for the first time (`kernel_clone()`,
//! kernel/fork.c), so no wait of a descendant is missed.

use aya_ebpf::{bindings::BPF_ANY, btf_maps::Array, macros::btf_map};

use crate::{
    kernel_structs::TaskFields,
    maps::{self, TGIDS},
    program_run_budget,
};

/// Descendants for which the map of processes had no room. Read by user space.
#[btf_map]
static UNFOLLOWED: Array<u64, 1> = Array::new();

/// `parent` has forked `child`.
#[inline(always)]
pub fn forked<T: TaskFields>(parent: T, child: T) {
    // What it costs counts, too, although it goes on after the programs have stopped.
    program_run_budget::allows_run();
    let pid = child.tgid();
    // A thread belongs to the process of its parent.
    if child.pid() != pid {
        return;
    }
    if TGIDS.get_ptr(parent.tgid()).is_none() {
        // The ID may have been that of a process in the tree, whose removal comes later.
        if TGIDS.get_ptr(pid).is_some() {
            _ = TGIDS.remove(pid);
        }
    } else if TGIDS.insert(pid, 1, BPF_ANY.into()).is_err()
        && let Some(count) = UNFOLLOWED.get_ptr_mut(0)
    {
        maps::add(count, 1);
    }
}

/// `task` and all that the kernel kept of it is gone.
#[inline(always)]
pub fn freed<T: TaskFields>(task: T) {
    // See `forked`.
    program_run_budget::allows_run();
    let pid = task.pid();
    // The last thread of a process to go is the one with its ID (`release_task()`, kernel/exit.c).
    if pid == task.tgid() {
        _ = TGIDS.remove(pid);
    }
}
