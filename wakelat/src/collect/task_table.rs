//! The task table, in which the programs keep the tracked tasks: sizes it, maps it and reads the pending
//! waits.

use std::{
    os::fd::AsFd as _,
    ptr::{self, NonNull},
};

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapError},
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use wakelat_common::{
    pending_wait::PendingWait,
    wait_context::{Slot, TrackedTask},
};

use super::map::take;

/// The task table: a slot array, and a hash map for the tasks whose slot is taken.
pub(super) struct TaskTable {
    slots: TaskSlots,
    /// Tasks whose slot was taken by another task.
    overflow: HashMap<MapData, u64, TrackedTask>,
}

/// A slot for each value of the last bits of a TID, in the kernel's memory of the map, which is mapped here.
/// Reading the slots by one system call each would take as long as programs may run in a second.
struct TaskSlots {
    first: NonNull<Slot>,
    count: usize,
    /// Keeps the map's memory alive.
    _map: MapData,
}

/// Capacity of the task table: slots, and entries of the hash map.
pub(super) struct TaskTableSize {
    /// Number of slots: a power of two.
    pub slots: u32,
    /// Entries of the hash map.
    pub overflow: u32,
}

impl TaskTableSize {
    /// A size for `tasks` tasks, if no more of them share slots than the hash map has entries.
    pub(super) fn of(tasks: u32) -> Self {
        let slots = 1 << (tasks - 1).max(1).ilog2();
        Self { slots, overflow: (tasks - slots).max(1) }
    }

    /// The bits of a TID that select its slot.
    pub(super) fn slot_mask(&self) -> u32 {
        self.slots - 1
    }
}

impl TaskTable {
    /// Takes the maps of the table, which has `slots` slots, from the object.
    pub(super) fn take(ebpf: &mut Ebpf, slots: u32) -> Result<Self> {
        let Map::Array(map) = take(ebpf, "TASK_SLOTS")? else {
            bail!("map `TASK_SLOTS` of the BPF object is not an array")
        };
        Ok(Self {
            slots: TaskSlots::map(map, slots as usize)?,
            overflow: HashMap::try_from(take(ebpf, "TASK_OVERFLOW")?)?,
        })
    }

    /// Empties the table while no program runs. Returns the pending waits that are measured.
    pub(super) fn take_pending(&mut self) -> Result<Vec<PendingWait>> {
        let mut pending = Vec::new();
        self.slots.empty(|wait| pending.push(wait));
        let entries: Vec<(u64, TrackedTask)> =
            self.overflow.iter().collect::<Result<_, MapError>>().context("cannot read the task table")?;
        for (owner, entry) in entries {
            self.overflow.remove(&owner).context("cannot remove a task from the task table")?;
            pending.push(entry.pending);
        }
        pending.retain(PendingWait::is_wanted);
        Ok(pending)
    }
}

impl TaskSlots {
    fn map(map: MapData, count: usize) -> Result<Self> {
        let (bytes, access) = (count * size_of::<Slot>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address, and maps at least as many bytes as the array has.
        let mapped = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, map.fd().as_fd(), 0) };
        let mapped = mapped.context("cannot map the task table into memory")?;
        let first = NonNull::new(mapped.cast()).context("the kernel maps the task table to address 0")?;
        Ok(Self { first, count, _map: map })
    }

    /// Empties all slots, and passes the pending wait of each used one to `take`.
    fn empty(&mut self, mut take: impl FnMut(PendingWait)) {
        for index in 0..self.count {
            // SAFETY: within the mapping, which nothing else accesses while no program runs; a slot is plain
            // numbers, for which any bytes are valid.
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
        // SAFETY: the mapping belongs to this value, and no reference into it exists.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), self.count * size_of::<Slot>()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_requested_capacity() {
        for (tasks, slots, overflow) in
            [(2, 1, 1), (3, 2, 1), (16, 8, 8), (18_432, 16_384, 2_048), (65_536, 32_768, 32_768)]
        {
            let size = TaskTableSize::of(tasks);
            assert_eq!((size.slots, size.overflow), (slots, overflow), "{tasks}");
        }
    }
}
