//! Stacks of tasks that wake others or leave a CPU, as events of the timeline.

use serde::{Deserialize, Serialize};
use wakelat_common::stack::role;

/// The task of a wait to which a stack belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// The task that woke or created the task that waits.
    Waker,
    /// The task that waits, with its stack where it left its CPU.
    Wakee,
}

impl Role {
    /// The bit of the role in [`wakelat_common::stack::role`].
    pub const fn bit(self) -> u8 {
        match self {
            Self::Waker => role::WAKER,
            Self::Wakee => role::WAKEE,
        }
    }
}

/// The kernel and user stack of a task at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackEvent {
    /// When: ns of CLOCK_MONOTONIC, equal to the ns to the time of the wakeup or of the switch.
    pub at_ns: u64,
    /// Whether the stacks are those of the waker or of the task that waits.
    pub role: Role,
    /// The thread that waits.
    pub tid: u32,
    /// The thread whose stacks they are; 0 is idle.
    pub by_tid: u32,
    /// The process of `by_tid`.
    pub by_pid: u32,
    /// The kernel stack.
    pub kernel: StackId,
    /// The user stack.
    pub user: StackId,
}

/// A stack in one of the kernel's stack maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StackId {
    /// The stack's ID in the map.
    Id(u32),
    /// The map had no room for the stack.
    MapFull,
    /// There is no stack, or no frame of it could be read.
    Missing,
}
