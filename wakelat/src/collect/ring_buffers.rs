//! The ring buffers through which the programs send records: creates them, puts them into the programs' table, and
//! reads them in the order of time.

use std::{
    io,
    mem::ManuallyDrop,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Map, MapData, MapError, RingBuf},
    util,
};
use aya_obj::generated::bpf_map_type;
use rustix::event::epoll;
use wakelat_common::timeline::WorkItemRecord;
use wakelat_core::record_merge::{IN_FLIGHT_NS, RecordMerger, RecordRings, settled_until_ns};
use wakelat_kernel::cpus;

use super::{
    bpf_syscall::{create_map, put_inner_map},
    map::take,
    record_slots::SlotRings,
    ring_layout::RingLayout,
};

/// Which records a drain takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainExtent {
    /// Those stamped so long before `now_ns`, the current CLOCK_MONOTONIC, that none before them is still in flight.
    Settled {
        /// ns of CLOCK_MONOTONIC.
        now_ns: u64,
        /// The maximum number of records.
        limit: usize,
    },
    /// All that were stamped until `at_ns`. Waits until the last of them are in the ring buffers.
    Until {
        /// ns of CLOCK_MONOTONIC: now, or earlier.
        at_ns: u64,
    },
    /// All, at most so many. Call this only while no program runs.
    Rest {
        /// The maximum number of records.
        limit: usize,
    },
}

/// The ring buffers before anything reads them. They take no memory of this process yet, so that there is more for
/// loading the programs.
pub(super) struct UnmappedRings {
    maps: Vec<MapData>,
    layout: RingLayout,
}

/// The ring buffers of one set of programs, and the rings of slots if there are some.
pub(super) struct RingBuffers {
    rings: Rings,
    ring_bytes: u32,
    merger: RecordMerger,
    /// Becomes readable with any of the ring buffers.
    epoll: OwnedFd,
}

/// What records are read from, by number. Ring buffers come first: if a CPU has several records of one instant, its switch is
/// the last of them.
struct Rings {
    ring_buffers: Vec<RingBuf<MapData>>,
    slots: Option<SlotRings>,
}

impl UnmappedRings {
    /// Creates ring buffers of together `total_bytes`, a power of two and at least a page, for the CPUs that are `online`
    /// (ascending).
    ///
    /// # Errors
    /// If the kernel refuses a ring buffer, or the process cannot open more files.
    pub(super) fn new(total_bytes: u32, online: &[u32]) -> Result<Self> {
        let layout = RingLayout::of(total_bytes, online, cpus::possible()?);
        let create = |_| {
            let fd = create_map(bpf_map_type::BPF_MAP_TYPE_RINGBUF, 0, |attr| {
                (attr.key_size, attr.max_entries) = (0, layout.ring_bytes);
            });
            Ok(MapData::from_fd(fd.map_err(|error| refused(error, total_bytes))?)?)
        };
        let maps = (0..layout.rings).map(create).collect::<Result<_>>()?;
        Ok(Self { maps, layout })
    }

    /// The fill level of a ring buffer at which the programs wake the reader: bytes. A quarter of the size leaves the
    /// reader time to arrive.
    pub(super) fn watermark(&self) -> u64 {
        u64::from(self.layout.ring_bytes / 4)
    }

    /// Sets the size of the programs' table of ring buffers, and their constants. `watermark` is that of
    /// [`Self::watermark`].
    pub(super) fn configure<'a>(&'a self, watermark: &'a u64, loader: &mut EbpfLoader<'a>) {
        loader
            .map_max_entries("RINGS", self.layout.ring_of_group.len() as u32)
            .override_global("RING_SHIFT", &self.layout.shift, true)
            .override_global("RING_WATERMARK", watermark, true);
    }

    /// Puts the ring buffers into the table of the loaded programs. Calls `meanwhile`, because the kernel waits for an RCU
    /// grace period after each entry (`maybe_wait_bpf_programs()`, kernel/bpf/syscall.c).
    ///
    /// # Errors
    /// If the kernel refuses an entry, or `meanwhile` fails.
    pub(super) fn fill_table<T>(&self, ebpf: &mut Ebpf, meanwhile: impl FnOnce(&mut Ebpf) -> Result<T>) -> Result<T> {
        /// Threads that wait at the same time share grace periods.
        const THREADS: usize = 32;
        let Map::ArrayOfMaps(table) = take(ebpf, "RINGS")? else {
            return Err(anyhow!("the map `RINGS` of the BPF object is not an array of maps"));
        };
        let table = table.fd().as_fd();
        let entries: Vec<(u32, BorrowedFd<'_>)> =
            (0..).zip(self.layout.ring_of_group.iter().map(|ring| self.maps[*ring].fd().as_fd())).collect();
        let put = |entries: &[(u32, BorrowedFd<'_>)]| {
            entries.iter().try_for_each(|(group, ring)| put_inner_map(table, *group, *ring))
        };
        thread::scope(|scope| {
            let share = entries.len().div_ceil(THREADS);
            let threads: Vec<_> = entries.chunks(share).map(|entries| scope.spawn(move || put(entries))).collect();
            let result = meanwhile(ebpf);
            for thread in threads {
                let put = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
                put.context("cannot register the ring buffers with the BPF programs")?;
            }
            result
        })
    }

    /// Maps the ring buffers into the memory of this process.
    ///
    /// # Errors
    /// If there is not enough memory, or the process cannot open another file.
    pub(super) fn map(self) -> Result<RingBuffers> {
        let rings: Vec<_> =
            self.maps.into_iter().map(|map| RingBuf::try_from(Map::RingBuf(map))).collect::<Result<_, MapError>>()?;
        let epoll = watch(&rings).context("cannot wait for the ring buffers")?;
        Ok(RingBuffers {
            rings: Rings { ring_buffers: rings, slots: None },
            ring_bytes: self.layout.ring_bytes,
            merger: RecordMerger::default(),
            epoll,
        })
    }
}

impl RingBuffers {
    /// Reads `slots`, too.
    pub(super) fn with_slots(mut self, slots: SlotRings) -> Self {
        self.rings.slots = Some(slots);
        self
    }

    /// A descriptor that becomes readable when the programs wake the reader.
    ///
    /// # Errors
    /// If the process cannot open another descriptor.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Passes records to `take`: those of several ring buffers in the order of time, those of a single one as they are.
    /// Returns how many there were.
    ///
    /// # Errors
    /// Errors of `take`.
    pub(super) fn drain(&mut self, extent: DrainExtent, take: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        let is_single = self.rings.rings() == 1;
        let (until_ns, limit) = match extent {
            DrainExtent::Rest { limit } => (u64::MAX, limit),
            // Even a reader that is too slow returns.
            DrainExtent::Settled { limit, .. } if is_single => (u64::MAX, limit.min(self.max_records())),
            DrainExtent::Until { .. } if is_single => (u64::MAX, self.max_records()),
            DrainExtent::Settled { now_ns, limit } => (settled_until_ns(now_ns), limit),
            DrainExtent::Until { at_ns } => {
                thread::sleep(Duration::from_nanos(IN_FLIGHT_NS));
                (at_ns, usize::MAX)
            }
        };
        self.merger.merge(&mut self.rings, until_ns, limit, take)
    }

    /// Passes all records that are there to `take`, one ring buffer after the other; each is in its order. Records that
    /// arrive meanwhile wait for the next call, so that even a reader that is too slow returns.
    ///
    /// # Errors
    /// Errors of `take`.
    pub(super) fn drain_unmerged(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for ring in 0..self.rings.rings() {
            for _ in 0..self.max_records() {
                let Some(taken) = self.rings.take_if(ring, |record| Some(take(record))) else { break };
                taken?;
            }
        }
        Ok(())
    }

    /// Records that arrived after later ones had been taken.
    pub(super) fn late(&self) -> u64 {
        self.merger.late()
    }

    /// The number of the shortest records that fill one ring buffer.
    fn max_records(&self) -> usize {
        /// Size of the header before each record: bytes (`BPF_RINGBUF_HDR_SZ`, include/uapi/linux/bpf.h).
        const HEADER: usize = 8;
        self.ring_bytes as usize / (HEADER + size_of::<WorkItemRecord>())
    }
}

impl RecordRings for Rings {
    fn rings(&self) -> usize {
        self.ring_buffers.len() + self.slots.as_ref().map_or(0, SlotRings::rings)
    }

    fn take_if<T>(&mut self, ring: usize, take: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let Some(ring_buffer) = self.ring_buffers.get_mut(ring) else {
            return self.slots.as_mut()?.take_if(ring - self.ring_buffers.len(), take);
        };
        // Dropping the record removes it.
        let record = ManuallyDrop::new(ring_buffer.next()?);
        let taken = take(&record);
        if taken.is_some() {
            drop(ManuallyDrop::into_inner(record));
        }
        taken
    }
}

/// The CPUs that are online, ascending.
///
/// # Errors
/// If sysfs does not say it.
pub(super) fn online_cpus() -> Result<Vec<u32>> {
    let read = |(path, error): (&str, io::Error)| anyhow!(error).context(format!("cannot read `{path}`"));
    let mut online = util::online_cpus().map_err(read)?;
    online.sort_unstable();
    Ok(online)
}

/// An epoll instance that watches all of `rings`.
fn watch(rings: &[RingBuf<MapData>]) -> io::Result<OwnedFd> {
    let watcher = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for ring in rings {
        epoll::add(&watcher, ring, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(watcher)
}

/// Adds to the kernel's error what the user can do about it. Smaller ring buffers do not help against too many open
/// files.
fn refused(error: io::Error, total_bytes: u32) -> anyhow::Error {
    let is_out_of_files = error.raw_os_error() == Some(libc::EMFILE);
    anyhow!(error).context(if is_out_of_files {
        "cannot create the ring buffers".to_owned()
    } else {
        format!("the kernel rejects ring buffers of `{total_bytes}` bytes; give a smaller `--ring-size`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_memory_is_explained_by_the_size() {
        assert!(refused(io::ErrorKind::OutOfMemory.into(), 4096).to_string().contains("give a smaller `--ring-size`"));
        let files = refused(io::Error::from_raw_os_error(libc::EMFILE), 4096).to_string();
        assert_eq!(files, "cannot create the ring buffers");
    }
}
