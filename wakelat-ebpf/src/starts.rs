//! Where the wait of each task is kept: a table with a place for each of the last bits of a thread's number, so that nobody
//! has to search. Numbers are given one after the other; threads whose last bits are the
//! same share a place. Who came first has it until its last switch, the others are in a hash map.

use aya_ebpf::{
    Global,
    bindings::{BPF_F_MMAPABLE, BPF_NOEXIST},
    btf_maps::{Array, HashMap},
    macros::btf_map,
};
use wakelat_common::course::{Slot, TrackedTask};

use crate::{maps::add, task::TaskFields};

/// Key: the last bits of a thread's number. Value: its wait, or that of another thread with these bits. Written by every
/// program; read and emptied by user space, by its own mapping of it (since 5.5), when the programs stop. The loader sets the
/// number of places, a power of two.
#[btf_map]
static TASK_SLOTS: Array<Slot, 16384, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Key: the identity of a task whose place was taken. Value: its wait. Full: the wakeup counts as `start_map_full`. The
/// loader sets the number of entries.
#[btf_map]
static TASK_OVERFLOW: HashMap<u64, TrackedTask, 2048> = HashMap::new();

/// 1: there is something in [`TASK_OVERFLOW`], or was.
#[btf_map]
static OVERFLOW_USED: Array<u32, 1> = Array::new();

/// The bits of a thread's number that say its place: the number of places, less one.
#[unsafe(no_mangle)]
static SLOT_MASK: Global<u32> = Global::new(0);

/// What is kept of `task`, if it has an entry.
#[inline(always)]
pub fn find<T: TaskFields>(task: T) -> Option<*mut TrackedTask> {
    let place = slot_of(task)?;
    if owner_of(place) == task.identity() {
        // SAFETY: a value of the map.
        return Some(unsafe { &raw mut (*place).task });
    }
    // SAFETY: a word of a map is always there, and is read at once.
    let crowded = OVERFLOW_USED.get(0).is_some_and(|crowded| unsafe { core::ptr::read_volatile(crowded) } != 0);
    if crowded { TASK_OVERFLOW.get_ptr_mut(task.identity()) } else { None }
}

/// Gives `task`, which has none, an entry. Returns false where there is no room.
///
/// One CPU at a time does so for a task: a wakeup holds the task's `pi_lock` (`try_to_wake_up()`, kernel/sched/core.c), and a
/// task that is switched out and has no entry yet is on a run queue, where a wakeup takes the queue's lock before its
/// `sched_wakeup`, as the switch does. A task that wakes itself holds no lock; it has the CPU, so it gets no entry, except by
/// the rules of a hist trigger: there two CPUs may give it two, of which the one in the map stays until the programs stop.
#[inline(always)]
pub fn insert<T: TaskFields>(task: T, entry: TrackedTask) -> bool {
    let Some(place) = slot_of(task) else { return false };
    let is_ours = if owner_of(place) == 0 { try_acquire(place) } else { is_stale(place, task.pid()) };
    if is_ours {
        // SAFETY: the place is this task's from now on, and its entry is written by one CPU at a time: see `insert`.
        unsafe {
            (*place).task = entry;
            (&raw mut (*place).owner).write_volatile(task.identity());
        }
        return true;
    }
    if let Some(crowded) = OVERFLOW_USED.get_ptr_mut(0) {
        // SAFETY: a word is written at once, and always the same.
        unsafe { crowded.write_volatile(1) };
    }
    TASK_OVERFLOW.insert(task.identity(), entry, BPF_NOEXIST.into()).is_ok()
}

/// `task` is switched out for the last time: its identity may be another's soon.
///
/// On arm64 neither the store nor the addition orders what comes before it (Documentation/atomic_t.txt), and kernels before 5.12
/// have no addition that does. What the task had in its place was last written when it came to its CPU, and `__schedule()` has a
/// full barrier (`smp_mb__after_spinlock()`) between that and this switch: so no late store reaches the entry of the next owner.
/// The exception is a wait whose switch-in was missed, which counts as stale.
#[inline(always)]
pub fn remove<T: TaskFields>(task: T) {
    let Some(place) = slot_of(task) else { return };
    if owner_of(place) == task.identity() {
        // SAFETY: a value of the map, and this task's until the claim is given back.
        unsafe { (&raw mut (*place).owner).write_volatile(0) };
        // SAFETY: as above.
        add(unsafe { &raw mut (*place).refcount }, -1);
    } else {
        _ = TASK_OVERFLOW.remove(task.identity());
    }
}

#[inline(always)]
fn slot_of<T: TaskFields>(task: T) -> Option<*mut Slot> {
    TASK_SLOTS.get_ptr_mut(task.pid() & SLOT_MASK.load())
}

/// The identity of the task that has the place; 0 where nobody has.
#[inline(always)]
fn owner_of(place: *mut Slot) -> u64 {
    // SAFETY: a value of the map. Others may write this word, at once, but none writes this task's identity or takes it away.
    unsafe { (&raw const (*place).owner).read_volatile() }
}

/// Whether the place was that of another thread `pid`, before this one had the number. There was one where nobody saw the last
/// switch, or where exec gave the number to another thread of the process (fs/exec.c, `de_thread()`). A wait that is left
/// in it is told at the end, as one that never ended.
#[inline(always)]
fn is_stale(place: *mut Slot, pid: u32) -> bool {
    // SAFETY: a value of the map; nobody but a thread of this number writes a wait of this number in it.
    let start = unsafe { &(*place).task.pending };
    start.pid == pid && start.at_ns == 0
}

/// Two tasks may come to an empty place at once, on two CPUs: it belongs to the one whose claim is the only one. If neither is,
/// none gets it this time.
///
/// Each reads the claims after its own addition to the same word, and of two additions one comes last, which reads two at
/// least: never do both get the place.
#[inline(always)]
fn try_acquire(place: *mut Slot) -> bool {
    // SAFETY: a value of the map.
    let claims = unsafe { &raw mut (*place).refcount };
    add(claims, 1);
    // SAFETY: as above. The one that has just been added is in what is read.
    let is_only = unsafe { claims.read_volatile() } == 1;
    if !is_only {
        add(claims, -1);
    }
    is_only
}
