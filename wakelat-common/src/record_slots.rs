//! Rings of slots in an array that user space maps: how the programs on `sched_switch` pass records, one for each switch or
//! wait, without a lock and without a helper call.
//!
//! # How it works
//!
//! Each CPU that is online when the programs are loaded has a ring of its own. Only programs on `sched_switch` of that CPU
//! write to it, and no two of them at a time, because a switch has interrupts off. They use the slots in turn, and count a
//! record once it is written. User space takes the records in turn, and counts them in batches. The ring is full when the
//! counts differ by its number of slots.
//!
//! x86 keeps the order of the stores. Another architecture may show the count before the record. There, user space takes no
//! record that was stamped before its predecessor, as that of an earlier turn was, or so lately that stores may still be
//! under way (`record_merge`, wakelat-core).
//!
//! Records of other programs, which interrupts can interrupt, go through BPF ring buffers. So do records that are longer than
//! a slot, and all records of a CPU without a ring of slots.

use crate::{
    Sample,
    sample::KIND_SAMPLE,
    timeline::{SwitchRecord, kind},
};

/// Room for a [`Sample`] or a [`SwitchRecord`]: two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct RecordSlot([u64; 16]);

/// Where a record that a slot has room for has its time (ns of CLOCK_MONOTONIC): bytes from its start.
pub const AT_NS_OFFSET: usize = 8;

/// The ring of slots of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SlotRing {
    /// The number of its first slot, plus one; 0 if the CPU has no ring. Set by user space before the programs are attached.
    pub first_plus_1: u32,
    /// The number of its slots, less one: a power of two, less one.
    pub mask: u32,
    /// Records written so far, by the programs.
    pub written: u32,
    /// Records taken so far, by user space.
    pub taken: u32,
}

impl SlotRing {
    /// The slot for the next record; `None` if the ring is full.
    #[inline(always)]
    pub fn next(&self) -> Option<u32> {
        let first = self.first_plus_1.wrapping_sub(1);
        (self.occupied() <= self.mask).then(|| first.wrapping_add(self.written & self.mask))
    }

    /// How many records are in the ring.
    #[inline(always)]
    pub fn occupied(&self) -> u32 {
        self.written.wrapping_sub(self.taken)
    }
}

/// The length of a record of this kind in a slot: bytes; `None` if no slot has such records.
pub fn record_length(kind: u8) -> Option<usize> {
    match kind {
        KIND_SAMPLE => Some(size_of::<Sample>()),
        kind::SWITCH => Some(size_of::<SwitchRecord>()),
        _ => None,
    }
}

const _: () = {
    assert!(size_of::<Sample>() <= size_of::<RecordSlot>() && size_of::<SwitchRecord>() <= size_of::<RecordSlot>());
    assert!(core::mem::offset_of!(Sample, kind) == 0 && core::mem::offset_of!(SwitchRecord, kind) == 0);
    assert!(core::mem::offset_of!(Sample, at_ns) == AT_NS_OFFSET);
    assert!(core::mem::offset_of!(SwitchRecord, at_ns) == AT_NS_OFFSET);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(written: u32, taken: u32) -> SlotRing {
        SlotRing { first_plus_1: 9, mask: 3, written, taken }
    }

    #[test]
    fn slots_are_used_in_turn() {
        let used: Vec<_> = (0..6).map(|written| ring(written, written).next()).collect();
        assert_eq!(used, [8, 9, 10, 11, 8, 9].map(Some));
    }

    #[test]
    fn a_ring_is_full_when_each_slot_has_a_record_that_is_not_taken() {
        assert_eq!((ring(6, 3).next(), ring(6, 2).next(), ring(6, 2).occupied()), (Some(10), None, 4));
    }

    #[test]
    fn counts_may_wrap_around() {
        let wrapped = ring(1, u32::MAX - 1);
        assert_eq!((wrapped.occupied(), wrapped.next()), (3, Some(9)));
        assert_eq!(ring(2, u32::MAX - 1).next(), None);
    }
}
