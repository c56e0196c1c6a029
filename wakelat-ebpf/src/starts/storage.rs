//! Starts in the tasks themselves (`BPF_MAP_TYPE_TASK_STORAGE`): a third of the hash map's price, no fixed size, and gone
//! with the task. For typed tracepoints alone: the helper takes no pointer whose type the verifier does not know.

use core::ptr;

use aya_ebpf::{
    bindings::{
        BPF_F_NO_PREALLOC, BPF_LOCAL_STORAGE_GET_F_CREATE, bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE, seq_file,
        task_struct,
    },
    helpers::generated::{bpf_seq_write, bpf_task_storage_get},
    macros::btf_map,
};
use wakelat_common::{course::Entry, start::Start};

use crate::{
    filter,
    task::{Direct, Task, TaskFields},
};

/// A task storage map, as aya's own maps are made (aya-ebpf has none of this type).
#[repr(C)]
struct TaskStorage<V> {
    r#type: *const [i32; BPF_MAP_TYPE_TASK_STORAGE as usize],
    key: *const i32,
    value: *const V,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
}

// SAFETY: the pointers describe types to the loader and are never followed.
unsafe impl<V> Sync for TaskStorage<V> {}

/// Key: a task. Value: its wait. Written by every program; read at the end by `waiting`. No memory: the wakeup counts as
/// `start_map_full`.
#[btf_map]
static STARTS: TaskStorage<Entry> = TaskStorage {
    r#type: ptr::null(),
    key: ptr::null(),
    value: ptr::null(),
    max_entries: ptr::null(),
    map_flags: ptr::null(),
};

/// The storage of the task at `task`; made of `initial` where there is none, unless that is null.
#[inline(always)]
fn storage(task: *mut task_struct, initial: *mut Entry) -> Option<*mut Entry> {
    let flags = if initial.is_null() { 0 } else { BPF_LOCAL_STORAGE_GET_F_CREATE };
    let map = ptr::from_ref(&STARTS).cast_mut().cast();
    // SAFETY: the map is of this type, and the verifier knows `task` for a task.
    let found = unsafe { bpf_task_storage_get(map, task, initial.cast(), flags.into()) };
    if found.is_null() { None } else { Some(found.cast()) }
}

/// Whether what is kept of a task goes with it.
pub const GO_WITH_THEIR_TASK: bool = true;

/// What is kept of `task`, if it has an entry.
#[inline(always)]
pub fn find<T: TaskFields>(task: T) -> Option<*mut Entry> {
    storage(task.identity() as *mut _, ptr::null_mut())
}

/// Gives `task`, which has none, an entry. Returns false where there is no memory.
#[inline(always)]
pub fn insert<T: TaskFields>(task: T, mut entry: Entry) -> bool {
    storage(task.identity() as *mut _, &raw mut entry).is_some()
}

/// `task` is switched out for the last time: the kernel frees its storage with it.
#[inline(always)]
pub fn forget<T: TaskFields>(_task: T) {}

/// What the kernel tells an iterator over tasks (`struct bpf_iter__task`, kernel/bpf/task_iter.c): part of its interface,
/// as is the beginning of `struct bpf_iter_meta` (include/linux/bpf.h).
#[repr(C)]
struct EachTask {
    meta: *const Meta,
    task: *mut task_struct,
}

#[repr(C)]
struct Meta {
    seq: *mut seq_file,
}

/// Runs for each thread before the programs do: gives those to be measured their entries. Entries come from a reserve that
/// the kernel fills up between wakeups (kernel/bpf/memalloc.c), which is too small where thousands wake at once.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn prepare(each: *const EachTask) -> i32 {
    // SAFETY: the kernel hands it over; the verifier admits nothing else.
    let task = unsafe { (*each).task };
    // Null after the last task.
    if task.is_null() {
        return 0;
    }
    let known = Task::<Direct>::new(task.cast_const().cast());
    if filter::wants(known, known.pid()) {
        let mut entry = Entry::IDLE;
        storage(task, &raw mut entry);
    }
    0
}

/// Runs for each thread when user space asks for the tasks still waiting: writes the start of one that does.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn waiting(each: *const EachTask) -> i32 {
    // SAFETY: the kernel hands over both; the verifier admits nothing else.
    let (seq, task) = unsafe { ((*(*each).meta).seq, (*each).task) };
    // Null after the last task.
    if task.is_null() {
        return 0;
    }
    let Some(entry) = storage(task, ptr::null_mut()) else { return 0 };
    // SAFETY: as above.
    let start = unsafe { &raw mut (*entry).start };
    // SAFETY: the entry is plain data; once the run has ended, programs write it at a task's last switch alone.
    if unsafe { (*start).is_wanted() } {
        // SAFETY: the value is as long as its type.
        let written = unsafe { bpf_seq_write(seq, start.cast(), size_of::<Start>() as u32) };
        // Where the page is full, the kernel calls once more with a new one.
        if written == 0 {
            // SAFETY: as above. Its last switch does not count it again.
            unsafe { (*start).at_ns = 0 };
        }
    }
    0
}
