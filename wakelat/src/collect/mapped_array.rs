//! An array map in this process's memory (since 5.5): reading and clearing it needs no system call.

use std::{
    mem::MaybeUninit,
    ops::Range,
    os::fd::AsFd as _,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf, Pod,
    maps::{Map, MapData},
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::map::take;

/// The values of an array map.
pub(super) struct MappedArray<V> {
    first: NonNull<V>,
    count: usize,
    /// Keeps the map's memory alive.
    _map: MapData,
}

impl<V: Pod> MappedArray<V> {
    /// Takes the map `name`, which has `count` values, from the object.
    ///
    /// # Errors
    /// If the object has no such map, or the kernel refuses to map it into memory.
    pub(super) fn take(ebpf: &mut Ebpf, name: &str, count: usize) -> Result<Self> {
        // The kernel aligns values to 8 bytes.
        const { assert!(size_of::<V>().is_multiple_of(8)) };
        let Map::Array(map) = take(ebpf, name)? else { bail!("map `{name}` of the BPF object is not an array") };
        let (bytes, access) = (count * size_of::<V>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address, and maps at least as many bytes as the array has.
        let mapped = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, map.fd().as_fd(), 0) };
        let mapped = mapped.with_context(|| format!("cannot map the values of `{name}` into memory"))?;
        let first = NonNull::new(mapped.cast()).with_context(|| format!("the kernel maps `{name}` to address 0"))?;
        Ok(Self { first, count, _map: map })
    }

    /// All values. Programs may run meanwhile: each value is read word by word, the first one first.
    pub(super) fn values(&self) -> impl Iterator<Item = V> {
        (0..self.count).map(|index| {
            let mut value = MaybeUninit::<V>::uninit();
            for word in 0..size_of::<V>() / size_of::<u64>() {
                // SAFETY: within the mapping and within `value`. Both are aligned to 8 bytes, and programs access the
                // words of the map as a whole.
                unsafe {
                    let from = self.first.add(index).cast::<AtomicU64>().add(word);
                    value.as_mut_ptr().cast::<u64>().add(word).write(from.as_ref().load(Ordering::Acquire));
                }
            }
            // SAFETY: every byte is set, and any bytes are a value.
            unsafe { value.assume_init() }
        })
    }

    /// Passes each value in `range` that is `used` to `take`, and sets it to zeros. No program may use these values
    /// meanwhile.
    pub(super) fn take_used<E>(
        &mut self,
        range: Range<usize>,
        used: impl Fn(&V) -> bool,
        mut take: impl FnMut(&V) -> Result<(), E>,
    ) -> Result<(), E> {
        for index in range.start..range.end.min(self.count) {
            // SAFETY: within the mapping; nothing else accesses this value meanwhile, and any bytes are one.
            unsafe {
                let at = self.first.add(index);
                if used(at.as_ref()) {
                    take(at.as_ref())?;
                    at.write_bytes(0, 1);
                }
            }
        }
        Ok(())
    }

    /// Sets the word at this offset (bytes) in each value. No program may write that word meanwhile.
    pub(super) fn set_word_of_each(&self, offset: usize, word: u64) {
        assert!(offset.is_multiple_of(size_of::<u64>()) && offset < size_of::<V>());
        for index in 0..self.count {
            // SAFETY: within the mapping, and aligned to 8 bytes. A value is plain numbers, for which any bytes are valid.
            unsafe { self.first.add(index).byte_add(offset).cast::<AtomicU64>().as_ref() }
                .store(word, Ordering::Relaxed);
        }
    }

    /// The number at this offset (bytes) in the value at `index`.
    pub(super) fn word32(&self, index: usize, offset: usize) -> &AtomicU32 {
        assert!(index < self.count && offset.is_multiple_of(size_of::<u32>()) && offset < size_of::<V>());
        // SAFETY: within the mapping, and aligned to 4 bytes. A value is plain numbers, for which any bytes are valid.
        unsafe { self.first.add(index).byte_add(offset).cast::<AtomicU32>().as_ref() }
    }

    /// The value at `index`, which programs may be writing.
    pub(super) fn at(&self, index: usize) -> NonNull<V> {
        assert!(index < self.count);
        // SAFETY: within the mapping.
        unsafe { self.first.add(index) }
    }
}

impl<V: Pod + Default + PartialEq> MappedArray<V> {
    /// Passes each value that is not the default to `take`, and sets it to the default. No program may run
    /// meanwhile.
    pub(super) fn take_each(&mut self, mut take: impl FnMut(V)) {
        for index in 0..self.count {
            // SAFETY: within the mapping, which nothing else accesses while no program runs; the value is plain
            // numbers, for which any bytes are valid.
            unsafe {
                let at = self.first.add(index);
                let value = at.read_volatile();
                // Most values are the default.
                if value != V::default() {
                    at.write_volatile(V::default());
                    take(value);
                }
            }
        }
    }
}

impl<V> Drop for MappedArray<V> {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference into it exists.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), self.count * size_of::<V>()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
