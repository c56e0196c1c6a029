//! The last switches of a CPU, and how a wait is divided by them.

use super::{
    DividedCause, DivisionSink, EndingWait, FAIR_RANK, GROUP_CAUSES, GroupParts, GroupWords, LongestInterrupt,
    NO_CAUSE, NO_RANK, QueueInstant,
    cpu_totals::{ALL_TIME, CpuTotals},
    min,
    runner_slice::{Runner, RunnerSlice},
    slice_times::SliceTimes,
};
use crate::branch_free::{choose, forget, is_less, is_some};

/// Switches that are kept for each CPU: one more than the ended slices, because one place is for the slice that comes next.
/// A power of two, so that a mask keeps an index within bounds.
pub const SLICES: usize = 512;

/// Most slices of a wait that are walked one by one, for a task of the fair class. If there are more, totals divide the wait.
pub(super) const WALKED_SLICES: usize = 8;

/// Most slices that are walked for another task. There are no totals for it, because its rank decides which tasks outrank it.
/// What lies before them is [`DividedCause::BeforeHistory`].
pub(super) const OTHERS_WALKED_SLICES: usize = 64;

/// No wait: see [`SliceRing::ended_ns`].
pub const NO_WAIT: u64 = u64::MAX;

/// What the program keeps of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
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
    /// When the last switch was.
    switched: QueueInstant,
    slices: [RunnerSlice; SLICES],
    /// The longest interrupt of each slice, if interrupts are traced.
    longest_interrupts: [LongestInterrupt; SLICES],
}

/// Where a wait begins in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStart {
    /// The number of the first cause if it is not what ran then, otherwise [`NO_CAUSE`].
    first_cause: u64,
    /// How many switches came before the oldest slice of the wait.
    at: u64,
    /// The part of the wait before the oldest slice that is kept: ns.
    rest_ns: u64,
    /// The rank of the waiting task.
    rank: u32,
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
        zero: 0,
        switched: QueueInstant { clock_ns: 0, stolen_ns: 0, irq_ns: 0 },
        slices: [RunnerSlice { totals: CpuTotals::ZERO, runner: Runner::IDLE }; SLICES],
        longest_interrupts: [LongestInterrupt { ns: 0, began_before_end_ns: 0 }; SLICES],
    };

    /// The slice that began at the switch with this number.
    #[inline(always)]
    const fn slice(&self, switch: u64) -> &RunnerSlice {
        &self.slices[switch as usize & (SLICES - 1)]
    }

    /// What the CPU had done until the switch with this number.
    #[inline(always)]
    const fn totals(&self, switch: u64) -> &CpuTotals {
        &self.slice(switch).totals
    }

    /// A switch: what ran until now is complete. `unseen`: there were switches since the last one that was seen, so that
    /// it is not known what ran.
    #[inline(always)]
    pub fn end_slice(&mut self, now: QueueInstant, unseen: bool) {
        let took = SliceTimes::between(self.switched, now);
        self.switched = now;
        let [ended, next] = [self.pushed.wrapping_sub(1), self.pushed].map(|switch| switch as usize & (SLICES - 1));
        let last = &mut self.slices[ended].runner;
        if unseen {
            (last.rank, last.cause) = (NO_RANK, DividedCause::Unseen as u32);
        }
        let cause = last.cause(FAIR_RANK, self.zero);
        let before = self.slices[ended].totals;
        self.slices[next].totals.set_after(&before, cause, took);
    }

    /// Where the longest interrupt of the slice that ends next is kept.
    #[inline(always)]
    pub const fn longest_interrupt(&mut self) -> &mut LongestInterrupt {
        &mut self.longest_interrupts[self.pushed.wrapping_sub(1) as usize & (SLICES - 1)]
    }

    /// What runs from now on. Called after [`Self::end_slice`].
    #[inline(always)]
    pub const fn push(&mut self, runner: Runner) {
        self.slices[self.pushed as usize & (SLICES - 1)].runner = runner;
        self.pushed = self.pushed.wrapping_add(1);
    }

    /// Divides a wait that ends now into parts that add up to its length. Called between [`Self::end_slice`] and
    /// [`Self::push`].
    ///
    /// A throttled group is taken to have been throttled first, and to have waited its turn afterwards: whatever ran
    /// while it was throttled is no cause.
    ///
    /// Returns where it begins in the history, for [`Self::first_cause`].
    #[inline(always)]
    pub fn divide(&self, wait: EndingWait, sink: &mut impl DivisionSink) -> WaitStart {
        let queued_ns = min(wait.queued_ns, wait.latency_ns);
        let throttled_ns = min(wait.throttled_ns, queued_ns);
        sink.add(DividedCause::OtherQueue, wait.latency_ns - queued_ns);
        sink.add(DividedCause::Throttled, throttled_ns);
        // The first cause, if it is known before the walk.
        let is_throttled = is_less(0, throttled_ns, self.zero);
        let throttled = choose(is_throttled, DividedCause::Throttled as u64, NO_CAUSE.into());
        let moved = is_less(queued_ns, wait.latency_ns, self.zero);
        let first_cause = choose(moved, DividedCause::OtherQueue as u64, throttled);
        let rest_ns = forget(queued_ns - throttled_ns, self.zero);
        let rank = forget(wait.rank.into(), self.zero) as u32;
        let walked = WALKED_SLICES as u64;
        let is_long = self.pushed >= walked && self.age(self.pushed - walked, ALL_TIME) < rest_ns;
        if rank == FAIR_RANK && is_long {
            return self.divide_by_totals(WaitStart { first_cause, at: self.pushed, rest_ns, rank }, sink);
        }
        self.walk(WaitStart { first_cause, at: self.pushed, rest_ns, rank }, sink)
    }

    /// Walks through the slices of a wait from its end, which is now.
    #[inline(always)]
    fn walk(&self, from: WaitStart, sink: &mut impl DivisionSink) -> WaitStart {
        let WaitStart { mut first_cause, mut at, mut rest_ns, rank } = from;
        let (mut stolen_ns, mut irq_ns) = (self.zero, self.zero);
        for _ in 0..OTHERS_WALKED_SLICES {
            (rest_ns, at) = (forget(rest_ns, self.zero), forget(at, self.zero));
            (stolen_ns, irq_ns) = (forget(stolen_ns, self.zero), forget(irq_ns, self.zero));
            first_cause = forget(first_cause, self.zero);
            if rest_ns == 0 || at == 0 {
                break;
            }
            let slice = self.slice(at - 1);
            let took = self.totals(at).slice_since(&slice.totals);
            if took.clock_ns > rest_ns {
                break;
            }
            at -= 1;
            rest_ns -= took.clock_ns;
            stolen_ns += took.stolen_ns;
            irq_ns += took.irq_ns;
            sink.add_ran(slice.runner.cause(rank, self.zero), slice.runner.group, forget(took.ran_ns(), self.zero));
        }
        // The slice in which the wait began, unless it is not walked.
        if rest_ns != 0 && at != 0 && self.pushed - at < OTHERS_WALKED_SLICES as u64 {
            at -= 1;
            let had = self.last_part(at, rest_ns);
            stolen_ns += had.stolen_ns;
            irq_ns += had.irq_ns;
            let runner = &self.slice(at).runner;
            let cause = runner.cause(rank, self.zero);
            let ran_ns = forget(had.ran_ns(), self.zero);
            if at + 1 == self.pushed {
                sink.add_only(cause, runner.group, ran_ns);
            } else {
                sink.add_ran(cause, runner.group, ran_ns);
            }
            rest_ns = 0;
        }
        sink.add(DividedCause::Stolen, stolen_ns);
        sink.add(DividedCause::Interrupt, irq_ns);
        sink.add(DividedCause::BeforeHistory, rest_ns);
        WaitStart { first_cause, at, rest_ns, rank }
    }

    /// Divides a wait of a task of the fair class, which ends now, by what the CPU has done in total.
    #[inline(always)]
    fn divide_by_totals(&self, from: WaitStart, sink: &mut impl DivisionSink) -> WaitStart {
        let rest_ns = from.rest_ns;
        let whole = self.slices_within(rest_ns, ALL_TIME);
        let oldest = self.pushed - whole;
        let before_ns = forget(rest_ns - self.age(oldest, ALL_TIME), self.zero);
        // The slice in which the wait began, unless it is not kept.
        let is_kept = is_less(whole, self.kept(), self.zero);
        let at = oldest - (is_kept & 1);
        let had = self.last_part(at, before_ns & is_kept);
        let partial = self.slice(at).runner.cause(FAIR_RANK, self.zero) as u64;
        let (now, earlier) = (self.totals(self.pushed), self.totals(oldest));
        let total = |cause: u32| now.since(earlier, cause as usize);
        let ran = |cause: u32| total(cause) + (had.ran_ns() & !is_some(partial ^ cause as u64, self.zero));
        for cause in 0..GROUP_CAUSES {
            let ns = ran(cause);
            if ns != 0 {
                // The slice with a random ns of this cause.
                let since_ns = sink.random_below(ns) + 1;
                let drawn = self.pushed - self.slices_within(since_ns, cause as usize) - 1;
                sink.add_drawn(cause, self.slice(drawn).runner.group, ns);
            }
        }
        sink.add(DividedCause::Idle, ran(DividedCause::Idle as u32));
        sink.add(DividedCause::Unseen, ran(DividedCause::Unseen as u32));
        sink.add(DividedCause::Interrupt, total(DividedCause::Interrupt as u32) + had.irq_ns);
        sink.add(DividedCause::Stolen, total(DividedCause::Stolen as u32) + had.stolen_ns);
        let unknown_ns = before_ns & !is_kept;
        sink.add(DividedCause::BeforeHistory, unknown_ns);
        WaitStart { at, rest_ns: unknown_ns, ..from }
    }

    /// What the last `rest_ns` of the slice took that began at the switch with this number.
    #[inline(always)]
    fn last_part(&self, switch: u64, rest_ns: u64) -> SliceTimes {
        let took = self.totals(switch + 1).slice_since(self.totals(switch));
        took.last(rest_ns, self.longest_interrupts[switch as usize & (SLICES - 1)], self.zero)
    }

    /// How many slices are kept that have ended.
    #[inline(always)]
    fn kept(&self) -> u64 {
        min(self.pushed, SLICES as u64 - 1)
    }

    /// The time of a cause, or of [`ALL_TIME`], since the switch with this number: ns.
    #[inline(always)]
    fn age(&self, switch: u64, of: usize) -> u64 {
        self.totals(self.pushed).since(self.totals(switch), of)
    }

    /// The number of the last slices since whose beginning there is less than `ns` of a cause, or of [`ALL_TIME`]. Takes the
    /// same number of steps, whatever the result.
    #[inline(always)]
    fn slices_within(&self, ns: u64, of: usize) -> u64 {
        let kept = self.kept();
        let (mut slices, mut step) = (self.zero, SLICES as u64 / 2);
        while step > 0 {
            let more = slices + step;
            let is_within = is_less(self.age(self.pushed.wrapping_sub(more), of), ns, self.zero);
            slices = forget(choose(is_within & is_less(more, kept + 1, self.zero), more, slices), self.zero);
            step /= 2;
        }
        slices
    }

    /// The first cause of a wait that was divided, with the group of the task that ran then: for a preempted task, who
    /// preempted it.
    #[inline(always)]
    pub fn first_cause(&self, start: WaitStart) -> (u32, GroupWords) {
        // The slice in which the wait began; a wait of 0 ns began in the last one.
        let in_last = is_less(self.pushed, start.at + 1, self.zero) & 1;
        let first = &self.slice(start.at.wrapping_sub(in_last)).runner;
        let ran = first.cause(start.rank, self.zero);
        let walked = choose(is_less(0, start.rest_ns, self.zero), DividedCause::BeforeHistory as u64, ran.into());
        let cause = choose(is_less(start.first_cause, NO_CAUSE.into(), self.zero), start.first_cause, walked);
        (cause as u32, first.group)
    }
}
