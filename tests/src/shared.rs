//! Memory shared by forked tasks.

use std::{num::NonZeroUsize, ops::Deref, sync::atomic::AtomicU64};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};

/// Numbers that a task shares with those that it forks later. They stay mapped until the process ends.
#[derive(Clone, Copy)]
pub struct Shared(&'static [AtomicU64]);

impl Shared {
    /// Maps `length` zeros.
    pub fn new(length: usize) -> Self {
        let bytes = NonZeroUsize::new(length.max(1) * size_of::<AtomicU64>()).expect("at least one");
        // Populated, so that no page fault comes between a clock read and the store of its value.
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { mmap_anonymous(None, bytes, protection, flags) }.expect("no memory to share");
        // SAFETY: page-aligned, zeroed, of the length asked for, never unmapped; all-zero bytes are valid atomics.
        Self(unsafe { std::slice::from_raw_parts(start.as_ptr().cast(), length) })
    }
}

impl Deref for Shared {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        self.0
    }
}
