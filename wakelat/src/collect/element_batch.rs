//! Takes elements out of hash maps in batches: a system call returns as many elements as there is room for
//! (`BPF_MAP_LOOKUP_BATCH` and others, since 5.6).

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd},
};

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf, Pod,
    maps::{HashMap, Map, MapData},
};
use aya_obj::generated::bpf_cmd;

use super::{
    bpf_syscall::{empty, syscall},
    map::take,
};

/// A hash map with keys and values of these types.
pub(super) struct BatchedMap<K, V> {
    map: MapData,
    /// The results of one system call.
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Pod, V: Pod> BatchedMap<K, V> {
    /// Takes the map `name` from the object. A system call returns up to `batch` elements, if no bucket has more.
    /// `key` and `value` fill the places that no element has been copied to.
    ///
    /// # Errors
    /// If the object has no such hash map.
    pub(super) fn take(ebpf: &mut Ebpf, name: &str, batch: usize, key: K, value: V) -> Result<Self> {
        let map = take(ebpf, name)?;
        // Checks that keys and values have the sizes with which the map was created.
        HashMap::<&MapData, K, V>::try_from(&map).with_context(|| format!("map `{name}` of the BPF object"))?;
        let Map::HashMap(map) = map else { bail!("map `{name}` of the BPF object is not a hash map") };
        Ok(Self { map, keys: vec![key; batch], values: vec![value; batch] })
    }

    /// Passes all elements to `take`, and deletes them. No program may use the map.
    ///
    /// # Errors
    /// If the kernel refuses to read the map, or `take` fails.
    pub(super) fn take_all(&mut self, mut take: impl FnMut(&K, &V) -> Result<()>) -> Result<()> {
        self.each_batch(bpf_cmd::BPF_MAP_LOOKUP_AND_DELETE_BATCH, |_, keys, values| {
            keys.iter().zip(values).try_for_each(|(key, value)| take(key, value))
        })
    }

    /// Passes the elements whose key is `wanted` to `take`, and deletes them. No program may use these elements.
    /// Programs may add and use others meanwhile, which are not deleted.
    ///
    /// # Errors
    /// If the kernel refuses to read or write the map, or `take` fails.
    pub(super) fn take_wanted(
        &mut self,
        wanted: impl Fn(&K) -> bool,
        mut take: impl FnMut(&K, &V) -> Result<()>,
    ) -> Result<()> {
        // The kernel walks from bucket to bucket, so that deleting the elements of earlier ones moves none of later ones.
        self.each_batch(bpf_cmd::BPF_MAP_LOOKUP_BATCH, |map, keys, values| {
            let mut taken = 0;
            for at in 0..keys.len() {
                if wanted(&keys[at]) {
                    take(&keys[at], &values[at])?;
                    keys[taken] = keys[at];
                    taken += 1;
                }
            }
            delete(map, &keys[..taken]).context("cannot delete elements that were read")
        })
    }

    /// Passes the elements that each system call returns to `take`.
    fn each_batch(
        &mut self,
        command: bpf_cmd,
        mut take: impl FnMut(BorrowedFd<'_>, &mut [K], &[V]) -> Result<()>,
    ) -> Result<()> {
        let Self { map, keys, values } = self;
        let map = map.fd().as_fd();
        let mut batch = None;
        loop {
            let (count, next) = match read(map, command, batch, keys, values) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    // A bucket has more elements than there is room for: none has been taken.
                    let (room, key, value) = (2 * keys.len(), keys[0], values[0]);
                    keys.resize(room, key);
                    values.resize(room, value);
                    continue;
                }
                read => read.context("cannot read elements in batches")?,
            };
            take(map, &mut keys[..count], &values[..count])?;
            if next.is_none() {
                return Ok(());
            }
            batch = next;
        }
    }
}

/// Copies elements of a hash map to `keys` and `values`, which are of equal length, from the bucket `from` on; `command`
/// also deletes them or not. Returns how many there were, and the bucket to continue from; `None` after the last one.
fn read<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    command: bpf_cmd,
    from: Option<u32>,
    keys: &mut [K],
    values: &mut [V],
) -> io::Result<(usize, Option<u32>)> {
    let mut next = 0_u32;
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let batch = unsafe { &mut attr.batch };
    batch.in_batch = from.as_ref().map_or(0, |from| (&raw const *from).addr() as u64);
    batch.out_batch = (&raw mut next).expose_provenance() as u64;
    batch.keys = keys.as_mut_ptr().expose_provenance() as u64;
    batch.values = values.as_mut_ptr().expose_provenance() as u64;
    batch.count = u32::try_from(keys.len().min(values.len())).unwrap_or(u32::MAX);
    batch.map_fd = map.as_raw_fd() as u32;
    // SAFETY: keys and values have the sizes with which the map was created, any bytes are valid for them, and there is
    // room for `count` of each; the kernel takes a bucket from `from` and puts one into `next`. All of it outlives the
    // call.
    let result = unsafe { syscall(command, &mut attr) };
    // SAFETY: a plain number, which the kernel has set, also if this was the last batch (`ENOENT`).
    let count = unsafe { attr.batch.count } as usize;
    match result {
        Ok(_) => Ok((count, Some(next))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok((count, None)),
        Err(error) => Err(error),
    }
}

/// Deletes the elements with these keys. All of them exist.
fn delete<K: Pod>(map: BorrowedFd<'_>, keys: &[K]) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let batch = unsafe { &mut attr.batch };
    batch.keys = keys.as_ptr().expose_provenance() as u64;
    batch.count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    batch.map_fd = map.as_raw_fd() as u32;
    // SAFETY: the kernel reads `count` keys, which have the size with which the map was created and outlive the call.
    unsafe { syscall(bpf_cmd::BPF_MAP_DELETE_BATCH, &mut attr) }.map(|_| ())
}
