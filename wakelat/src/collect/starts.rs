//! Where the programs keep the starts, and who waits there.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
    ptr::{self, NonNull},
};

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapError},
};
use wakelat_common::{
    course::{Slot, TrackedTask},
    start::PendingWait,
};

use super::load::take;

/// Where the programs keep the starts.
pub(super) struct TaskTable {
    slots: TaskSlots,
    /// Those whose place was taken.
    overflow: HashMap<MapData, u64, TrackedTask>,
}

/// A place for each of the last bits of a thread's number: the kernel's own memory, mapped. To ask the kernel for one after the
/// other takes as long as programs may run in a second.
struct TaskSlots {
    first: NonNull<Slot>,
    count: usize,
    /// Keeps the memory.
    _map: MapData,
}

/// How many tasks a table has room for, place by place and in the map beside it.
pub(super) struct TaskTableSize {
    /// Places: a power of two.
    pub slots: u32,
    /// Entries of the map.
    pub overflow: u32,
}

impl TaskTableSize {
    /// For `tasks` of them, if they share no more places than the map has entries.
    pub(super) fn of(tasks: u32) -> Self {
        let slots = 1 << (tasks - 1).max(1).ilog2();
        Self { slots, overflow: (tasks - slots).max(1) }
    }

    /// The bits of a thread's number that say its place.
    pub(super) fn slot_mask(&self) -> u32 {
        self.slots - 1
    }
}

impl TaskTable {
    /// Takes them out of the object, which has `places`.
    pub(super) fn take(ebpf: &mut Ebpf, places: u32) -> Result<Self> {
        let Map::Array(map) = take(ebpf, "TASK_SLOTS")? else { bail!("`PLACES` of the BPF object is no array") };
        Ok(Self {
            slots: TaskSlots::map(map, places as usize)?,
            overflow: HashMap::try_from(take(ebpf, "TASK_OVERFLOW")?)?,
        })
    }

    /// Forgets all waits, once no program runs. Returns those asked for.
    pub(super) fn take_pending(&mut self) -> Result<Vec<PendingWait>> {
        let mut waiting = Vec::new();
        self.slots.empty(|start| waiting.push(start));
        let others: Vec<(u64, TrackedTask)> =
            self.overflow.iter().collect::<Result<_, MapError>>().context("cannot read the starts")?;
        for (identity, entry) in others {
            self.overflow.remove(&identity).context("cannot forget a start")?;
            waiting.push(entry.pending);
        }
        waiting.retain(PendingWait::is_wanted);
        Ok(waiting)
    }
}

impl TaskSlots {
    fn map(map: MapData, count: usize) -> Result<Self> {
        let (bytes, access) = (count * size_of::<Slot>(), libc::PROT_READ | libc::PROT_WRITE);
        let fd = map.fd().as_fd().as_raw_fd();
        // SAFETY: the kernel chooses the address, and maps at least as many bytes as the array has.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        let first = NonNull::new(mapped.cast()).filter(|_| mapped != libc::MAP_FAILED);
        let first = first.ok_or_else(io::Error::last_os_error).context("cannot map the table of starts")?;
        Ok(Self { first, count, _map: map })
    }

    /// Empties all places, and gives `take` what was in them.
    fn empty(&mut self, mut take: impl FnMut(PendingWait)) {
        for index in 0..self.count {
            // SAFETY: within the mapping, which is ours alone while no program runs; a slot is plain numbers.
            unsafe {
                let slot = self.first.add(index);
                if (&raw const (*slot.as_ptr()).refcount).read_volatile() != 0 {
                    take((&raw const (*slot.as_ptr()).task.pending).read_volatile());
                    slot.write_volatile(Slot::default());
                }
            }
        }
    }
}

impl Drop for TaskSlots {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference into it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.count * size_of::<Slot>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_tasks_as_were_asked_for() {
        for (tasks, places, map) in
            [(2, 1, 1), (3, 2, 1), (16, 8, 8), (18_432, 16_384, 2_048), (65_536, 32_768, 32_768)]
        {
            let room = TaskTableSize::of(tasks);
            assert_eq!((room.slots, room.overflow), (places, map), "{tasks}");
        }
    }
}
