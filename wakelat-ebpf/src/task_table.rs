//! The task table: keeps the pending wait of each tracked task from the event that begins it to the one
//! that ends it.
//!
//! # How it works
//!
//! The low bits of a thread's TID select its slot, so a lookup needs no search. The kernel assigns TIDs
//! in sequence, so few threads share a slot. The first of them owns it until its last switch-out; the
//! others go to a hash map.
//!
//! ```text
//!                      TASK_SLOTS (array, mmapped by user space)
//!                      slot   owner   refcount   task (pending wait, context)
//!                    +------+-------+----------+------------------------------+
//!                    |  ... |       |          |                              |
//!  TID 0x4007 (A) ──►|    7 |   A   |    1     | A waits since at_ns          |
//!  TID 0x8007 (B) ──►|      |       |          |                              |
//!         │          |  ... |       |          |                              |
//!         │          +------+-------+----------+------------------------------+
//!         │ owner is not B
//!         └─────────►  TASK_OVERFLOW (hash map): B → pending wait, context
//! ```
//!
//! - **Owner.** A slot's owner is a task's identity (the address of its `task_struct`; on classic
//!   tracepoints, its TID). State of another task with the same bits is never taken for its own.
//! - **Lookup** ([`find`]). If the slot has another owner, the hash map is searched, but only once
//!   [`OVERFLOW_USED`] says that it has ever held an entry.
//! - **Claim** ([`insert`]). A task claims a slot without an owner by an atomic addition to `refcount`,
//!   and has it if it then reads 1. If two tasks on two CPUs claim it at once, at most one reads 1; a
//!   task that reads more takes its claim back and goes to the hash map. Kernels before 5.12 have no
//!   atomic operation that returns a value, so there is no compare-and-exchange on `owner`.
//! - **Release** ([`remove`]). At its last switch-out a task clears `owner`, then takes its claim back;
//!   or it deletes its entry of the hash map.
//! - **Stale slots.** If the owner's last switch-out was missed, or exec gave its TID to another thread,
//!   the next thread with that TID takes over the slot and its claim, unless a wait is pending in it.
//! - **User space** empties slots and hash map whenever no program runs, and finds the waits that are
//!   still pending.
//!
//! # Memory ordering
//!
//! `owner` and `refcount` are single words, each accessed as a whole. The entry is written before
//! `owner`, but without a release barrier: only programs that handle the same task use the entry, and
//! the kernel's locks order them (for the one exception see `switch_out` in switch_waits.rs). See [`remove`]
//! for the order between two owners of one slot.

use aya_ebpf::{
    Global,
    bindings::{BPF_F_MMAPABLE, BPF_NOEXIST},
    btf_maps::{Array, HashMap},
    macros::btf_map,
};
use wakelat_common::task_table::{Slot, TrackedTask};

use crate::{kernel_structs::TaskFields, maps::add};

/// Key: the low bits of a TID. Value: the slot, with the pending wait of its owner. Written by every
/// program; read and emptied by user space through a mapping of its own (since 5.5) when the programs
/// stop. The loader sets the number of slots, a power of two.
#[btf_map]
static TASK_SLOTS: Array<Slot, 16384, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Key: the identity of a task whose slot has another owner. Value: its pending wait. While it is full,
/// wakeups count as `task_table_full`. The loader sets the number of entries.
#[btf_map]
static TASK_OVERFLOW: HashMap<u64, TrackedTask, 2048> = HashMap::new();

/// 1: [`TASK_OVERFLOW`] has, or once had, an entry.
#[btf_map]
static OVERFLOW_USED: Array<u32, 1> = Array::new();

/// The bits of a TID that select its slot: the number of slots, less one.
#[unsafe(no_mangle)]
static SLOT_MASK: Global<u32> = Global::new(0);

/// Returns what is kept of `task`, if it has an entry.
#[inline(always)]
pub fn find<T: TaskFields>(task: T) -> Option<*mut TrackedTask> {
    let slot = slot_of(task)?;
    if owner_of(slot) == task.identity() {
        // SAFETY: a value of the map.
        return Some(unsafe { &raw mut (*slot).task });
    }
    // SAFETY: a word of a map is always there, and is read in one access.
    let used = OVERFLOW_USED.get(0).is_some_and(|used| unsafe { core::ptr::read_volatile(used) } != 0);
    if used { TASK_OVERFLOW.get_ptr_mut(task.identity()) } else { None }
}

/// Gives an entry to `task`, which has none. Returns false if there is no room.
///
/// Only one CPU at a time does so for a task. A wakeup holds the task's `pi_lock` (`try_to_wake_up()`,
/// kernel/sched/core.c). A task that is switched out and has no entry yet is on a run queue; there a
/// wakeup takes the lock of the run queue before its `sched_wakeup`, as does the switch. A task that
/// wakes itself holds no lock, but it is on a CPU and so gets no entry. The rules of a hist trigger are
/// the exception: under them two CPUs may give the task two entries, and the one in the hash map stays
/// until the programs stop.
#[inline(always)]
pub fn insert<T: TaskFields>(task: T, entry: TrackedTask) -> bool {
    let Some(slot) = slot_of(task) else { return false };
    let is_ours = if owner_of(slot) == 0 { try_acquire(slot) } else { is_stale(slot, task.pid()) };
    if is_ours {
        // SAFETY: the slot is this task's from now on, and one CPU at a time writes its entry (see above).
        unsafe {
            (*slot).task = entry;
            (&raw mut (*slot).owner).write_volatile(task.identity());
        }
        return true;
    }
    if let Some(used) = OVERFLOW_USED.get_ptr_mut(0) {
        // SAFETY: a word is written in one access, and always with the same value.
        unsafe { used.write_volatile(1) };
    }
    TASK_OVERFLOW.insert(task.identity(), entry, BPF_NOEXIST.into()).is_ok()
}

/// Releases the entry of `task`, which is switched out for the last time: another task may soon have its
/// identity.
///
/// On arm64 neither the store nor the addition orders earlier accesses (Documentation/atomic_t.txt), and
/// kernels before 5.12 have no addition that does. The task's entry was last written when the task was
/// switched in, and `__schedule()` has a full barrier (`smp_mb__after_spinlock()`) between then and this
/// switch, so no late store reaches the entry of the next owner. The exception is a wait whose switch-in
/// was missed (counted as `missed_switch`): it is cleared in this switch.
#[inline(always)]
pub fn remove<T: TaskFields>(task: T) {
    let Some(slot) = slot_of(task) else { return };
    if owner_of(slot) == task.identity() {
        // SAFETY: a value of the map, and this task's until its claim is taken back.
        unsafe { (&raw mut (*slot).owner).write_volatile(0) };
        // SAFETY: `refcount` is an aligned word of the slot, which is a value of the map.
        add(unsafe { &raw mut (*slot).refcount }, -1);
    } else {
        _ = TASK_OVERFLOW.remove(task.identity());
    }
}

#[inline(always)]
fn slot_of<T: TaskFields>(task: T) -> Option<*mut Slot> {
    TASK_SLOTS.get_ptr_mut(task.pid() & SLOT_MASK.load())
}

/// Returns the identity of the slot's owner; 0 if it has none.
#[inline(always)]
fn owner_of(slot: *mut Slot) -> u64 {
    // SAFETY: a value of the map. Other CPUs may write this word, in one access, but none of them writes
    // or clears this task's identity.
    unsafe { (&raw const (*slot).owner).read_volatile() }
}

/// Whether the slot was left behind by another thread that had TID `pid` before this one: its last
/// switch-out was missed, or exec gave its TID to another thread of the process (fs/exec.c,
/// `de_thread()`). A slot with a pending wait is not stale: the wait is reported at the end as still
/// waiting.
#[inline(always)]
fn is_stale(slot: *mut Slot, pid: u32) -> bool {
    // SAFETY: a value of the map. Other CPUs may write these words, each in one access; only a thread with
    // this TID writes a wait with this TID.
    let (its_pid, at_ns) = unsafe {
        let pending = &raw const (*slot).task.pending;
        ((&raw const (*pending).pid).read_volatile(), (&raw const (*pending).at_ns).read_volatile())
    };
    its_pid == pid && at_ns == 0
}

/// Claims a slot without an owner. Two tasks on two CPUs may do so at once; the slot goes to the task
/// whose claim is the only one. If both see two claims, neither gets it this time.
///
/// Each task reads `refcount` after its own addition to it. One of two additions comes last, and its
/// task reads at least 2: two tasks never both get the slot.
#[inline(always)]
fn try_acquire(slot: *mut Slot) -> bool {
    // SAFETY: a value of the map.
    let refcount = unsafe { &raw mut (*slot).refcount };
    add(refcount, 1);
    // SAFETY: an aligned word of the map. The value read includes the claim that was just added.
    let is_only = unsafe { refcount.read_volatile() } == 1;
    if !is_only {
        add(refcount, -1);
    }
    is_only
}
