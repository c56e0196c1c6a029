//! The task table: a slot for each tracked task, with its pending wait and the context of that wait.

use crate::{pending_wait::PendingWait, wait_context::WaitContext};

/// What the programs keep of a task: the value in the task table. An entry lives as long as its task and
/// is written in place, which costs half as much as an insert and a delete per wakeup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TrackedTask {
    /// The task's pending wait.
    pub pending: PendingWait,
    /// The context of that wait; only used if switch records are enabled.
    pub context: WaitContext,
}

impl TrackedTask {
    /// The entry of a task that does not wait.
    pub const IDLE: Self = Self { pending: PendingWait::IDLE, context: WaitContext::NONE };
}

/// A slot of the task table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// The identity of the task that owns the slot; 0 if there is none.
    pub owner: u64,
    /// Number of tasks that own the slot or are just trying to claim it.
    pub refcount: u64,
    /// What is kept of the owner.
    pub task: TrackedTask,
}

const _: () = assert!(size_of::<TrackedTask>() == 64);
