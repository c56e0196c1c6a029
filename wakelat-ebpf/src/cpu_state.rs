//! The state of each CPU between two of its timeline records (switches, interrupts and other events between
//! waits), and the reservation of those records, whose losses the state counts.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map, maps::ring_buf::RingBufEntry};
use wakelat_common::cpu_state::CpuState;

use crate::{maps::add, ring_buffers};

/// State of this CPU between two of its records. User space reads its count of lost records.
#[btf_map]
static CPU_STATE: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// This CPU's entry of [`CPU_STATE`].
#[inline(always)]
pub fn get() -> Option<*mut CpuState> {
    CPU_STATE.get_ptr_mut(0)
}

/// Reserves room for a timeline record of `cpu`, which is this CPU, and returns it with the number of records lost so far; if there is no
/// room, counts one more. An interrupt may send records of its own between any two instructions. Then
/// this record, which comes before those, may have a higher count than they have.
#[inline(always)]
pub fn reserve<R: 'static>(here: *mut CpuState, cpu: u32) -> Option<(RingBufEntry<R>, u32)> {
    // SAFETY: this CPU's own entry. No reference to it is held, because a program that interrupts this
    // one also writes it.
    let lost = unsafe { &raw mut (*here).lost };
    match ring_buffers::reserve(cpu) {
        // SAFETY: the pointer is to this CPU's own entry; an aligned word is read in one access.
        Some(slot) => Some((slot, unsafe { lost.read_volatile() } as u32)),
        None => count_lost(here),
    }
}

/// Counts a record of this CPU that had no room.
#[inline(always)]
pub fn count_lost<R>(here: *mut CpuState) -> Option<R> {
    // SAFETY: this CPU's own entry: see `reserve`.
    add(unsafe { &raw mut (*here).lost }, 1);
    None
}
