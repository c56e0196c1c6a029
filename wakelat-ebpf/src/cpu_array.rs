//! Arrays in which each CPU has a value of its own, for what every program reads and writes.
//!
//! They cost less than per-CPU arrays. The address of the first value is a constant of the program, while a
//! per-CPU array first loads the address of this CPU's value, and before 6.10 takes a call to do so
//! (`percpu_array_map_gen_lookup()`, kernel/bpf/arraymap.c). User space maps them into its memory.
//!
//! The loader sets the number of values: that of the CPUs that are possible. The size of a value is a multiple of
//! 64 bytes, so that no two CPUs write to the same cache line.

use aya_ebpf::{btf_maps::Array, helpers::bpf_get_smp_processor_id};

/// The value of this CPU.
#[inline(always)]
pub fn own<V, const N: usize, const FLAGS: usize>(array: &Array<V, N, FLAGS>) -> Option<*mut V> {
    const { assert!(size_of::<V>().is_multiple_of(64)) };
    // SAFETY: no arguments, no side effects.
    array.get_ptr_mut(unsafe { bpf_get_smp_processor_id() })
}
