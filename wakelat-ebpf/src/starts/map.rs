//! Starts in a hash map: on any kernel, whatever way the programs are attached.

use aya_ebpf::{bindings::BPF_NOEXIST, btf_maps::HashMap, macros::btf_map};
use wakelat_common::course::Entry;

use crate::task::TaskFields;

/// Key: a task's identity. Value: its wait. Written by every program; read by user space at the end, for the tasks still
/// waiting. Full: the wakeup counts as `start_map_full`. The loader sets the number of entries.
#[btf_map]
static STARTS: HashMap<u64, Entry, 16384> = HashMap::new();

/// Whether what is kept of a task goes with it.
pub const GO_WITH_THEIR_TASK: bool = false;

/// What is kept of `task`, if it has an entry.
#[inline(always)]
pub fn find<T: TaskFields>(task: T) -> Option<*mut Entry> {
    STARTS.get_ptr_mut(task.identity())
}

/// Gives `task`, which has none, an entry. Returns false where there is no room.
#[inline(always)]
pub fn insert<T: TaskFields>(task: T, entry: Entry) -> bool {
    STARTS.insert(task.identity(), entry, BPF_NOEXIST.into()).is_ok()
}

/// `task` is switched out for the last time: its identity may be another's soon.
#[inline(always)]
pub fn forget<T: TaskFields>(task: T) {
    _ = STARTS.remove(task.identity());
}
