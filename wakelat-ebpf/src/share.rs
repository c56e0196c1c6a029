//! Whom to watch where not all tasks may be.

use aya_ebpf::{Global, btf_maps::Array, macros::btf_map};
use wakelat_common::share::{MAX_LEVEL, watches};

/// The level in force. Written by user space while the programs run.
#[btf_map]
static LEVEL: Array<u32, 1> = Array::new();

/// 1: not all tasks are watched.
#[unsafe(no_mangle)]
pub static SHARED_OUT: Global<u32> = Global::new(0);

/// Drawn for this run.
#[unsafe(no_mangle)]
static SALT: Global<u64> = Global::new(0);

/// The level in force, if a wait of thread `pid` that begins now is watched.
#[inline(always)]
pub fn watched(pid: u32) -> Option<u8> {
    if SHARED_OUT.load() == 0 {
        return Some(0);
    }
    // SAFETY: a word of a map is always there, and is read at once.
    let level = unsafe { core::ptr::read_volatile(LEVEL.get(0)?) } as u8 & MAX_LEVEL;
    watches(pid, SALT.load(), level).then_some(level)
}
