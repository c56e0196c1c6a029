//! Divides a wait into causes when it ends: the rules by which the program on `sched_switch` learns, from a short
//! history of its CPU, what ran while a task waited.
//!
//! # How it works
//!
//! Each CPU keeps its last [`SLICES`] switches: what runs since then, and what the CPU had done in total until then, by
//! cause, as a task of the fair class sees it.
//!
//! ```text
//!           A is queued                              A is switched in
//!   ────────────┬──────────────────────────────────────────┬────►
//!    slice 3 (B)│slice 3 (B)  │slice 2 (C)   │slice 1 (idle)│
//!               ├── throttled ┼── C ── stolen┼── idle ──────┤
//! ```
//!
//! The part of a short wait on this CPU's queue is walked backwards, slice by slice, from the switch-in. In each slice,
//! stolen time and interrupt time are the differences of the kernel's counts; the rest is the task's that ran.
//!
//! A long wait of a task of the fair class takes the same number of steps, however long it is: a binary search finds the
//! slice in which it began, and the time of each cause is the difference of two totals. Of the groups that ran, one is
//! drawn for each cause.
//!
//! What lies before the oldest slice that is kept is a cause of its own, so that the causes always add up to the wait.
//!
//! The counts of stolen time and interrupt time are known only at switches. If a wait begins within a slice, that
//! slice's stolen time and interrupt time are taken to be spread evenly over it, except for the longest interrupt, if it
//! is known when that was: it is often what woke the task.

mod cpu_totals;
mod group_parts;
mod runner_slice;
mod slice_ring;
mod slice_times;
mod throttled_clock;

pub use group_parts::{EXACT_PARTS, GroupPart, GroupParts, PARTS};
pub use runner_slice::Runner;
pub use slice_ring::{CpuHistory, NO_WAIT, SLICES, SliceRing, WaitStart};
pub use slice_times::LongestInterrupt;
pub use throttled_clock::ThrottledClock;

/// A cause of a wait, as the program knows it. User space divides [`DividedCause::Task`] further, into the waiter's own
/// group, other groups and the system, by the pairs of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum DividedCause {
    /// A user task ran that is not of a higher class or priority.
    Task = 0,
    /// A task of a higher class or priority ran.
    Higher = 1,
    /// A kernel thread ran that is not of a higher class or priority.
    KernelThread = 2,
    /// The CPU ran its idle task: it was leaving idle.
    Idle = 3,
    /// The CPU switched to another task, and no tracepoint showed it.
    Unseen = 4,
    /// Interrupts and softirqs ran, by the kernel's own count.
    Interrupt = 5,
    /// The hypervisor had the CPU.
    Stolen = 6,
    /// The task's group had used up its CPU quota.
    Throttled = 7,
    /// The task waited on the run queue of another CPU, before it migrated.
    OtherQueue = 8,
    /// The time is before the oldest switch that is kept.
    BeforeHistory = 9,
}

/// Number of [`DividedCause`]s.
pub const DIVIDED_CAUSES: usize = 10;

/// Length of an array that is indexed by [`DividedCause`]: a power of two, so that a mask keeps an index within
/// bounds.
pub const CAUSE_SLOTS: usize = DIVIDED_CAUSES.next_power_of_two();

impl DividedCause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; DIVIDED_CAUSES] = [
        Self::Task,
        Self::Higher,
        Self::KernelThread,
        Self::Idle,
        Self::Unseen,
        Self::Interrupt,
        Self::Stolen,
        Self::Throttled,
        Self::OtherQueue,
        Self::BeforeHistory,
    ];
}

/// The number of causes that [have a group](has_group): the first ones.
pub const GROUP_CAUSES: u32 = DividedCause::KernelThread as u32 + 1;

/// Whether the group of the task that ran is counted as well, for the number of a [`DividedCause`].
#[inline(always)]
pub const fn has_group(cause: u32) -> bool {
    cause < GROUP_CAUSES
}

/// The group of a task: the ID of its cgroup and 0, or its name.
pub type GroupWords = [u64; 2];

/// The rank of a task among those that want a CPU: the kernel prefers the lowest. From the class (`SCHED_DATA`,
/// include/asm-generic/vmlinux.lds.h) and, in the real-time class, the priority. Nice values do not matter: they
/// divide a CPU's time and exclude no task from it.
#[inline(always)]
pub const fn rank(prio: i32, policy: u32) -> u32 {
    /// `MAX_RT_PRIO` (include/linux/sched/prio.h).
    const MAX_RT_PRIO: i32 = 100;
    /// `SCHED_IDLE` and `SCHED_EXT` (include/uapi/linux/sched.h). A task under `SCHED_IDLE` is in the fair class, and
    /// yields to all others in it.
    const SCHED_IDLE: u32 = 5;
    const SCHED_EXT: u32 = 7;
    if prio < 0 {
        return 0;
    }
    if prio < MAX_RT_PRIO {
        return 1 + prio as u32;
    }
    match policy {
        SCHED_IDLE => 1_001,
        SCHED_EXT => 1_002,
        _ => FAIR_RANK,
    }
}

/// The [`rank`] of the fair class, except for tasks under `SCHED_IDLE`.
const FAIR_RANK: u32 = 1_000;

/// The rank of what outranks no task.
const NO_RANK: u32 = u32::MAX;

/// No [`DividedCause`].
const NO_CAUSE: u32 = u32::MAX;

/// An instant of a CPU: its run queue's clock, and what the kernel has counted until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueInstant {
    /// The run queue's clock: ns.
    pub clock_ns: u64,
    /// Time that the hypervisor had this CPU, in total: ns (`rq.prev_steal_time_rq`, or `rq.prev_steal_time`).
    pub stolen_ns: u64,
    /// Time in interrupts and softirqs, in total: ns (`rq.prev_irq_time`, or the
    /// [`InterruptClock`](crate::interrupt_clock::InterruptClock)).
    pub irq_ns: u64,
}

/// A wait that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndingWait {
    /// Its length: ns.
    pub latency_ns: u64,
    /// The part of it on the queue of this CPU, at its end: ns.
    pub queued_ns: u64,
    /// How long the queue of the task's group was throttled since the task last left a CPU: ns.
    pub throttled_ns: u64,
    /// The [`rank`] of the task.
    pub rank: u32,
}

/// Receives the parts of a wait.
pub trait DivisionSink {
    /// A part of `ns`, which may be 0, of a cause that is not what ran.
    fn add(&mut self, cause: DividedCause, ns: u64);

    /// A slice of `ns`, which may be 0. A cause can have several. `cause`: the number of a [`DividedCause`]. `group`: the
    /// group of the task that ran, for a cause that [has one](has_group).
    fn add_ran(&mut self, cause: u32, group: GroupWords, ns: u64);

    /// The same for the only slice of a wait, which is the most common.
    fn add_only(&mut self, cause: u32, group: GroupWords, ns: u64);

    /// The only part, more than 0, of a cause that [has a group](has_group). Of the groups that ran, `group` was drawn with a
    /// probability in proportion to its time.
    fn add_drawn(&mut self, cause: u32, group: GroupWords, ns: u64);

    /// A random number below `ns`, which is not 0.
    fn random_below(&mut self, ns: u64) -> u64;
}

#[inline(always)]
const fn min(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests;
