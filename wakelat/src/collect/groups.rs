//! The groups that the programs aggregate waits into, in two halves like the histograms: read and emptied in
//! batches.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd},
};

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use aya_obj::generated::bpf_cmd;
use wakelat_common::group::{DIRECT_ELEMENTS, GroupElement, GroupElementKey};

use super::{
    bpf_syscall::{empty, syscall},
    direct_table::DirectTableReader,
    map::take,
};

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
    halves: [MapData; 2],
    /// The results of one system call.
    keys: Vec<GroupElementKey>,
    elements: Vec<GroupElement>,
}

impl GroupMaps {
    /// Takes the maps out of the object.
    ///
    /// # Errors
    /// If the object has other maps.
    pub(super) fn take(ebpf: &mut Ebpf, cpus: u32) -> Result<Self> {
        let direct = DirectTableReader::take(ebpf, DIRECT_MAP, cpus, DIRECT_ELEMENTS)?;
        let mut half = |name| match take(ebpf, name)? {
            Map::HashMap(map) => Ok(map),
            _ => bail!("map `{name}` of the BPF object is not a hash map"),
        };
        let halves = [half(MAPS[0])?, half(MAPS[1])?];
        Ok(Self {
            direct,
            halves,
            keys: vec![GroupElementKey::default(); BATCH],
            elements: vec![GroupElement::EMPTY; BATCH],
        })
    }

    /// Passes all elements of a half to `take`, and deletes them. No program may use that half.
    ///
    /// # Errors
    /// If the kernel refuses to read the map, or `take` fails.
    pub(super) fn take_half(&mut self, half: u32, mut take: impl FnMut(&GroupElement) -> Result<()>) -> Result<()> {
        let Self { direct, halves, keys, elements } = self;
        direct.take_half(half, |place| take(&place.value))?;
        let map = halves[half as usize & 1].fd().as_fd();
        let mut batch = None;
        loop {
            let (count, next) = match take_batch(map, batch, keys, elements) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    // A bucket has more elements than there is room for: none has been taken.
                    let room = 2 * keys.len();
                    keys.resize(room, GroupElementKey::default());
                    elements.resize(room, GroupElement::EMPTY);
                    continue;
                }
                taken => taken.context("cannot read the groups")?,
            };
            elements[..count].iter().try_for_each(&mut take)?;
            if next.is_none() {
                return Ok(());
            }
            batch = next;
        }
    }
}

/// Moves elements of a hash map to `keys` and `elements`, which are of equal length, from the bucket `from` on
/// (`BPF_MAP_LOOKUP_AND_DELETE_BATCH`, since 5.6). Returns how many there were, and the bucket to continue from;
/// `None` after the last one.
fn take_batch(
    map: BorrowedFd<'_>,
    from: Option<u32>,
    keys: &mut [GroupElementKey],
    elements: &mut [GroupElement],
) -> io::Result<(usize, Option<u32>)> {
    let mut next = 0_u32;
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let batch = unsafe { &mut attr.batch };
    batch.in_batch = from.as_ref().map_or(0, |from| (&raw const *from).addr() as u64);
    batch.out_batch = (&raw mut next).expose_provenance() as u64;
    batch.keys = keys.as_mut_ptr().expose_provenance() as u64;
    batch.values = elements.as_mut_ptr().expose_provenance() as u64;
    batch.count = u32::try_from(keys.len().min(elements.len())).unwrap_or(u32::MAX);
    batch.map_fd = map.as_raw_fd() as u32;
    // SAFETY: keys and elements have the sizes with which the map was created, and there is room for `count` of
    // each; the kernel takes a bucket from `from` and puts one into `next`. All of it outlives the call.
    let result = unsafe { syscall(bpf_cmd::BPF_MAP_LOOKUP_AND_DELETE_BATCH, &mut attr) };
    // SAFETY: a plain number, which the kernel has set, also if this was the last batch (`ENOENT`).
    let count = unsafe { attr.batch.count } as usize;
    match result {
        Ok(_) => Ok((count, Some(next))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok((count, None)),
        Err(error) => Err(error),
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
