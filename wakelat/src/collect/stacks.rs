//! The stacks that the programs have taken, by their numbers, and what became of all.

use std::io;

use anyhow::Result;
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, StackTraceMap},
};
use wakelat_common::stack::Budget;

use super::load::take;

/// The kernel's map of stacks. It outlives the programs.
pub struct Stacks {
    stacks: StackTraceMap<MapData>,
    budgets: PerCpuArray<MapData, Budget>,
}

impl Stacks {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            stacks: StackTraceMap::try_from(take(ebpf, "STACKS")?)?,
            budgets: PerCpuArray::try_from(take(ebpf, "STACK_BUDGET")?)?,
        })
    }

    /// The addresses of a stack, the innermost first; none where the kernel has no stack of this number.
    pub fn addresses(&self, number: u32) -> Option<Vec<u64>> {
        let stack = self.stacks.get(&number, 0).ok()?;
        Some(stack.frames().iter().map(|frame| frame.ip).collect())
    }

    /// What became of the stacks that were to be taken since the start, of each CPU.
    ///
    /// # Errors
    /// Where the kernel refuses to read the map.
    pub fn budgets(&self) -> io::Result<Vec<Budget>> {
        self.budgets.get(&0, 0).map(|budgets| budgets.to_vec()).map_err(io::Error::other)
    }
}
