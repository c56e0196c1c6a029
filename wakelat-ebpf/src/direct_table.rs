//! Finds a key in the direct-mapped table in front of a hash map: see [`wakelat_common::direct_table`].

use aya_ebpf::{bindings::BPF_F_MMAPABLE, btf_maps::Array};
use wakelat_common::direct_table::{Place, TableKey, TableValue, index};

/// Such a table. User space maps it into its memory, and empties one half at a time.
pub type DirectTable<K, V> = Array<Place<K, V>, 1, { BPF_F_MMAPABLE as usize }>;

/// The value of a key of this CPU in this half, unless its place is taken. `places`: how many there are for each CPU and
/// half, a power of two.
#[inline(always)]
pub fn find<const WORDS: usize, K: TableKey<WORDS>, V: TableValue>(
    table: &DirectTable<K, V>,
    places: u32,
    cpu: u32,
    half: u32,
    key: &K,
) -> Option<*mut V> {
    let place = table.get_ptr_mut(index(cpu, half, places, key))?;
    // SAFETY: a value of the map, in the part of this CPU: no other CPU writes it, and `sched_switch` runs with interrupts
    // off, so no program on this CPU interrupts. User space empties a half only when no program uses it.
    unsafe { &mut *place }.take(key).map(|value| &raw mut *value)
}
