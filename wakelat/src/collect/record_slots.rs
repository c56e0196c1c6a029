//! Reads the records that the programs pass through rings of slots: see [`wakelat_common::record_slots`].

use std::{
    mem::offset_of,
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Result;
use aya::{Ebpf, EbpfLoader};
use wakelat_common::{
    cpu_words::CpuWords,
    record_slots::{AT_NS_OFFSET, RecordSlot, SlotRing, record_length},
};

use super::{Settings, mapped_array::MappedArray, ring_layout::MIN_SHARED_BYTES};

/// So many slots are returned to the programs together, because each time a cache line moves between CPUs.
const RETURNED_AT_ONCE: u32 = 64;

/// Which CPUs have a ring of slots, and of how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotLayout {
    cpus: Vec<u32>,
    /// The number of slots of each, less one; 0 if there are none.
    mask: u32,
}

/// The rings of slots of one set of programs.
pub(super) struct SlotRings {
    slots: MappedArray<RecordSlot>,
    words: Rc<MappedArray<CpuWords>>,
    rings: Vec<Reading>,
    layout: SlotLayout,
}

/// How far a ring has been read.
#[derive(Clone, Copy, Default)]
struct Reading {
    /// Records written, when there were last no more to take.
    written: u32,
    /// Records taken.
    taken: u32,
    /// Records that the programs know to be taken.
    returned: u32,
    /// When the last record taken was stamped: ns of CLOCK_MONOTONIC.
    latest_ns: u64,
}

/// Which records the programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentRecords {
    /// None, or none at a switch.
    Others,
    /// Waits.
    Waits,
    /// Switches and other events.
    Events,
}

impl SlotLayout {
    /// Divides `total_bytes`, a power of two, between slots for the CPUs that are `online` and ring buffers. Returns the
    /// bytes for the ring buffers, too. There are no slots if each CPU had too few.
    pub(super) fn within(total_bytes: u32, records: SentRecords, online: &[u32]) -> (Self, u32) {
        let (slot_bytes, ring_bytes) = match records {
            SentRecords::Others => (0, total_bytes),
            // The ring buffers have the waits of CPUs that come online later.
            SentRecords::Waits => (total_bytes, Settings::SMALLEST_RING),
            SentRecords::Events => (total_bytes / 2, total_bytes / 2),
        };
        let share = |bytes: u32| u32::try_from(online.len()).map_or(0, |cpus| bytes / cpus.max(1));
        // The records of one CPU are in order, although they come in two rings, only if both are its own: where CPUs share
        // one, a record that another CPU is writing hides those behind it.
        let shared = if records == SentRecords::Events { ring_bytes } else { total_bytes };
        if slot_bytes == 0 || share(shared) < MIN_SHARED_BYTES {
            return (Self { cpus: Vec::new(), mask: 0 }, total_bytes);
        }
        let slots = (1 << share(slot_bytes).ilog2()) / size_of::<RecordSlot>() as u32;
        (Self { cpus: online.to_vec(), mask: slots - 1 }, ring_bytes)
    }

    fn slots_of_each(&self) -> usize {
        self.mask as usize + 1
    }

    fn slots(&self) -> usize {
        self.slots_of_each() * self.cpus.len().max(1)
    }

    /// Sets the number of slots in the programs.
    pub(super) fn configure<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        const NO: &u32 = &0;
        const YES: &u32 = &1;
        loader.map_max_entries("RECORD_SLOTS", self.slots() as u32).override_global(
            "HAS_RECORD_SLOTS",
            if self.cpus.is_empty() { NO } else { YES },
            true,
        );
    }

    /// Gives each CPU its ring.
    ///
    /// # Errors
    /// If the kernel refuses to map the slots into memory.
    pub(super) fn map(self, ebpf: &mut Ebpf, words: &Rc<MappedArray<CpuWords>>) -> Result<SlotRings> {
        let slots = MappedArray::take(ebpf, "RECORD_SLOTS", self.slots())?;
        for (cpu, first) in self.cpus.iter().zip((1..).step_by(self.slots_of_each())) {
            let word = |offset| words.word32(*cpu as usize, offset_of!(CpuWords, slots) + offset);
            word(offset_of!(SlotRing, mask)).store(self.mask, Ordering::Relaxed);
            word(offset_of!(SlotRing, first_plus_1)).store(first, Ordering::Release);
        }
        Ok(SlotRings { slots, words: Rc::clone(words), rings: vec![Reading::default(); self.cpus.len()], layout: self })
    }
}

impl SlotRings {
    /// How many there are.
    pub(super) fn rings(&self) -> usize {
        self.rings.len()
    }

    /// Calls `take` with the oldest record of `ring`, and removes it if that returns something. `None` also if there is
    /// none.
    pub(super) fn take_if<T>(&mut self, ring: usize, take: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut reading = *self.rings.get(ring)?;
        if reading.taken == reading.written {
            self.return_slots(ring);
            reading.written = self.word(ring, offset_of!(SlotRing, written)).load(Ordering::Acquire);
            self.rings[ring].written = reading.written;
            if reading.taken == reading.written {
                return None;
            }
        }
        let slots = self.layout.slots_of_each();
        let slot = self.slots.at(ring * slots + reading.taken as usize % slots);
        // SAFETY: within the slot, and aligned. The programs do not write it again before they know that it is taken. If the
        // record is not visible yet, what is there is plain numbers all the same.
        let bytes: &[u8; size_of::<RecordSlot>()] = unsafe { slot.cast().as_ref() };
        let at_ns = at_ns(bytes);
        if !cfg!(target_arch = "x86_64") && at_ns < reading.latest_ns {
            return None;
        }
        let taken = take(&bytes[..record_length(bytes[0])?])?;
        let reading = &mut self.rings[ring];
        reading.taken = reading.taken.wrapping_add(1);
        reading.latest_ns = at_ns;
        if reading.taken.wrapping_sub(reading.returned) >= RETURNED_AT_ONCE {
            self.return_slots(ring);
        }
        Some(taken)
    }

    /// Lets the programs write the slots of `ring` again that have been read.
    fn return_slots(&mut self, ring: usize) {
        let taken = self.rings[ring].taken;
        if taken != self.rings[ring].returned {
            self.word(ring, offset_of!(SlotRing, taken)).store(taken, Ordering::Release);
            self.rings[ring].returned = taken;
        }
    }

    /// The word of `ring` that is so many bytes from the start of its [`SlotRing`].
    fn word(&self, ring: usize, offset: usize) -> &AtomicU32 {
        self.words.word32(self.layout.cpus[ring] as usize, offset_of!(CpuWords, slots) + offset)
    }
}

/// When a record in a slot was stamped: ns of CLOCK_MONOTONIC.
fn at_ns(bytes: &[u8; size_of::<RecordSlot>()]) -> u64 {
    bytes[AT_NS_OFFSET..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(total_bytes: u32, records: SentRecords, cpus: u32) -> (usize, u32, u32) {
        let (layout, ring_bytes) = SlotLayout::within(total_bytes, records, &(0..cpus).collect::<Vec<_>>());
        (layout.cpus.len(), layout.mask, ring_bytes)
    }

    #[test]
    fn slots_and_ring_buffers_together_have_the_size_that_was_asked_for() {
        assert_eq!(layout(16 << 20, SentRecords::Events, 2), (2, (4 << 13) - 1, 8 << 20));
        assert_eq!(layout(4 << 20, SentRecords::Waits, 3), (3, (1 << 13) - 1, Settings::SMALLEST_RING));
        assert_eq!(layout(64 << 20, SentRecords::Waits, 160), (160, (1 << 11) - 1, Settings::SMALLEST_RING));
        assert_eq!(layout(64 << 20, SentRecords::Events, 128), (128, (1 << 11) - 1, 32 << 20));
    }

    #[test]
    fn with_too_little_memory_for_each_cpu_there_are_only_ring_buffers() {
        assert_eq!(layout(64 << 20, SentRecords::Events, 512), (0, 0, 64 << 20));
        // CPUs would share what is left for ring buffers.
        assert_eq!(layout(64 << 20, SentRecords::Events, 160), (0, 0, 64 << 20));
        assert_eq!(layout(1 << 19, SentRecords::Events, 2), (0, 0, 1 << 19));
        assert_eq!(layout(4096, SentRecords::Waits, 1), (0, 0, 4096));
        assert_eq!(layout(16 << 20, SentRecords::Others, 2), (0, 0, 16 << 20));
    }
}
