//! What the program that reads the run queue's clock keeps of each CPU: its counters, and instants.

use super::{MAX_PERIOD, MeasuringPeriod};

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
pub const SWITCH_COUNTERS: usize = 15;

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
    reserved: [u64; 2],
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
        // No program sees the first switch of a CPU, which is when it boots: `before` is not 0.
        if unseen == 0 {
            return true;
        }
        if before != 0 {
            self.add(SwitchCounter::UnseenSwitches, unseen);
        }
        false
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
