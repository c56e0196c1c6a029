//! Where the wait of each task is kept: a table with a place for each of the last bits of a thread's number, so that nobody
//! has to search. Numbers are given one after the other; threads whose last bits are the
//! same share a place. Who came first has it until its last switch, the others are in a hash map.

use core::arch::asm;

use aya_ebpf::{
    Global,
    bindings::BPF_NOEXIST,
    btf_maps::{Array, HashMap},
    macros::btf_map,
};
use wakelat_common::course::{Entry, Slot};

use crate::task::TaskFields;

/// Key: the last bits of a thread's number. Value: its wait, or that of another thread with these bits. Written by every
/// program; read by user space at the end, for the tasks still waiting. The loader sets the number of places, a power
/// of two.
#[btf_map]
static PLACES: Array<Slot, 16384> = Array::new();

/// Key: the identity of a task whose place was taken. Value: its wait. Full: the wakeup counts as `start_map_full`. The
/// loader sets the number of entries.
#[btf_map]
static STARTS: HashMap<u64, Entry, 2048> = HashMap::new();

/// 1: there is something in [`STARTS`], or was.
#[btf_map]
static CROWDED: Array<u32, 1> = Array::new();

/// The bits of a thread's number that say its place: the number of places, less one.
#[unsafe(no_mangle)]
static PLACE_BITS: Global<u32> = Global::new(0);

/// What is kept of `task`, if it has an entry.
#[inline(always)]
pub fn find<T: TaskFields>(task: T) -> Option<*mut Entry> {
    let place = place_of(task)?;
    if owner_of(place) == task.identity() {
        // SAFETY: a value of the map.
        return Some(unsafe { &raw mut (*place).entry });
    }
    // SAFETY: a word of a map is always there, and is read at once.
    let crowded = CROWDED.get(0).is_some_and(|crowded| unsafe { core::ptr::read_volatile(crowded) } != 0);
    if crowded { STARTS.get_ptr_mut(task.identity()) } else { None }
}

/// Gives `task`, which has none, an entry. Returns false where there is no room.
#[inline(always)]
pub fn insert<T: TaskFields>(task: T, entry: Entry) -> bool {
    let Some(place) = place_of(task) else { return false };
    let is_ours = if owner_of(place) == 0 { claim(place) } else { is_left_over(place, task.pid()) };
    if is_ours {
        // SAFETY: the place is this task's from now on, and the kernel's locks let one CPU at a time wake or switch it.
        unsafe {
            (*place).entry = entry;
            (&raw mut (*place).owner).write_volatile(task.identity());
        }
        return true;
    }
    if let Some(crowded) = CROWDED.get_ptr_mut(0) {
        // SAFETY: a word is written at once, and always the same.
        unsafe { crowded.write_volatile(1) };
    }
    STARTS.insert(task.identity(), entry, BPF_NOEXIST.into()).is_ok()
}

/// `task` is switched out for the last time: its identity may be another's soon.
#[inline(always)]
pub fn forget<T: TaskFields>(task: T) {
    let Some(place) = place_of(task) else { return };
    if owner_of(place) == task.identity() {
        // SAFETY: a value of the map, and this task's until the claim is given back.
        unsafe { (&raw mut (*place).owner).write_volatile(0) };
        add(place, -1);
    } else {
        _ = STARTS.remove(task.identity());
    }
}

#[inline(always)]
fn place_of<T: TaskFields>(task: T) -> Option<*mut Slot> {
    PLACES.get_ptr_mut(task.pid() & PLACE_BITS.load())
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
fn is_left_over(place: *mut Slot, pid: u32) -> bool {
    // SAFETY: a value of the map; nobody but a thread of this number writes a wait of this number in it.
    let start = unsafe { &(*place).entry.start };
    start.pid == pid && start.at_ns == 0
}

/// Two tasks may come to an empty place at once, on two CPUs: it belongs to whose claim is the only one. Where neither is,
/// nobody gets it this time.
#[inline(always)]
fn claim(place: *mut Slot) -> bool {
    add(place, 1);
    // SAFETY: a value of the map. The one that has just been added is in what is read.
    let alone = unsafe { (&raw const (*place).claims).read_volatile() } == 1;
    if !alone {
        add(place, -1);
    }
    alone
}

/// Adds to the claims atomically. Compare-and-exchange would say more, but kernels before 5.12 know this alone, and refuse
/// every program of an object with another (kernel/bpf/verifier.c, `resolve_pseudo_ldimm64()`).
#[inline(always)]
fn add(place: *mut Slot, claims: i64) {
    // SAFETY: an aligned word in a value of the map.
    unsafe {
        asm!("lock *(u64 *)({word} + 0) += {claims}", word = in(reg) &raw mut (*place).claims, claims = in(reg) claims);
    }
}
