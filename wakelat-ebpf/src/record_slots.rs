//! The ring of slots of this CPU, through which programs on `sched_switch` pass records: see
//! [`wakelat_common::record_slots`].

use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::{Global, bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map};
use wakelat_common::record_slots::{RecordSlot, SlotRing};

use crate::{cpu_words, ring_buffers};

/// The slots of all rings, one ring after the other. The loader sets their number.
#[btf_map]
static RECORD_SLOTS: Array<RecordSlot, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// 1: there are rings of slots.
#[unsafe(no_mangle)]
static HAS_RECORD_SLOTS: Global<u32> = Global::new(0);

/// The next slot of a CPU.
pub enum NextSlot {
    /// It has room for a record.
    Vacant(VacantSlot),
    /// The ring is full.
    Occupied,
    /// This CPU has no ring of slots.
    NoRing,
}

/// A slot that is to be written.
pub struct VacantSlot {
    slot: *mut RecordSlot,
    ring: *mut SlotRing,
    cpu: u32,
}

/// The next slot of `cpu`, which is this CPU. Call it only in programs on `sched_switch`.
#[inline(always)]
pub fn next(cpu: u32) -> NextSlot {
    if HAS_RECORD_SLOTS.load() == 0 {
        return NextSlot::NoRing;
    }
    let Some(words) = cpu_words::of(cpu) else { return NextSlot::NoRing };
    // SAFETY: this CPU's own words. `sched_switch` runs with interrupts off, so no other program writes them meanwhile; user
    // space writes only one, at once.
    let (ring, now) = unsafe { (&raw mut (*words).slots, (&raw const (*words).slots).read_volatile()) };
    if now.first_plus_1 == 0 {
        return NextSlot::NoRing;
    }
    match now.next().and_then(|slot| RECORD_SLOTS.get_ptr_mut(slot)) {
        Some(slot) => NextSlot::Vacant(VacantSlot { slot, ring, cpu }),
        None => NextSlot::Occupied,
    }
}

impl VacantSlot {
    /// Writes a record. Wakes the reader if `check_fill` is set and a quarter of the slots are occupied.
    #[inline(always)]
    pub fn write<R>(self, record: R, check_fill: bool) {
        const { assert!(size_of::<R>() <= size_of::<RecordSlot>()) };
        // SAFETY: a value of the map, which has room for the record, and which user space does not read before it is
        // counted; and this CPU's own words.
        let now = unsafe {
            self.slot.cast::<R>().write(record);
            compiler_fence(Ordering::Release);
            (&raw mut (*self.ring).written).write_volatile((*self.ring).written.wrapping_add(1));
            (&raw const *self.ring).read_volatile()
        };
        if check_fill && now.occupied() > now.mask / 4 {
            ring_buffers::wake_reader(self.cpu);
        }
    }
}
