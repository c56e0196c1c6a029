//! Divides a wait into causes when it ends: the rules by which the program on `sched_switch` learns, from a short
//! history of its CPU, what ran while a task waited.
//!
//! # How it works
//!
//! Each CPU keeps its last [`SLICES`] switches: when each happened by the run queue's clock, what runs since then,
//! and the kernel's counts of stolen time and interrupt time at that instant.
//!
//! ```text
//!           A is queued                              A is switched in
//!   ────────────┬──────────────────────────────────────────┬────►
//!    slice 3 (B)│slice 3 (B)  │slice 2 (C)   │slice 1 (idle)│
//!               ├── throttled ┼── C ── stolen┼── idle ──────┤
//! ```
//!
//! The part of the wait on this CPU's queue is walked backwards, slice by slice, from the switch-in. In each slice,
//! stolen time and interrupt time are the differences of the kernel's counts; the rest is the task's that ran. What
//! lies before the oldest slice that is kept is a cause of its own, so that the causes always add up to the wait.
//!
//! The counts of stolen time and interrupt time are known only at switches. If a wait begins within a slice, that
//! slice's stolen time and interrupt time are taken to be spread evenly over it, except for the longest interrupt, if it
//! is known when that was: it is often what woke the task.

mod group_parts;
mod slice_times;
mod throttled_clock;

use crate::branch_free::{choose, forget, is_less};
use slice_times::SliceTimes;

pub use group_parts::{EXACT_PARTS, GroupPart, GroupParts, PARTS};
pub use slice_times::LongestInterrupt;
pub use throttled_clock::ThrottledClock;

/// Switches that are kept for each CPU: a power of two, so that a mask keeps an index within bounds.
pub const SLICES: usize = 64;

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
    /// Interrupts and softirqs ran, by the kernel's own count.
    Interrupt = 4,
    /// The hypervisor had the CPU.
    Stolen = 5,
    /// The task's group had used up its CPU quota.
    Throttled = 6,
    /// The task waited on the run queue of another CPU, before it migrated.
    OtherQueue = 7,
    /// The time is before the oldest switch that is kept.
    BeforeHistory = 8,
    /// The CPU switched to another task, and no tracepoint showed it.
    Unseen = 9,
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
        Self::Interrupt,
        Self::Stolen,
        Self::Throttled,
        Self::OtherQueue,
        Self::BeforeHistory,
        Self::Unseen,
    ];
}

/// Whether the group of the task that ran is counted as well, for the number of a [`DividedCause`].
#[inline(always)]
pub const fn has_group(cause: u32) -> bool {
    cause <= DividedCause::KernelThread as u32
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
        _ => 1_000,
    }
}

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

/// What runs on a CPU from one switch to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RunnerSlice {
    /// When it began.
    began: QueueInstant,
    /// How long it took; 0 until the next switch.
    took: SliceTimes,
    /// The group of the task.
    group: GroupWords,
    /// Its [`rank`]; [`NO_RANK`] for the idle task and if it is unknown.
    rank: u32,
    /// The [`DividedCause`] for a task that is not outranked.
    cause: u32,
}

/// No wait: see [`SliceRing::ended_ns`].
pub const NO_WAIT: u64 = u64::MAX;

/// No [`DividedCause`].
const NO_CAUSE: u32 = u32::MAX;

/// The rank of what outranks no task.
const NO_RANK: u32 = u32::MAX;

impl RunnerSlice {
    /// The idle task runs from `began` on.
    #[inline(always)]
    pub const fn idle(began: QueueInstant) -> Self {
        Self { began, took: SliceTimes::ZERO, group: [0; 2], rank: NO_RANK, cause: DividedCause::Idle as u32 }
    }

    /// A task runs from `began` on.
    #[inline(always)]
    pub const fn task(began: QueueInstant, group: GroupWords, rank: u32, is_kernel_thread: bool) -> Self {
        let cause = if is_kernel_thread { DividedCause::KernelThread } else { DividedCause::Task };
        Self { began, took: SliceTimes::ZERO, group, rank, cause: cause as u32 }
    }

    /// Why a task of this rank waits while this runs: the number of a [`DividedCause`]. `zero`: see
    /// [`branch_free`](crate::branch_free).
    #[inline(always)]
    const fn cause(&self, rank: u32, zero: u64) -> u32 {
        choose(is_less(self.rank as u64, rank as u64, zero), DividedCause::Higher as u64, self.cause as u64) as u32
    }
}

/// What the program keeps of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuHistory {
    /// Its last switches.
    pub slices: SliceRing,
    /// The parts of the wait that is being divided.
    pub parts: GroupParts,
}

/// The last switches of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SliceRing {
    /// Number of switches so far; the last one is at the index before it.
    pushed: u64,
    /// The length of the wait that this switch ends: ns; [`NO_WAIT`] if there is none that counts. The program writes it
    /// here and reads it again, so that the verifier forgets the ways that led there.
    pub ended_ns: u64,
    /// The half of the tables that has that wait: 0 or 1.
    pub half: u64,
    /// 1 if that wait is one of a preempted task, otherwise 0.
    pub is_preempted: u64,
    /// Always 0, which only the compiler and the verifier do not know: see [`branch_free`](crate::branch_free).
    zero: u64,
    slices: [RunnerSlice; SLICES],
    /// That of each slice, if interrupts are traced.
    longest_interrupts: [LongestInterrupt; SLICES],
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

/// Where the walk through the slices of a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkEnd {
    /// The number of the first cause if it was known before the walk, otherwise [`NO_CAUSE`].
    first_cause: u64,
    /// How many switches came before the oldest slice of the wait.
    at: u64,
    /// The part of the wait before the oldest slice that is kept: ns.
    rest_ns: u64,
    /// The rank of the waiting task.
    rank: u32,
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
}

impl Default for SliceRing {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl SliceRing {
    /// A CPU of which nothing is known.
    pub const EMPTY: Self = Self {
        pushed: 0,
        ended_ns: NO_WAIT,
        half: 0,
        is_preempted: 0,
        longest_interrupts: [LongestInterrupt { ns: 0, began_before_end_ns: 0 }; SLICES],
        zero: 0,
        slices: [RunnerSlice::idle(QueueInstant { clock_ns: 0, stolen_ns: 0, irq_ns: 0 }); SLICES],
    };

    /// A switch: what ran until now is complete. `unseen`: there were switches since the last one that was seen, so that
    /// it is not known what ran.
    #[inline(always)]
    pub fn end_slice(&mut self, now: QueueInstant, unseen: bool) {
        let last = &mut self.slices[self.pushed.wrapping_sub(1) as usize & (SLICES - 1)];
        last.took = SliceTimes::between(last.began, now);
        if unseen {
            (last.rank, last.cause) = (NO_RANK, DividedCause::Unseen as u32);
        }
    }

    /// Where the longest interrupt of the slice that ends next is kept.
    #[inline(always)]
    pub const fn longest_interrupt(&mut self) -> &mut LongestInterrupt {
        &mut self.longest_interrupts[self.pushed.wrapping_sub(1) as usize & (SLICES - 1)]
    }

    /// What runs from now on. Called after [`Self::end_slice`].
    #[inline(always)]
    pub const fn push(&mut self, slice: RunnerSlice) {
        self.slices[self.pushed as usize & (SLICES - 1)] = slice;
        self.pushed = self.pushed.wrapping_add(1);
    }

    /// Divides a wait that ends now into parts that add up to its length. Called between [`Self::end_slice`] and
    /// [`Self::push`].
    ///
    /// A throttled group is taken to have been throttled first, and to have waited its turn afterwards: whatever ran
    /// while it was throttled is no cause.
    ///
    /// Returns where the walk has ended, for [`Self::first_cause`].
    #[inline(always)]
    pub fn divide(&self, wait: EndingWait, sink: &mut impl DivisionSink) -> WalkEnd {
        let queued_ns = min(wait.queued_ns, wait.latency_ns);
        let throttled_ns = min(wait.throttled_ns, queued_ns);
        sink.add(DividedCause::OtherQueue, wait.latency_ns - queued_ns);
        sink.add(DividedCause::Throttled, throttled_ns);
        // The first cause, if it is known before the walk.
        let is_throttled = is_less(0, throttled_ns, self.zero);
        let throttled = choose(is_throttled, DividedCause::Throttled as u64, NO_CAUSE.into());
        let moved = is_less(queued_ns, wait.latency_ns, self.zero);
        let mut first_cause = choose(moved, DividedCause::OtherQueue as u64, throttled);
        let (mut rest_ns, mut at) = (queued_ns - throttled_ns, self.pushed);
        let (mut stolen_ns, mut irq_ns) = (self.zero, self.zero);
        let rank = forget(wait.rank.into(), self.zero) as u32;
        for _ in 0..SLICES {
            (rest_ns, at) = (forget(rest_ns, self.zero), forget(at, self.zero));
            (stolen_ns, irq_ns) = (forget(stolen_ns, self.zero), forget(irq_ns, self.zero));
            first_cause = forget(first_cause, self.zero);
            if rest_ns == 0 || at == 0 {
                break;
            }
            let slice = &self.slices[(at - 1) as usize & (SLICES - 1)];
            let took = slice.took;
            if took.clock_ns > rest_ns {
                break;
            }
            at -= 1;
            rest_ns -= took.clock_ns;
            stolen_ns += took.stolen_ns;
            irq_ns += took.irq_ns;
            let cause = slice.cause(rank, self.zero);
            sink.add_ran(cause, slice.group, forget(took.clock_ns - took.stolen_ns - took.irq_ns, self.zero));
        }
        // The slice in which the wait began, unless it has been overwritten.
        if rest_ns != 0 && at != 0 && self.pushed - at < SLICES as u64 {
            at -= 1;
            let index = at as usize & (SLICES - 1);
            let slice = &self.slices[index];
            let had = slice.took.last(rest_ns, self.longest_interrupts[index], self.zero);
            stolen_ns += had.stolen_ns;
            irq_ns += had.irq_ns;
            let cause = slice.cause(rank, self.zero);
            let ran_ns = forget(rest_ns - had.stolen_ns - had.irq_ns, self.zero);
            if at + 1 == self.pushed {
                sink.add_only(cause, slice.group, ran_ns);
            } else {
                sink.add_ran(cause, slice.group, ran_ns);
            }
            rest_ns = 0;
        }
        sink.add(DividedCause::Stolen, stolen_ns);
        sink.add(DividedCause::Interrupt, irq_ns);
        sink.add(DividedCause::BeforeHistory, rest_ns);
        WalkEnd { first_cause, at, rest_ns, rank }
    }

    /// The first cause of a wait that was divided, with the group of the task that ran then: for a preempted task, who
    /// preempted it.
    #[inline(always)]
    pub fn first_cause(&self, end: WalkEnd) -> (u32, GroupWords) {
        // The slice in which the wait began; a wait of 0 ns began in the last one.
        let in_last = is_less(self.pushed, end.at + 1, self.zero) & 1;
        let first = &self.slices[end.at.wrapping_sub(in_last) as usize & (SLICES - 1)];
        let ran = first.cause(end.rank, self.zero);
        let walked = choose(is_less(0, end.rest_ns, self.zero), DividedCause::BeforeHistory as u64, ran.into());
        let cause = choose(is_less(end.first_cause, NO_CAUSE.into(), self.zero), end.first_cause, walked);
        (cause as u32, first.group)
    }
}

#[inline(always)]
const fn min(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests;
