//! The stacks that the programs have recorded, by ID, and how many were taken or missed.

use std::io;

use anyhow::Result;
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, StackTraceMap},
};
use wakelat_common::stack::StackBudget;

use super::map::take;

/// The BPF maps of stacks, which outlive the programs.
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

    /// The addresses of a kernel stack, innermost first; `None` if the map has no stack with this ID.
    pub fn in_kernel(&self, number: u32) -> Option<Vec<u64>> {
        addresses(&self.kernel, number)
    }

    /// The addresses of a user stack, innermost first; `None` if the map has no stack with this ID.
    pub fn in_user(&self, number: u32) -> Option<Vec<u64>> {
        addresses(&self.user, number)
    }

    /// Removes a kernel stack: from now on, another one can have its ID. Returns whether there was one.
    pub fn remove_kernel(&mut self, number: u32) -> bool {
        self.kernel.remove(&number).is_ok()
    }

    /// Removes a user stack: from now on, another one can have its ID. Returns whether there was one.
    pub fn remove_user(&mut self, number: u32) -> bool {
        self.user.remove(&number).is_ok()
    }

    /// For each CPU, how many stacks were taken or missed since the start.
    pub fn budgets(&self) -> io::Result<Vec<StackBudget>> {
        self.budgets.get(&0, 0).map(|budgets| budgets.to_vec()).map_err(io::Error::other)
    }
}

fn addresses(stacks: &StackTraceMap<MapData>, number: u32) -> Option<Vec<u64>> {
    let stack = stacks.get(&number, 0).ok()?;
    Some(stack.frames().iter().map(|frame| frame.ip).collect())
}
