//! Reads the direct-mapped tables in front of hash maps: see [`wakelat_common::direct_table`].

use anyhow::Result;
use aya::{Ebpf, Pod};
use wakelat_common::direct_table::{Place, TableValue, part};

use super::mapped_array::MappedArray;

/// A direct-mapped table, with the parts of all CPUs.
pub(super) struct DirectTableReader<K, V> {
    places: MappedArray<Place<K, V>>,
    cpus: u32,
    /// Places of each CPU and half.
    per_part: u32,
}

/// The number of places of all CPUs.
pub(super) const fn size(cpus: u32, per_part: u32) -> u32 {
    part(cpus, 0, per_part)
}

impl<K, V> DirectTableReader<K, V>
where
    V: TableValue,
    Place<K, V>: Pod,
{
    /// Takes the map `name`, which has `per_part` places for each CPU and half, from the object.
    ///
    /// # Errors
    /// If the object has no such map, or the kernel refuses to map it into memory.
    pub(super) fn take(ebpf: &mut Ebpf, name: &str, cpus: u32, per_part: u32) -> Result<Self> {
        Ok(Self { places: MappedArray::take(ebpf, name, size(cpus, per_part) as usize)?, cpus, per_part })
    }

    /// Passes all values of a half to `take`, with their keys, and removes them. No program may use that half.
    ///
    /// # Errors
    /// If `take` fails.
    pub(super) fn take_half(&mut self, half: u32, mut take: impl FnMut(&Place<K, V>) -> Result<()>) -> Result<()> {
        for cpu in 0..self.cpus {
            let first = part(cpu, half, self.per_part) as usize;
            let range = first..first + self.per_part as usize;
            self.places.take_used(range, |place| !place.value.is_empty(), &mut take)?;
        }
        Ok(())
    }
}
