//! Whom to watch where not all tasks may be.

use aya_ebpf::{Global, btf_maps::Array, macros::btf_map};
use wakelat_common::share::{MAX_SAMPLING_SHIFT, is_sampled};

/// The level in force. Written by user space while the programs run.
#[btf_map]
static SAMPLING_SHIFT: Array<u32, 1> = Array::new();

/// 1: not all tasks are watched.
#[unsafe(no_mangle)]
pub static SAMPLING: Global<u32> = Global::new(0);

/// Drawn for this run.
#[unsafe(no_mangle)]
static SAMPLING_SEED: Global<u64> = Global::new(0);

/// The level in force, if a wait of thread `pid` that begins now is watched.
#[inline(always)]
pub fn sampled(pid: u32) -> Option<u8> {
    if SAMPLING.load() == 0 {
        return Some(0);
    }
    // SAFETY: a word of a map is always there, and is read at once.
    let level = unsafe { core::ptr::read_volatile(SAMPLING_SHIFT.get(0)?) } as u8 & MAX_SAMPLING_SHIFT;
    is_sampled(pid, SAMPLING_SEED.load(), level).then_some(level)
}
