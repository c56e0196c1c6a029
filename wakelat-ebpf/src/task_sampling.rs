//! Sampling under `--max-overhead`: whether a task is in the random sample of tasks that the programs
//! measure.

use aya_ebpf::{Global, btf_maps::Array, macros::btf_map};
use wakelat_common::task_sampling::{MAX_SAMPLING_SHIFT, is_sampled};

/// The sampling shift in use: one task in 2^shift is sampled. Written by user space while the programs
/// run.
#[btf_map]
static SAMPLING_SHIFT: Array<u32, 1> = Array::new();

/// 1: sampling is on, and some tasks may not be sampled.
#[unsafe(no_mangle)]
pub static SAMPLING: Global<u32> = Global::new(0);

/// The random seed of this run: with the TID, it decides whether a task is sampled.
#[unsafe(no_mangle)]
static SAMPLING_SEED: Global<u64> = Global::new(0);

/// Returns the sampling shift in use if thread `pid` is sampled: a wait that begins now is measured and
/// keeps this shift.
#[inline(always)]
pub fn sampled(pid: u32) -> Option<u8> {
    if SAMPLING.load() == 0 {
        return Some(0);
    }
    // SAFETY: a word of a map is always there, and is read in one access.
    let shift = unsafe { core::ptr::read_volatile(SAMPLING_SHIFT.get(0)?) } as u8 & MAX_SAMPLING_SHIFT;
    is_sampled(pid, SAMPLING_SEED.load(), shift).then_some(shift)
}
