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

mod state;

use crate::{Class, pending_wait::PrevState};

pub use state::{QueueState, SWITCH_COUNTERS, SwitchCounter, WaitingTask};

/// The fewest slots, in 4 MiB. The kernel assigns TIDs in sequence, so that few threads share one.
pub const MIN_SLOTS: u32 = 1 << 18;

/// The most slots: one for each TID (`PID_MAX_LIMIT`, include/linux/threads.h).
pub const MAX_SLOTS: u32 = 1 << 22;

const TAG_LOW_MASK: u64 = 0xff;
const TAG_HIGH_MASK: u64 = 0xffff;
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

impl SchedInfo {
    /// The same after another wait, the last part of which took `queued_ns`.
    #[inline(always)]
    const fn after_wait(self, queued_ns: u64) -> Self {
        Self { run_delay: self.run_delay.wrapping_add(queued_ns), pcount: self.pcount.wrapping_add(1) }
    }
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

/// What a task did at its last switch that was seen. A switch-out has the number of its [`PrevState`], so that
/// [`QueueSlot::switch_out`] need not tell them apart. The two after which the kernel times its wait from the beginning
/// have the number of that wait's class: [`QueueSlot::usual_wait`] relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum LastSwitch {
    /// It left its CPU to sleep.
    Sleeping = PrevState::Sleeping as u64,
    /// It got a CPU.
    In = 1,
    /// It left its CPU, still runnable.
    Preempted = PrevState::Runnable as u64,
    /// It got a CPU after a wait that the kernel has not timed.
    InUntimed = 3,
    /// It left its CPU, still runnable but in a sleeping state: the kernel does not time that wait, unless the task
    /// migrates.
    PreemptedSleeping = PrevState::PreemptedSleeping as u64,
}

const _: () = assert!(LastSwitch::Sleeping as u64 == Class::Wakeup as u64);
const _: () = assert!(LastSwitch::Preempted as u64 == Class::Preempted as u64);

impl LastSwitch {
    #[inline(always)]
    const fn from_bits(bits: u64) -> Self {
        match bits & LAST_MASK {
            0 => Self::Sleeping,
            1 => Self::In,
            2 => Self::Preempted,
            3 => Self::InUntimed,
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
        // Fibonacci hashing, so that both parts differ between neighbours. Never 0, the tag of an empty slot.
        Self(((stack >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 | 1)
    }

    /// The tag as a number, which is not 0.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    const fn low(self) -> u64 {
        self.0 as u64 & TAG_LOW_MASK
    }

    #[inline(always)]
    const fn high(self) -> u64 {
        (self.0 >> 8) as u64 & TAG_HIGH_MASK
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
        let more_ns = self.more_ns(now);
        let count = (now.pcount << COUNT_SHIFT).wrapping_sub(self.count & !COUNT_LOW_BITS) >> COUNT_SHIFT;
        let last = LastSwitch::from_bits(self.delay >> LAST_SHIFT);
        // Some kernels count a wait that they do not time (5.10, `sched_info_arrive()`), and some do not.
        let was_untimed = matches!(last, LastSwitch::InUntimed) && count == 1 && more_ns == 0;
        if count != 0 && !was_untimed {
            return Known::Outdated(UnseenWaits { count, sum_ns: more_ns });
        }
        Known::Current { more_ns, last }
    }

    /// By how much `run_delay` has grown since the slot was written: ns.
    #[inline(always)]
    const fn more_ns(&self, now: SchedInfo) -> u64 {
        (now.run_delay << DELAY_SHIFT).wrapping_sub(self.delay & !LOW_BITS) >> DELAY_SHIFT
    }

    #[inline(always)]
    const fn of(tag: TaskTag, now: SchedInfo, last: LastSwitch, period: u8) -> Self {
        Self::with_bits(tag, now, last as u64, period)
    }

    /// Like [`Self::of`], with the number of a [`LastSwitch`].
    #[inline(always)]
    const fn with_bits(tag: TaskTag, now: SchedInfo, last: u64, period: u8) -> Self {
        let last = last << LAST_SHIFT;
        Self { delay: now.run_delay << DELAY_SHIFT | last | tag.low(), count: Self::count_word(tag, now, period) }
    }

    #[inline(always)]
    const fn count_word(tag: TaskTag, now: SchedInfo, period: u8) -> u64 {
        now.pcount << COUNT_SHIFT | (period as u64) << PERIOD_SHIFT | tag.high()
    }

    /// The wait that [`Self::ended_wait`] found, under an overhead limit: measured if it began in `period`, and with an
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

    /// The task leaves its CPU in the period with this number. Returns what the slot holds from now on, and the waits that
    /// ended unseen since its last switch.
    #[inline(always)]
    pub fn switch_out(&self, tag: TaskTag, now: SchedInfo, leaving: PrevState, period: u8) -> (Self, UnseenWaits) {
        let none = UnseenWaits { count: 0, sum_ns: 0 };
        // Mostly, nothing but `run_delay` is left to look at, which changes only with `pcount`.
        let unseen = if self.count == Self::count_word(tag, now, period) {
            none
        } else if let Known::Outdated(unseen) = self.known(tag, now) {
            unseen
        } else {
            none
        };
        if matches!(leaving, PrevState::Dead) {
            // Its last switch: it gives the slot back.
            return (Self { delay: 0, count: 0 }, unseen);
        }
        (Self::with_bits(tag, now, leaving as u64, period), unseen)
    }

    /// What the slot holds once the task gets a CPU in the period with this number, after `queued_ns` on the queue of that
    /// CPU, if the kernel has timed that.
    #[inline(always)]
    pub const fn after_switch_in(tag: TaskTag, now: SchedInfo, queued_ns: Option<u64>, period: u8) -> Self {
        match queued_ns {
            // The kernel is about to do the same (`sched_info_arrive()`).
            Some(queued_ns) => Self::of(tag, now.after_wait(queued_ns), LastSwitch::In, period),
            None => Self::of(tag, now, LastSwitch::InUntimed, period),
        }
    }

    /// Class and length (ns) of the wait of a task that gets a CPU, if the task left its last CPU in `period`, to sleep or
    /// preempted, and has not run unseen since: most waits. `None` for all others, which [`Self::ended_wait`] tells apart.
    #[inline(always)]
    pub const fn usual_wait(
        &self,
        tag: TaskTag,
        now: SchedInfo,
        queued_ns: Option<u64>,
        period: MeasuringPeriod,
    ) -> Option<(Class, u64)> {
        // The bit in which the two kinds of switches differ, and all others beside `run_delay`, which must be the same.
        const PREEMPTED: u64 = (LastSwitch::Preempted as u64) << LAST_SHIFT;
        const OTHERS: u64 = LOW_BITS & !PREEMPTED;
        let Some(queued_ns) = queued_ns else { return None };
        if self.count != Self::count_word(tag, now, period.number) || (self.delay ^ tag.low()) & OTHERS != 0 {
            return None;
        }
        let latency_ns = self.more_ns(now).wrapping_add(queued_ns);
        if (queued_ns as i64) < 0 || now.pcount == 0 || (period.number != 0 && !period.contains(latency_ns)) {
            return None;
        }
        let class = if self.delay & PREEMPTED == 0 { Class::Wakeup } else { Class::Preempted };
        Some((class, latency_ns))
    }

    /// The wait of a task that gets a CPU, after `queued_ns` on the queue of that CPU, if the kernel has timed that. `self`
    /// is what the slot held before.
    #[inline(always)]
    pub fn ended_wait(&self, tag: TaskTag, now: SchedInfo, queued_ns: Option<u64>) -> QueueWait {
        let Some(queued_ns) = queued_ns else { return QueueWait::NotTimed };
        if now.pcount == 0 {
            // It has never run: `run_delay` is all of its wait on earlier queues.
            let latency_ns = now.run_delay.wrapping_add(queued_ns);
            return QueueWait::Known { class: Class::New, latency_ns };
        }
        match self.known(tag, now) {
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
        }
    }
}

#[cfg(test)]
mod tests;
