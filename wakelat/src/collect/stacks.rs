//! The stacks that the programs have taken, by their numbers, and what became of all.

use std::io;

use anyhow::Result;
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, StackTraceMap},
};
use wakelat_common::stack::StackBudget;

use super::load::take;

/// The kernel's maps of stacks. They outlive the programs.
pub struct StackMaps {
    kernel: StackTraceMap<MapData>,
    user: StackTraceMap<MapData>,
    budgets: PerCpuArray<MapData, StackBudget>,
}

impl StackMaps {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            kernel: StackTraceMap::try_from(take(ebpf, "KERNEL_STACKS")?)?,
            user: StackTraceMap::try_from(take(ebpf, "USER_STACKS")?)?,
            budgets: PerCpuArray::try_from(take(ebpf, "STACK_BUDGET")?)?,
        })
    }

    /// The addresses of a stack in the kernel, the innermost first; none where it has no stack of this number.
    pub fn in_kernel(&self, number: u32) -> Option<Vec<u64>> {
        addresses(&self.kernel, number)
    }

    /// The same in a task's own code.
    pub fn in_user(&self, number: u32) -> Option<Vec<u64>> {
        addresses(&self.user, number)
    }

    /// What became of the stacks that were to be taken since the start, of each CPU.
    ///
    /// # Errors
    /// Where the kernel refuses to read the map.
    pub fn budgets(&self) -> io::Result<Vec<StackBudget>> {
        self.budgets.get(&0, 0).map(|budgets| budgets.to_vec()).map_err(io::Error::other)
    }
}

fn addresses(stacks: &StackTraceMap<MapData>, number: u32) -> Option<Vec<u64>> {
    let stack = stacks.get(&number, 0).ok()?;
    Some(stack.frames().iter().map(|frame| frame.ip).collect())
}
