//! Where a task was in its code, told beside the events around it.

use serde::{Deserialize, Serialize};
use wakelat_common::stack::role;

/// Whose stack it is, of the two tasks of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Whoever woke or made the task that waits.
    Waker,
    /// The task that waits, where it left its CPU.
    Wakee,
}

impl Role {
    /// Its bit of [`wakelat_common::stack::role`].
    pub const fn bit(self) -> u8 {
        match self {
            Self::Waker => role::WAKER,
            Self::Wakee => role::WAKEE,
        }
    }
}

/// The stacks of a task at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackEvent {
    /// When: ns of CLOCK_MONOTONIC, to the ns that of the wakeup, or of the switch.
    pub at_ns: u64,
    /// Whose.
    pub role: Role,
    /// The thread that waits.
    pub tid: u32,
    /// The thread whose stacks they are; 0 is idle.
    pub by_tid: u32,
    /// Its process.
    pub by_pid: u32,
    /// In the kernel.
    pub kernel: StackId,
    /// In its own code.
    pub user: StackId,
}

/// A stack in the kernel's map of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StackId {
    /// Its number.
    Id(u32),
    /// The map had no room for it.
    MapFull,
    /// There is none, or not a frame of it could be read.
    Missing,
}
