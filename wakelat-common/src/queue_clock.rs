//! Waits by the kernel's own run-queue clock: the rules by which one program on `sched_switch` learns how
//! long the task that is switched in has waited, and why.
//!
//! # How it works
//!
//! The kernel keeps three numbers of each task (`struct sched_info`, include/linux/sched.h, with
//! `CONFIG_SCHED_INFO`; kernel/sched/stats.h):
//!
//! - `last_queued`: the run queue's clock when the task was put on a queue; 0 if it is on none;
//! - `run_delay`: the sum of all waits that have ended, and of the parts of this one on earlier queues:
//!   a migration adds the part so far and starts `last_queued` again;
//! - `pcount`: how many waits have ended.
//!
//! It updates them after `sched_switch`, with a clock that it has read just before. So at that event
//!
//! ```text
//!  A leaves a CPU           A is queued      A migrates         A is switched in
//!  ──────┬───────────────────────┬───────────────┬───────────────────┬────────►
//!        │ run_delay = R         │               │ run_delay = R + x │
//!        │ noted in A's slot     ├──── part x ───┤ last_queued       │ clock
//!        │                       │               └───── part y ──────┤
//!
//!  wait = (run_delay now − R) + (clock − last_queued) = x + y
//! ```
//!
//! The slot also holds whether the task was runnable when it left (then it was preempted) and its
//! `pcount`. If `pcount` is ahead of the slot, the task ran without being seen: that many waits are
//! missing, and the change of `run_delay` is their sum.
//!
//! # Pauses of an overhead limit
//!
//! In a pause the program returns at once, and the slots stay as they are. A wait is measured if it begins and ends in
//! one period between two pauses, as with the tracepoints, so that its weight depends only on its length and on that
//! of the period ([`MeasuringPeriod`]):
//!
//! ```text
//!    period 3    │      pause      │ period 4
//!  ──────────────┼─────────────────┼───────────────────────────►
//!   slot (3) of A│   A runs, sleeps│ last_queued ├─ wait ─┤       measured: a wakeup, since A was queued after the
//!                │                 │                              pause, but has not left a CPU after it
//!   slot (3) of B│ last_queued ├───┼── wait ─┤                     began in the pause: an unknown start
//! ```
//!
//! The slot has the number of the period in which it was written. The waits that ended in the pause are unseen:
//! `pcount` and `run_delay` have their number and their sum.

use crate::{Class, pending_wait::PrevState};

/// The fewest slots, in 4 MiB. The kernel assigns TIDs in sequence, so that few threads share one.
pub const MIN_SLOTS: u32 = 1 << 18;

/// The most slots: one for each TID (`PID_MAX_LIMIT`, include/linux/threads.h).
pub const MAX_SLOTS: u32 = 1 << 22;

const LAST_SHIFT: u32 = 8;
const LAST_MASK: u64 = 7;
const DELAY_SHIFT: u32 = 11;
const PERIOD_SHIFT: u32 = 16;
const COUNT_SHIFT: u32 = 24;
/// The bits below `run_delay`.
const LOW_BITS: u64 = (1 << DELAY_SHIFT) - 1;
/// The bits below `pcount`.
const COUNT_LOW_BITS: u64 = (1 << COUNT_SHIFT) - 1;

/// What is kept of a task between two switches: two words, each written at once.
///
/// Threads whose TIDs differ by a multiple of the number of slots share a slot, and a thread that calls
/// execve(2) takes the TID of its process's first thread (fs/exec.c, `de_thread()`). Both words carry a part of
/// the task's tag, so that no task takes another's numbers for its own, even if two CPUs write at the same time.
/// Two tasks have the same tag with a probability of 2^-23.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueSlot {
    /// Bits 0–7: a part of the tag; bits 8–10: a [`LastSwitch`]; above: `run_delay` in ns, modulo 2^53 (104 days).
    delay: u64,
    /// Bits 0–15: the rest of the tag; bits 16–23: the [`MeasuringPeriod::number`] in which it was written; above:
    /// `pcount`, modulo 2^40.
    count: u64,
}

/// A task's `sched_info` at a `sched_switch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedInfo {
    /// ns.
    pub run_delay: u64,
    /// Number of waits that have ended.
    pub pcount: u64,
}

/// The time since the last pause of an overhead limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuringPeriod {
    /// Its number: 1 to [`MAX_PERIOD`], after which they begin again with 1; 0 without a limit.
    pub number: u8,
    /// How long ago it began, by the clock of this CPU's queue: ns. Negative if it begins later.
    pub age_ns: i64,
}

/// The largest [`MeasuringPeriod::number`].
pub const MAX_PERIOD: u64 = 0xff;

impl MeasuringPeriod {
    /// Whether a wait of `latency_ns` that ends now began in the period.
    #[inline(always)]
    const fn contains(self, latency_ns: u64) -> bool {
        self.age_ns >= 0 && latency_ns <= self.age_ns as u64
    }
}

/// Waits that ended without being seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnseenWaits {
    /// How many.
    pub count: u64,
    /// Their sum: ns.
    pub sum_ns: u64,
}

/// What a slot knows about its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing: the slot is empty, or another thread's.
    Nothing,
    /// The task has run since without being seen.
    Outdated(UnseenWaits),
    /// The `run_delay` of the task's last switch, subtracted from that of now, and what it did at that switch.
    Current { more_ns: u64, last: LastSwitch },
}

/// What a task did at its last switch that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum LastSwitch {
    /// It left its CPU to sleep.
    Sleeping = 0,
    /// It got a CPU.
    In = 1,
    /// It got a CPU after a wait that the kernel has not timed.
    InUntimed = 2,
    /// It left its CPU, still runnable.
    Preempted = 3,
    /// It left its CPU, still runnable but in a sleeping state: the kernel does not time that wait, unless the task
    /// migrates.
    PreemptedSleeping = 4,
}

impl LastSwitch {
    #[inline(always)]
    const fn from_bits(bits: u64) -> Self {
        match bits & LAST_MASK {
            0 => Self::Sleeping,
            1 => Self::In,
            2 => Self::InUntimed,
            3 => Self::Preempted,
            _ => Self::PreemptedSleeping,
        }
    }
}

/// The wait that a switch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueWait {
    /// Class and length are known.
    Known {
        /// Why the task waited.
        class: Class,
        /// How long: ns.
        latency_ns: u64,
    },
    /// The task's last switch-out was not seen: the class is not known, nor the part of the wait before it
    /// migrated.
    UnknownStart {
        /// The part of the wait that is known: ns.
        known_ns: u64,
    },
    /// The same, because the task ran unseen in between.
    AfterUnseen(UnseenWaits),
    /// The kernel has not timed the wait.
    NotTimed,
}

impl QueueWait {
    /// How long the wait was, as far as it is known: ns; 0 if it is not.
    #[inline(always)]
    pub const fn known_ns(self) -> u64 {
        match self {
            Self::Known { latency_ns, .. } => latency_ns,
            Self::UnknownStart { known_ns } => known_ns,
            Self::AfterUnseen(_) | Self::NotTimed => 0,
        }
    }
}

/// Distinguishes a task from the others that use its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTag(u32);

impl TaskTag {
    /// The tag of the task with its kernel stack at this address: no two tasks share a stack, and a program may
    /// calculate with this address, but not with that of the task.
    #[inline(always)]
    pub const fn of(stack: u64) -> Self {
        // Fibonacci hashing. Never 0, the tag of an empty slot.
        Self(((stack >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 | 1)
    }

    /// The tag as a number, which is not 0.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    const fn low(self) -> u64 {
        (self.0 & 0xff) as u64
    }

    const fn high(self) -> u64 {
        (self.0 >> 8 & 0xffff) as u64
    }
}

impl QueueSlot {
    /// The two words, as a program reads them.
    #[inline(always)]
    pub const fn from_words([delay, count]: [u64; 2]) -> Self {
        Self { delay, count }
    }

    /// The two words, as a program writes them.
    #[inline(always)]
    pub const fn to_words(self) -> [u64; 2] {
        [self.delay, self.count]
    }

    #[inline(always)]
    fn known(&self, tag: TaskTag, now: SchedInfo) -> Known {
        if !self.has_tag(tag) {
            return Known::Nothing;
        }
        let more_ns = (now.run_delay << DELAY_SHIFT).wrapping_sub(self.delay & !LOW_BITS) >> DELAY_SHIFT;
        let count = (now.pcount << COUNT_SHIFT).wrapping_sub(self.count & !COUNT_LOW_BITS) >> COUNT_SHIFT;
        let last = LastSwitch::from_bits(self.delay >> LAST_SHIFT);
        // Some kernels count a wait that they do not time (5.10, `sched_info_arrive()`), and some do not.
        let was_untimed = matches!(last, LastSwitch::InUntimed) && count == 1 && more_ns == 0;
        if count != 0 && !was_untimed {
            return Known::Outdated(UnseenWaits { count, sum_ns: more_ns });
        }
        Known::Current { more_ns, last }
    }

    #[inline(always)]
    const fn of(tag: TaskTag, now: SchedInfo, last: LastSwitch) -> Self {
        let last = (last as u64) << LAST_SHIFT;
        Self { delay: now.run_delay << DELAY_SHIFT | last | tag.low(), count: now.pcount << COUNT_SHIFT | tag.high() }
    }

    /// The slot as it is written in the period with this number.
    #[inline(always)]
    pub const fn in_period(self, number: u8) -> Self {
        Self { count: self.count | (number as u64) << PERIOD_SHIFT, ..self }
    }

    /// The wait that [`Self::switch_in`] found, under an overhead limit: measured if it began in `period`, and with an
    /// unknown start otherwise. It ends after `queued_ns` on the queue of its last CPU, and `self` is what the slot held
    /// before. The waits that ended unseen before it are not in the result.
    ///
    /// A task that has not left a CPU in the period, and was queued in it, was woken. If it ran unseen before that and
    /// migrates during this first wait, the wait lacks the part before the migration; and if it already waited when the
    /// period began, the wait is taken for a wakeup at the migration. Both can happen once in a period for each task.
    #[inline(always)]
    pub fn wait_in_period(&self, tag: TaskTag, wait: QueueWait, queued_ns: u64, period: MeasuringPeriod) -> QueueWait {
        let known_ns = if let QueueWait::AfterUnseen(_) = wait { queued_ns } else { wait.known_ns() };
        match wait {
            QueueWait::NotTimed => wait,
            QueueWait::Known { .. } if period.contains(known_ns) => wait,
            QueueWait::Known { .. } => QueueWait::UnknownStart { known_ns },
            // This task, or another one with this slot, was seen in this period: a switch was hidden by the machine.
            _ if (self.count >> PERIOD_SHIFT) as u8 == period.number || !period.contains(known_ns) => wait,
            QueueWait::UnknownStart { .. } if self.was_untimed(tag) => wait,
            _ => QueueWait::Known { class: Class::Wakeup, latency_ns: known_ns },
        }
    }

    /// Whether the task last left or got a CPU in a way after which the kernel times its wait only from a migration on.
    #[inline(always)]
    const fn was_untimed(&self, tag: TaskTag) -> bool {
        let last = LastSwitch::from_bits(self.delay >> LAST_SHIFT);
        self.has_tag(tag) && matches!(last, LastSwitch::InUntimed | LastSwitch::PreemptedSleeping)
    }

    #[inline(always)]
    const fn has_tag(&self, tag: TaskTag) -> bool {
        self.delay & 0xff == tag.low() && self.count & 0xffff == tag.high()
    }

    /// The task leaves its CPU. Returns what the slot holds from now on, and the waits that ended unseen since its
    /// last switch.
    #[inline(always)]
    pub fn switch_out(&self, tag: TaskTag, now: SchedInfo, leaving: PrevState) -> (Self, UnseenWaits) {
        let unseen = match self.known(tag, now) {
            Known::Outdated(unseen) => unseen,
            Known::Nothing | Known::Current { .. } => UnseenWaits { count: 0, sum_ns: 0 },
        };
        let last = match leaving {
            PrevState::Runnable => LastSwitch::Preempted,
            PrevState::PreemptedSleeping => LastSwitch::PreemptedSleeping,
            PrevState::Sleeping => LastSwitch::Sleeping,
            // Its last switch: it gives the slot back.
            PrevState::Dead => return (Self { delay: 0, count: 0 }, unseen),
        };
        (Self::of(tag, now, last), unseen)
    }

    /// The task gets a CPU, after `queued_ns` on the queue of that CPU, if the kernel has timed that. Returns what the
    /// slot holds from now on, and its wait.
    #[inline(always)]
    pub fn switch_in(&self, tag: TaskTag, now: SchedInfo, queued_ns: Option<u64>) -> (Self, QueueWait) {
        let Some(queued_ns) = queued_ns else {
            return (Self::of(tag, now, LastSwitch::InUntimed), QueueWait::NotTimed);
        };
        // The kernel is about to do the same (`sched_info_arrive()`).
        let after = SchedInfo { run_delay: now.run_delay.wrapping_add(queued_ns), pcount: now.pcount.wrapping_add(1) };
        let slot = Self::of(tag, after, LastSwitch::In);
        if now.pcount == 0 {
            // It has never run: `run_delay` is all of its wait on earlier queues.
            return (slot, QueueWait::Known { class: Class::New, latency_ns: after.run_delay });
        }
        let wait = match self.known(tag, now) {
            Known::Nothing => QueueWait::UnknownStart { known_ns: queued_ns },
            Known::Outdated(unseen) => QueueWait::AfterUnseen(unseen),
            Known::Current { more_ns, last } => {
                let latency_ns = more_ns.wrapping_add(queued_ns);
                match last {
                    LastSwitch::In | LastSwitch::InUntimed | LastSwitch::PreemptedSleeping => {
                        QueueWait::UnknownStart { known_ns: latency_ns }
                    }
                    LastSwitch::Sleeping => QueueWait::Known { class: Class::Wakeup, latency_ns },
                    LastSwitch::Preempted => QueueWait::Known { class: Class::Preempted, latency_ns },
                }
            }
        };
        (slot, wait)
    }
}

/// One term of the identity of switch-ins, or a sum that belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SwitchCounter {
    /// Switches to a task other than idle: each is counted in exactly one of the terms down to `NotTimed`.
    Seen,
    /// Waits put in the ring buffer or in a histogram.
    Measured,
    /// Rejected by the filter or the threshold that the user set.
    Filtered,
    /// The part of `Filtered` that passed the filter but was below the threshold.
    BelowThreshold,
    /// Waits of a class that was not requested.
    OtherClass,
    /// Waits of tasks that are not sampled ([`crate::task_sampling`]).
    NotSampled,
    /// No room in the ring buffer.
    RingBufferFull,
    /// The queue's clock was before the instant at which the task was queued.
    Invalid,
    /// The task's last switch-out was not seen, or was before the period.
    UnknownStart,
    /// The task ran unseen since its last switch that was seen.
    AfterUnseen,
    /// The kernel has not timed the wait: the task was preempted in a sleeping state, so that it never left
    /// the queue (`sched_info_depart()`, kernel/sched/stats.h).
    NotTimed,
    /// Switches to idle.
    ToIdle,
    /// Waits that ended unseen.
    UnseenWaits,
    /// Their sum: ns.
    UnseenWaitsNs,
    /// The sum of the waits in `UnknownStart` and `AfterUnseen`, as far as it is known: ns.
    UnknownNs,
    /// Switches that the kernel counted between two that were seen.
    UnseenSwitches,
}

/// Number of [`SwitchCounter`]s.
pub const SWITCH_COUNTERS: usize = 16;

/// A task that waits on a run queue: a record of the iterator over tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct WaitingTask {
    /// When it was queued: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Thread ID.
    pub pid: u32,
    /// The CPU of the run queue.
    pub cpu: u32,
}

/// What the program keeps of a CPU.
///
/// User space reads it while the program may run, word by word in this order, so that `finished` is read first and
/// `started` last: if they are equal, no run has changed anything in between. That needs stores that become visible in
/// their order, as on x86; on arm64 the figures of an interval may be those of one switch earlier or later. At the end
/// of the run no program runs any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueState {
    /// Runs of the program that have ended.
    pub finished: u64,
    /// Indexed by [`SwitchCounter`].
    pub counters: [u64; SWITCH_COUNTERS],
    /// The queue's clock up to which the end of the window is not checked again: ns. A switch for which the kernel does
    /// not read its clock (`rq_clock_skip_update()`) is at most as late as its interrupts and softirqs took.
    pub check_at_clock_ns: u64,
    /// The end of the window for which that was worked out: ns of CLOCK_MONOTONIC.
    pub end_at_ns: u64,
    /// The kernel's count of this CPU's switches (`rq.nr_switches`) at the last one seen; 0 before the first.
    pub nr_switches: u64,
    /// Under an overhead limit: the number of the period for which `period_clock_ns` was worked out.
    pub period: u64,
    /// The queue's clock when that period began: ns.
    pub period_clock_ns: u64,
    /// Runs of the program that have begun.
    pub started: u64,
    /// Fills the last cache line.
    reserved: [u64; 1],
}

impl QueueState {
    /// Whether no run of the program was changing it while it was read.
    pub const fn is_consistent(&self) -> bool {
        self.finished == self.started
    }

    /// Takes note of the kernel's count of this CPU's switches at one that is seen. Returns whether the one before it
    /// was seen, too.
    #[inline(always)]
    pub const fn count_switch(&mut self, nr_switches: u64) -> bool {
        let before = self.nr_switches;
        self.nr_switches = nr_switches;
        let unseen = nr_switches.wrapping_sub(before).wrapping_sub(1);
        if before != 0 {
            self.add(SwitchCounter::UnseenSwitches, unseen);
        }
        before != 0 && unseen == 0
    }

    /// The time since the period that began at `began_at_ns` (CLOCK_MONOTONIC). `number` is its number, at which
    /// `clock_ns` of the queue is read; `now_ns` reads CLOCK_MONOTONIC, once in a period.
    #[inline(always)]
    pub fn period(
        &mut self,
        number: u64,
        began_at_ns: u64,
        clock_ns: u64,
        now_ns: impl FnOnce() -> u64,
    ) -> MeasuringPeriod {
        if self.period != number {
            self.period = number;
            // Both clocks count ns, and a period is short: their rates differ by less than 1 in 1,000.
            self.period_clock_ns = clock_ns.wrapping_sub(now_ns().wrapping_sub(began_at_ns));
        }
        let age_ns = clock_ns.wrapping_sub(self.period_clock_ns) as i64;
        MeasuringPeriod { number: (number % MAX_PERIOD) as u8 + 1, age_ns }
    }

    /// Adds to a counter.
    #[inline(always)]
    pub const fn add(&mut self, counter: SwitchCounter, value: u64) {
        self.counters[counter as usize] = self.counters[counter as usize].wrapping_add(value);
    }
}

impl core::ops::Index<SwitchCounter> for QueueState {
    type Output = u64;
    fn index(&self, counter: SwitchCounter) -> &u64 {
        &self.counters[counter as usize]
    }
}

#[cfg(test)]
mod tests;
