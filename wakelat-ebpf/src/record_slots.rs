//! The ring of slots of this CPU, through which programs on `sched_switch` pass records: see
//! [`wakelat_common::record_slots`].

use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::{Global, bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map, maps::ring_buf::RingBufEntry};
use wakelat_common::record_slots::{RecordSlot, SlotRing};

use crate::{cpu_words, ring_buffers};

/// The slots of all rings, one ring after the other. The loader sets their number.
#[btf_map]
static RECORD_SLOTS: Array<RecordSlot, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// 1: there are rings of slots.
#[unsafe(no_mangle)]
static HAS_RECORD_SLOTS: Global<u32> = Global::new(0);

/// Room for a record of a switch or a wait.
pub enum RecordRoom<R: 'static> {
    /// In the ring of slots.
    Slot(VacantSlot),
    /// In the BPF ring buffer, if the CPU has no ring of slots.
    RingBuffer(RingBufEntry<R>),
}

/// A slot that is to be written.
pub struct VacantSlot {
    slot: *mut RecordSlot,
    ring: *mut SlotRing,
}

/// Reserves room for a record of `cpu`, which is this CPU; `None` if there is none. Call it only in programs on
/// `sched_switch`.
#[inline(always)]
pub fn reserve<R: 'static>(cpu: u32) -> Option<RecordRoom<R>> {
    const { assert!(size_of::<R>() <= size_of::<RecordSlot>()) };
    if HAS_RECORD_SLOTS.load() == 0 {
        return ring_buffers::reserve(cpu).map(RecordRoom::RingBuffer);
    }
    let words = cpu_words::of(cpu)?;
    // SAFETY: this CPU's own words. `sched_switch` runs with interrupts off, so no other program writes them meanwhile; user
    // space writes only one, at once.
    let (ring, now) = unsafe { (&raw mut (*words).slots, (&raw const (*words).slots).read_volatile()) };
    if now.first_plus_1 == 0 {
        return ring_buffers::reserve(cpu).map(RecordRoom::RingBuffer);
    }
    let slot = RECORD_SLOTS.get_ptr_mut(now.next()?)?;
    Some(RecordRoom::Slot(VacantSlot { slot, ring }))
}

impl<R> RecordRoom<R> {
    /// Writes the record. Once, for both kinds of room: the stack of a program does not suffice for two records.
    #[inline(always)]
    pub fn write(&mut self, record: R) {
        let room = match self {
            Self::Slot(vacant) => vacant.slot.cast::<R>(),
            Self::RingBuffer(entry) => entry.as_mut_ptr(),
        };
        // SAFETY: a value of the map that has room for the record, and that user space does not read before it is counted;
        // or a reserved part of the ring buffer.
        unsafe { room.write(record) };
    }

    /// Passes the record to user space. Wakes the reader if `check_fill` is set and a quarter of the room of `cpu`, which is
    /// this CPU, is occupied.
    #[inline(always)]
    pub fn publish(self, cpu: u32, check_fill: bool) {
        match self {
            Self::Slot(VacantSlot { ring, .. }) => {
                compiler_fence(Ordering::Release);
                // SAFETY: this CPU's own words.
                let now = unsafe {
                    (&raw mut (*ring).written).write_volatile((*ring).written.wrapping_add(1));
                    ring.read_volatile()
                };
                if check_fill && now.occupied() > now.mask / 4 {
                    ring_buffers::wake_reader(cpu);
                }
            }
            Self::RingBuffer(entry) => ring_buffers::submit(entry, cpu, check_fill),
        }
    }
}
