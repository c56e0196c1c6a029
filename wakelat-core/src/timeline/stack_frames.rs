//! The functions on stacks, and what became of the stacks of a window.

use std::mem::size_of;

use serde::{Deserialize, Serialize};

use super::stack_event::StackId;

/// What became of the stacks that were to be taken in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackCounts {
    /// How often the kernel was asked for both stacks of a task, with or without success.
    pub attempts: u64,
    /// How often it was not asked, because that would have exceeded the budget of CPU time.
    pub over_budget: u64,
    /// Stacks, kernel and user counted separately, for which the kernel's map had no room.
    pub no_room: u64,
    /// Kernel stacks that could not be read.
    pub no_kernel: u64,
    /// User stacks that do not exist or could not be read.
    pub no_user: u64,
    /// Stacks that were dropped because too many tasks with stacks had not run yet.
    pub given_up: u64,
}

/// The functions on a stack, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StackFrames {
    /// The names of the functions.
    Named(Vec<String>),
    /// What is known without symbols, mostly addresses, and why there are none.
    Unsymbolized(Vec<String>, NoSymbols),
    /// There is no stack, for this reason.
    Missing(StackId),
}

/// Why functions have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoSymbols {
    /// The process had ended when its symbols were looked up. Files of it that were known by then may name some.
    ProcessExited,
    /// The kernel hides its addresses.
    Restricted,
}

/// Symbolizes stacks.
pub trait Symbolize {
    /// The functions on a kernel stack.
    fn kernel(&self, trace: StackId) -> StackFrames;
    /// The functions on a user stack of the process `pid`.
    fn user(&self, pid: u32, trace: StackId) -> StackFrames;
}

impl StackCounts {
    /// The counts since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            attempts: self.attempts - before.attempts,
            over_budget: self.over_budget - before.over_budget,
            no_room: self.no_room - before.no_room,
            no_kernel: self.no_kernel - before.no_kernel,
            no_user: self.no_user - before.no_user,
            given_up: self.given_up - before.given_up,
        }
    }

    /// Adds the counts of another part of the window.
    pub fn add(&mut self, other: &Self) {
        let Self { attempts, over_budget, no_room, no_kernel, no_user, given_up } = self;
        for (sum, count) in [
            (attempts, other.attempts),
            (over_budget, other.over_budget),
            (no_room, other.no_room),
            (no_kernel, other.no_kernel),
            (no_user, other.no_user),
            (given_up, other.given_up),
        ] {
            *sum = sum.saturating_add(count);
        }
    }
}

impl StackFrames {
    /// The names of the functions, or their addresses, the innermost first; empty if there is no stack.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Named(names) | Self::Unsymbolized(names, _) => names,
            Self::Missing(_) => &[],
        }
    }

    /// The memory that it takes, at least: bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.names().iter().map(|name| size_of::<String>() + name.len()).sum::<usize>()
    }
}
