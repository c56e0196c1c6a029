//! The groups that the programs aggregate waits into, in two halves like the histograms: read and emptied in
//! batches.

use anyhow::{Context as _, Result};
use aya::Ebpf;
use wakelat_common::group::{DIRECT_ELEMENTS, GroupElement, GroupElementKey};

use super::{direct_table::DirectTableReader, element_batch::BatchedMap};

/// The maps with the groups, by half.
pub(super) const MAPS: [&str; 2] = ["GROUPS_0", "GROUPS_1"];

/// The map with those that are found without a hash map.
pub(super) const DIRECT_MAP: &str = "DIRECT_ELEMENTS";

/// Memory of an element in the kernel: bytes. The element with its links and its hash (`struct htab_elem`, 48
/// bytes), and up to two buckets of 16 bytes, because the kernel rounds their number up to a power of two
/// (kernel/bpf/hashtab.c, from 5.10 to 7.2).
const ELEMENT_BYTES: u64 = 48 + size_of::<GroupElementKey>() as u64 + size_of::<GroupElement>() as u64 + 2 * 16;

/// Elements that one system call returns, if no bucket has more.
const BATCH: usize = 1024;

/// How the programs group waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// The properties that groups differ in: bits of [`wakelat_common::group::part`]; not 0.
    pub parts: u32,
    /// Memory for both halves: bytes.
    pub bytes: u64,
}

impl GroupSettings {
    /// Number of elements that each half has room for: at least one.
    pub(super) fn elements(self) -> u32 {
        u32::try_from(self.bytes / 2 / ELEMENT_BYTES).unwrap_or(u32::MAX).max(1)
    }
}

/// The groups of both halves.
pub(super) struct GroupMaps {
    direct: DirectTableReader<GroupElementKey, GroupElement>,
    halves: [BatchedMap<GroupElementKey, GroupElement>; 2],
}

impl GroupMaps {
    /// Takes the maps out of the object.
    ///
    /// # Errors
    /// If the object has other maps.
    pub(super) fn take(ebpf: &mut Ebpf, cpus: u32) -> Result<Self> {
        let direct = DirectTableReader::take(ebpf, DIRECT_MAP, cpus, DIRECT_ELEMENTS)?;
        let mut half = |name| BatchedMap::take(ebpf, name, BATCH, GroupElementKey::default(), GroupElement::EMPTY);
        Ok(Self { direct, halves: [half(MAPS[0])?, half(MAPS[1])?] })
    }

    /// Passes all elements of a half to `take`, and deletes them. No program may use that half.
    ///
    /// # Errors
    /// If the kernel refuses to read the map, or `take` fails.
    pub(super) fn take_half(&mut self, half: u32, mut take: impl FnMut(&GroupElement) -> Result<()>) -> Result<()> {
        self.direct.take_half(half, |place| take(&place.value))?;
        self.halves[half as usize & 1].take_all(|_, element| take(element)).context("cannot take the groups")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_memory_has_room_for_tens_of_thousands_of_elements_in_each_half() {
        let elements = |bytes| GroupSettings { parts: 1, bytes }.elements();
        assert_eq!(elements(32 << 20), 45_590);
        assert_eq!((elements(1), elements(u64::MAX)), (1, u32::MAX));
    }
}
