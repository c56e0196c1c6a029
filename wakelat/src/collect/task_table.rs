//! The task table, in which the programs keep the tracked tasks: sizes it, maps it and reads the pending
//! waits.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use wakelat_common::{
    pending_wait::PendingWait,
    task_table::{Slot, TrackedTask},
};

use super::{map::take, mapped_array::MappedArray};

/// The task table: a slot array, and a hash map for the tasks whose slot is taken.
pub(super) struct TaskTable {
    /// A slot for each value of the last bits of a TID. Reading the slots by one system call each would take as
    /// long as programs may run in a second.
    slots: MappedArray<Slot>,
    /// Tasks whose slot was taken by another task.
    overflow: HashMap<MapData, u64, TrackedTask>,
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
        Ok(Self {
            slots: MappedArray::take(ebpf, "TASK_SLOTS", slots as usize)?,
            overflow: HashMap::try_from(take(ebpf, "TASK_OVERFLOW")?)?,
        })
    }

    /// Empties the table while no program runs. Returns the pending waits that are measured.
    pub(super) fn take_pending(&mut self) -> Result<Vec<PendingWait>> {
        let mut pending = Vec::new();
        self.slots.take_each(|slot| {
            if slot.refcount != 0 {
                pending.push(slot.task.pending);
            }
        });
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
