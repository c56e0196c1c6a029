//! What the programs keep of each CPU and use in every run: see [`wakelat_common::cpu_words`].

use aya_ebpf::{bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map};
use wakelat_common::cpu_words::CpuWords;

use crate::cpu_array;

/// Key: a CPU. Value: its words. Read by user space at any time.
#[btf_map]
static CPU_WORDS: Array<CpuWords, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// The words of `cpu`, which is this CPU.
#[inline(always)]
pub fn of(cpu: u32) -> Option<*mut CpuWords> {
    CPU_WORDS.get_ptr_mut(cpu)
}

/// The words of this CPU.
#[inline(always)]
pub fn own() -> Option<*mut CpuWords> {
    cpu_array::own(&CPU_WORDS)
}
