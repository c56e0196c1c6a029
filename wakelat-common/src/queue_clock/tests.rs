//! The rules against the kernel's account of a task, whatever is not seen.

use proptest::prelude::*;

use super::*;

/// Addresses of kernel stacks.
const STACKS: [u64; 3] = [0xffff_c900_0123_4000, 0xffff_c900_0123_c000, 0xffff_c900_0f00_0000];

fn tag(index: usize) -> TaskTag {
    TaskTag::of(STACKS[index])
}

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
            let (slot, unseen) = self.slot.switch_out(
                tag(0),
                self.info,
                if preempted { PrevState::Runnable } else { PrevState::Sleeping },
            );
            self.note(slot, unseen);
        }
    }

    /// Waits on several queues in turn, and gets a CPU.
    fn wait(&mut self, parts: &[u64], seen: bool) -> Option<QueueWait> {
        let (last, migrated) = parts.split_last().unwrap();
        self.info.run_delay += migrated.iter().sum::<u64>();
        let wait = seen.then(|| {
            let (slot, wait) = self.slot.switch_in(tag(0), self.info, Some(*last));
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
    let (slot, _) = QueueSlot::default().switch_out(tag(0), now, PrevState::Runnable);
    let other = tag(1);
    assert_eq!(slot.switch_in(other, now, Some(5)).1, QueueWait::UnknownStart { known_ns: 5 });
    // Two CPUs wrote one word each.
    let (theirs, _) = QueueSlot::default().switch_out(other, now, PrevState::Runnable);
    for torn in [QueueSlot { delay: slot.delay, ..theirs }, QueueSlot { count: slot.count, ..theirs }] {
        assert_eq!(torn.switch_in(tag(0), now, Some(5)).1, QueueWait::UnknownStart { known_ns: 5 });
        assert_eq!(torn.switch_in(other, now, Some(5)).1, QueueWait::UnknownStart { known_ns: 5 });
    }
}

#[test]
fn neighbouring_stacks_have_different_tags_and_none_is_empty() {
    let tags: std::collections::BTreeSet<u32> =
        (0..4_096).map(|n| TaskTag::of(0xffff_c900_0000_0000 + n * 0x8000).0).collect();
    assert!(!tags.contains(&0));
    // 23 bits: two of 4,096 are equal once in a while.
    assert!(tags.len() >= 4_090, "{}", tags.len());
}

#[test]
fn a_thread_that_takes_over_a_tid_does_not_take_over_its_waits() {
    // The first thread of a process has run 5 times, the one that calls execve 9 times.
    let (leader, _) =
        QueueSlot::default().switch_out(tag(0), SchedInfo { run_delay: 50, pcount: 5 }, PrevState::Sleeping);
    let (kept, unseen) = leader.switch_out(tag(2), SchedInfo { run_delay: 900, pcount: 9 }, PrevState::Runnable);
    assert_eq!(unseen, UnseenWaits::default());
    let (_, wait) = kept.switch_in(tag(2), SchedInfo { run_delay: 900, pcount: 9 }, Some(7));
    assert_eq!(wait, QueueWait::Known { class: Class::Preempted, latency_ns: 7 });
}

#[test]
fn a_task_that_was_preempted_in_a_sleeping_state_has_no_known_wait_if_it_migrates() {
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let (slot, _) = QueueSlot::default().switch_out(tag(0), now, PrevState::PreemptedSleeping);
    assert_eq!(slot.switch_in(tag(0), now, Some(5)).1, QueueWait::UnknownStart { known_ns: 5 });
}

#[test]
fn a_wait_that_was_not_timed_is_not_unseen_whether_or_not_the_kernel_counts_it() {
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let (slot, wait) = QueueSlot::default().switch_in(tag(0), now, None);
    assert_eq!(wait, QueueWait::NotTimed);
    for (pcount, unseen) in [(9, 0), (10, 0), (11, 2)] {
        let (_, found) = slot.switch_out(tag(0), SchedInfo { pcount, ..now }, PrevState::Sleeping);
        assert_eq!(found, UnseenWaits { count: unseen, sum_ns: 0 }, "{pcount}");
    }
}

#[test]
fn a_dead_task_leaves_its_slot_empty() {
    let (slot, _) = QueueSlot::default().switch_out(tag(0), SchedInfo { run_delay: 1, pcount: 1 }, PrevState::Dead);
    assert_eq!(slot, QueueSlot::default());
}

#[test]
fn switches_between_two_that_are_seen_are_counted() {
    let mut state = QueueState::default();
    [1_000, 1_001, 1_004, 1_005].into_iter().for_each(|nr_switches| state.count_switch(nr_switches));
    assert_eq!(state[SwitchCounter::UnseenSwitches], 2);
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
                Some(QueueWait::NotTimed) => prop_assert!(false, "every wait is timed"),
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
