//! Waits by the kernel's own run-queue clock: the rules by which a program on `sched_switch` alone learns
//! how long the task that is switched in has waited, and why.
//!
//! # How it works
//!
//! The kernel keeps three numbers of each task (`struct sched_info`, include/linux/sched.h, with
//! `CONFIG_SCHED_INFO`; kernel/sched/stats.h, the same from 5.10 to 7.2):
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

use crate::Class;

/// The fewest slots, in 4 MiB. The kernel assigns TIDs in sequence, so that few threads share one. With these,
/// the high bits of a TID fit into the tag of a [`QueueSlot`].
pub const MIN_SLOTS: u32 = 1 << 18;

/// The most slots: one for each TID (`PID_MAX_LIMIT`, include/linux/threads.h).
pub const MAX_SLOTS: u32 = 1 << 22;

const TAG_BITS: u32 = 8;
const PREEMPTED: u64 = 1 << TAG_BITS;
const RUNNING: u64 = 1 << (TAG_BITS + 1);
const DELAY_SHIFT: u32 = TAG_BITS + 2;
/// The bits below `run_delay`.
const LOW_BITS: u64 = (1 << DELAY_SHIFT) - 1;

/// What is kept of a task between two switches: two words, each written at once.
///
/// Threads whose TIDs differ by a multiple of the number of slots share a slot. Both words carry a tag, so
/// that no thread takes the other's numbers for its own, even if two CPUs write at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueSlot {
    /// Bits 0–7: the tag; bit 8: preempted; bit 9: running; above: `run_delay` in ns, modulo 2^54 (208 days).
    delay: u64,
    /// Bits 0–7: the tag; above: `pcount`.
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
enum LastSwitch {
    /// It got a CPU.
    In,
    /// It left its CPU to sleep.
    Sleeping,
    /// It left its CPU, still runnable.
    Preempted,
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
}

/// The tag of thread `pid` in a table of 2^`slot_bits` slots; never 0, the tag of an empty slot.
#[inline(always)]
pub const fn tag(pid: u32, slot_bits: u32) -> u8 {
    (pid >> (slot_bits & 31)) as u8 + 1
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
    fn known(&self, tag: u8, now: SchedInfo) -> Known {
        if self.delay as u8 != tag || self.count as u8 != tag {
            return Known::Nothing;
        }
        let more_ns = (now.run_delay << DELAY_SHIFT).wrapping_sub(self.delay & !LOW_BITS) >> DELAY_SHIFT;
        let count = now.pcount.wrapping_sub(self.count >> TAG_BITS);
        if count != 0 {
            return Known::Outdated(UnseenWaits { count, sum_ns: more_ns });
        }
        let last = match self.delay & (PREEMPTED | RUNNING) {
            0 => LastSwitch::Sleeping,
            PREEMPTED => LastSwitch::Preempted,
            _ => LastSwitch::In,
        };
        Known::Current { more_ns, last }
    }

    #[inline(always)]
    const fn of(tag: u8, now: SchedInfo, last: LastSwitch) -> Self {
        let last = match last {
            LastSwitch::In => RUNNING,
            LastSwitch::Sleeping => 0,
            LastSwitch::Preempted => PREEMPTED,
        };
        Self { delay: now.run_delay << DELAY_SHIFT | last | tag as u64, count: now.pcount << TAG_BITS | tag as u64 }
    }

    /// The task leaves its CPU, still runnable if `preempted`. Returns what the slot holds from now on, and
    /// the waits that ended unseen since its last switch.
    #[inline(always)]
    pub fn switch_out(&self, tag: u8, now: SchedInfo, preempted: bool) -> (Self, UnseenWaits) {
        let unseen = match self.known(tag, now) {
            Known::Outdated(unseen) => unseen,
            Known::Nothing | Known::Current { .. } => UnseenWaits { count: 0, sum_ns: 0 },
        };
        let last = if preempted { LastSwitch::Preempted } else { LastSwitch::Sleeping };
        (Self::of(tag, now, last), unseen)
    }

    /// The task gets a CPU, after `queued_ns` on the queue of that CPU. Returns what the slot holds from now
    /// on, and its wait.
    #[inline(always)]
    pub fn switch_in(&self, tag: u8, now: SchedInfo, queued_ns: u64) -> (Self, QueueWait) {
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
                    LastSwitch::In => QueueWait::UnknownStart { known_ns: latency_ns },
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
    /// Waits of tasks that are not sampled ([`crate::sampling`]).
    NotSampled,
    /// No room in the ring buffer.
    RingBufferFull,
    /// The queue's clock was before the instant at which the task was queued.
    Invalid,
    /// The task's last switch-out was not seen.
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
}

/// Number of [`SwitchCounter`]s.
pub const SWITCH_COUNTERS: usize = 15;

/// A task that waits on a run queue: a record of the iterator over tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueState {
    /// Indexed by [`SwitchCounter`].
    pub counters: [u64; SWITCH_COUNTERS],
    /// The queue's clock up to which no event can be after the end of the window: ns.
    pub check_at_clock_ns: u64,
    /// The end of the window for which that was worked out: ns of CLOCK_MONOTONIC.
    pub end_at_ns: u64,
    /// The kernel's count of this CPU's switches at the first one seen, less one; 0 before.
    pub first_nr_switches: u64,
    /// The same at the last one seen.
    pub last_nr_switches: u64,
}

impl QueueState {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BITS: u32 = MIN_SLOTS.ilog2();

    /// The kernel's account of one task, and the slot beside it.
    #[derive(Default)]
    struct Task {
        info: SchedInfo,
        slot: QueueSlot,
        unseen: UnseenWaits,
    }

    impl Task {
        fn leave(&mut self, preempted: bool, seen: bool) {
            if seen {
                let (slot, unseen) = self.slot.switch_out(tag(7, BITS), self.info, preempted);
                self.note(slot, unseen);
            }
        }

        /// Waits on several queues in turn, and gets a CPU.
        fn wait(&mut self, parts: &[u64], seen: bool) -> Option<QueueWait> {
            let (last, migrated) = parts.split_last().unwrap();
            self.info.run_delay += migrated.iter().sum::<u64>();
            let wait = seen.then(|| {
                let (slot, wait) = self.slot.switch_in(tag(7, BITS), self.info, *last);
                let unseen = if let QueueWait::AfterUnseen(unseen) = wait { unseen } else { UnseenWaits::default() };
                self.note(slot, unseen);
                wait
            });
            self.info.run_delay += last;
            self.info.pcount += 1;
            wait
        }

        fn note(&mut self, slot: QueueSlot, unseen: UnseenWaits) {
            self.slot = slot;
            self.unseen.count += unseen.count;
            self.unseen.sum_ns += unseen.sum_ns;
        }
    }

    #[test]
    fn a_migrated_wait_is_the_sum_of_its_parts() {
        let mut task = Task::default();
        assert_eq!(task.wait(&[3, 4], true), Some(QueueWait::Known { class: Class::New, latency_ns: 7 }));
        task.leave(true, true);
        let wait = task.wait(&[10, 20, 30], true);
        assert_eq!(wait, Some(QueueWait::Known { class: Class::Preempted, latency_ns: 60 }));
        task.leave(false, true);
        assert_eq!(task.wait(&[5], true), Some(QueueWait::Known { class: Class::Wakeup, latency_ns: 5 }));
    }

    #[test]
    fn a_wait_whose_start_was_not_seen_is_unknown() {
        let mut task = Task { info: SchedInfo { run_delay: 100, pcount: 9 }, ..Task::default() };
        assert_eq!(task.wait(&[5], true), Some(QueueWait::UnknownStart { known_ns: 5 }));
        task.leave(false, true);
        assert!(matches!(task.wait(&[5], true), Some(QueueWait::Known { .. })));
    }

    #[test]
    fn a_task_that_left_its_cpu_unseen_waits_for_an_unknown_reason() {
        let mut task = Task::default();
        task.wait(&[3], true);
        task.leave(true, false);
        assert_eq!(task.wait(&[10, 20], true), Some(QueueWait::UnknownStart { known_ns: 30 }));
    }

    #[test]
    fn a_slot_of_another_thread_is_never_taken_for_ones_own() {
        let now = SchedInfo { run_delay: 100, pcount: 9 };
        let (slot, _) = QueueSlot::default().switch_out(tag(7, BITS), now, true);
        let other = tag(7 + MIN_SLOTS, BITS);
        assert_eq!(slot.switch_in(other, now, 5).1, QueueWait::UnknownStart { known_ns: 5 });
        // Two CPUs wrote one word each.
        let (theirs, _) = QueueSlot::default().switch_out(other, now, true);
        for torn in [QueueSlot { delay: slot.delay, ..theirs }, QueueSlot { count: slot.count, ..theirs }] {
            assert_eq!(torn.switch_in(tag(7, BITS), now, 5).1, QueueWait::UnknownStart { known_ns: 5 });
            assert_eq!(torn.switch_in(other, now, 5).1, QueueWait::UnknownStart { known_ns: 5 });
        }
    }

    #[test]
    fn threads_that_share_a_slot_have_different_tags_and_none_is_empty() {
        let tags: Vec<u8> = (0..MAX_SLOTS / MIN_SLOTS).map(|high| tag(high << BITS, BITS)).collect();
        assert!(!tags.contains(&0));
        assert_eq!(tags.iter().collect::<std::collections::BTreeSet<_>>().len(), tags.len());
        assert_eq!(tag(MAX_SLOTS - 1, MAX_SLOTS.ilog2()), 1);
    }

    proptest! {
        #[test]
        fn counts_and_sums_are_those_of_the_kernel_whatever_is_not_seen(
            waits in prop::collection::vec((prop::collection::vec(0u64..1 << 40, 1..4), any::<bool>(), prop::bool::weighted(0.8), prop::bool::weighted(0.8)), 1..50)
        ) {
            let mut task = Task::default();
            let (mut count, mut sum_ns) = (0, 0);
            for (parts, preempted, seen_in, seen_out) in &waits {
                match task.wait(parts, *seen_in) {
                    Some(QueueWait::Known { class, latency_ns }) => {
                        prop_assert_eq!(latency_ns, parts.iter().sum::<u64>());
                        prop_assert_eq!(class == Class::New, task.info.pcount == 1);
                        (count, sum_ns) = (count + 1, sum_ns + latency_ns);
                    }
                    // The last part is known; the sum of the unseen waits includes the others.
                    Some(QueueWait::AfterUnseen(_)) => (count, sum_ns) = (count + 1, sum_ns + parts.last().unwrap()),
                    Some(QueueWait::UnknownStart { known_ns }) => {
                        prop_assert!(known_ns <= parts.iter().sum::<u64>());
                        (count, sum_ns) = (count + 1, sum_ns + known_ns);
                    }
                    None => {}
                }
                task.leave(*preempted, *seen_out);
            }
            // What was not seen last shows at the next switch.
            task.leave(false, true);
            if waits[0].2 {
                prop_assert_eq!(count + task.unseen.count, task.info.pcount);
                prop_assert_eq!(sum_ns + task.unseen.sum_ns, task.info.run_delay);
            }
        }
    }
}
