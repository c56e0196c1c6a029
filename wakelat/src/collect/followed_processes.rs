//! The processes that the filter accepts, with their descendants: see `wakelat-ebpf/src/process_tree.rs`.

use std::path::Path;

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData},
};

use super::map::take;
use wakelat_kernel::processes;

/// The map of accepted processes, which the programs keep up to date.
pub(super) struct FollowedProcesses {
    accepted: HashMap<MapData, u32, u8>,
    unfollowed: Array<MapData, u64>,
}

impl FollowedProcesses {
    /// Takes the maps, which have the roots of the tree.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            accepted: HashMap::try_from(take(ebpf, "TGIDS")?)?,
            unfollowed: Array::try_from(take(ebpf, "UNFOLLOWED")?)?,
        })
    }

    /// Adds the descendants that exist already, as procfs at `proc` lists them. The programs add those that are forked
    /// from now on: a child of a process that is not added yet is found in the next reading.
    ///
    /// # Errors
    /// If procfs cannot be read, or there are too many processes.
    pub(super) fn add_existing(&mut self, proc: &Path) -> Result<()> {
        loop {
            let known: Vec<u32> = self.accepted.keys().collect::<Result<_, _>>().context("cannot read the filter")?;
            let found = processes::descendants(proc, &known).context("cannot read the processes")?;
            if found.is_empty() {
                return Ok(());
            }
            for pid in found {
                self.accepted.insert(pid, 1, 0).context("cannot follow this many processes")?;
            }
        }
    }

    /// Number of descendants for which the map had no room.
    ///
    /// # Errors
    /// If the kernel refuses to read the map.
    pub(super) fn unfollowed(&self) -> Result<u64> {
        self.unfollowed.get(&0, 0).context("cannot read the counters")
    }
}
