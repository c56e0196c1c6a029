//! The rules against the kernel's account of a task, whatever is not seen.

use proptest::prelude::*;

use super::*;

/// Addresses of kernel stacks.
const STACKS: [u64; 3] = [0xffff_c900_0123_4000, 0xffff_c900_0123_c000, 0xffff_c900_0f00_0000];

fn tag(index: usize) -> TaskTag {
    TaskTag::of(STACKS[index])
}

/// The task gets a CPU: what its slot holds from now on, and its wait.
fn switch_in(
    slot: QueueSlot,
    tag: TaskTag,
    now: SchedInfo,
    queued_ns: Option<u64>,
    period: u8,
) -> (QueueSlot, QueueWait) {
    (QueueSlot::after_switch_in(tag, now, queued_ns, period), slot.ended_wait(tag, now, queued_ns))
}

/// The kernel's account of one task, and the slot beside it.
#[derive(Default)]
struct Task {
    info: SchedInfo,
    slot: QueueSlot,
    unseen: UnseenWaits,
    /// The number of the measuring period.
    period: u8,
}

impl Task {
    fn leave(&mut self, preempted: bool, seen: bool) {
        if seen {
            let (slot, unseen) = self.slot.switch_out(
                tag(0),
                self.info,
                if preempted { PrevState::Runnable } else { PrevState::Sleeping },
                self.period,
            );
            self.note(slot, unseen);
        }
    }

    /// Waits on several queues in turn, and gets a CPU.
    fn wait(&mut self, parts: &[u64], seen: bool) -> Option<QueueWait> {
        let (last, migrated) = parts.split_last().unwrap();
        self.info.run_delay += migrated.iter().sum::<u64>();
        let wait = seen.then(|| {
            let (slot, wait) = switch_in(self.slot, tag(0), self.info, Some(*last), self.period);
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
fn the_wait_of_a_task_that_was_seen_to_leave_its_cpu_is_the_usual_one() {
    let no_limit = MeasuringPeriod::default();
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let after_migration = SchedInfo { run_delay: 130, ..now };
    for (leaving, class) in [(PrevState::Sleeping, Class::Wakeup), (PrevState::Runnable, Class::Preempted)] {
        let (slot, _) = QueueSlot::default().switch_out(tag(0), now, leaving, 0);
        assert_eq!(slot.usual_wait(tag(0), now, Some(5), no_limit), Some((class, 5)));
        assert_eq!(slot.usual_wait(tag(0), after_migration, Some(5), no_limit), Some((class, 35)));
        // Another thread, an unseen wait, and none that the kernel has timed.
        assert_eq!(slot.usual_wait(tag(1), now, Some(5), no_limit), None);
        assert_eq!(slot.usual_wait(tag(0), SchedInfo { pcount: 10, ..now }, Some(5), no_limit), None);
        assert_eq!(slot.usual_wait(tag(0), now, None, no_limit), None);
        // A pause since, and a wait that began before the period.
        assert_eq!(slot.usual_wait(tag(0), now, Some(5), MeasuringPeriod { number: 1, age_ns: 9 }), None);
        let slot = QueueSlot::default().switch_out(tag(0), now, leaving, 1).0;
        assert_eq!(slot.usual_wait(tag(0), now, Some(5), MeasuringPeriod { number: 1, age_ns: 4 }), None);
    }
    let (slot, _) = QueueSlot::default().switch_out(tag(0), now, PrevState::PreemptedSleeping, 0);
    assert_eq!(slot.usual_wait(tag(0), now, Some(5), no_limit), None);
    assert_eq!(switch_in(slot, tag(0), now, Some(5), 0).0.usual_wait(tag(0), now, Some(5), no_limit), None);
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
    let (slot, _) = QueueSlot::default().switch_out(tag(0), now, PrevState::Runnable, 0);
    let other = tag(1);
    assert_eq!(switch_in(slot, other, now, Some(5), 0).1, QueueWait::UnknownStart { known_ns: 5 });
    // Two CPUs wrote one word each.
    let (theirs, _) = QueueSlot::default().switch_out(other, now, PrevState::Runnable, 0);
    for torn in [QueueSlot { delay: slot.delay, ..theirs }, QueueSlot { count: slot.count, ..theirs }] {
        assert_eq!(switch_in(torn, tag(0), now, Some(5), 0).1, QueueWait::UnknownStart { known_ns: 5 });
        assert_eq!(switch_in(torn, other, now, Some(5), 0).1, QueueWait::UnknownStart { known_ns: 5 });
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
        QueueSlot::default().switch_out(tag(0), SchedInfo { run_delay: 50, pcount: 5 }, PrevState::Sleeping, 0);
    let (kept, unseen) = leader.switch_out(tag(2), SchedInfo { run_delay: 900, pcount: 9 }, PrevState::Runnable, 0);
    assert_eq!(unseen, UnseenWaits::default());
    let (_, wait) = switch_in(kept, tag(2), SchedInfo { run_delay: 900, pcount: 9 }, Some(7), 0);
    assert_eq!(wait, QueueWait::Known { class: Class::Preempted, latency_ns: 7 });
}

#[test]
fn a_task_that_was_preempted_in_a_sleeping_state_has_no_known_wait_if_it_migrates() {
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let (slot, _) = QueueSlot::default().switch_out(tag(0), now, PrevState::PreemptedSleeping, 0);
    assert_eq!(switch_in(slot, tag(0), now, Some(5), 0).1, QueueWait::UnknownStart { known_ns: 5 });
}

#[test]
fn a_wait_that_was_not_timed_is_not_unseen_whether_or_not_the_kernel_counts_it() {
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let (slot, wait) = switch_in(QueueSlot::default(), tag(0), now, None, 0);
    assert_eq!(wait, QueueWait::NotTimed);
    for (pcount, unseen) in [(9, 0), (10, 0), (11, 2)] {
        let (_, found) = slot.switch_out(tag(0), SchedInfo { pcount, ..now }, PrevState::Sleeping, 0);
        assert_eq!(found, UnseenWaits { count: unseen, sum_ns: 0 }, "{pcount}");
    }
}

#[test]
fn a_dead_task_leaves_its_slot_empty() {
    let (slot, _) = QueueSlot::default().switch_out(tag(0), SchedInfo { run_delay: 1, pcount: 1 }, PrevState::Dead, 0);
    assert_eq!(slot, QueueSlot::default());
}

#[test]
fn switches_between_two_that_are_seen_are_counted() {
    let mut state = QueueState::default();
    let follows = [1_000, 1_001, 1_004, 1_005].map(|nr_switches| state.count_switch(nr_switches));
    assert_eq!(follows, [false, true, false, true]);
    assert_eq!(state[SwitchCounter::UnseenSwitches], 2);
}

/// A wait of a task, by the time of its machine.
#[derive(Clone, Debug)]
struct TimedWait {
    class: Class,
    began_at: u64,
    /// The parts on each queue.
    parts: Vec<u64>,
}

impl TimedWait {
    fn latency_ns(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// What the kernel has of the task at the switch that ends the wait.
    fn sched_info(&self, task: &Task) -> SchedInfo {
        let on_earlier_queues: u64 = self.parts[..self.parts.len() - 1].iter().sum();
        SchedInfo { run_delay: task.info.run_delay + on_earlier_queues, ..task.info }
    }

    fn ended_at(&self) -> u64 {
        self.began_at + self.latency_ns()
    }

    /// It began before `at`, and its last part after that.
    fn migrated_since(&self, at: u64) -> bool {
        self.began_at < at && self.ended_at() - self.parts.last().unwrap() >= at
    }
}

/// The beginnings and ends of periods, with a pause after each.
struct Periods(Vec<(u64, u64)>);

impl Periods {
    fn of(lengths: &[(u64, u64)]) -> Self {
        let mut at = 0;
        Self(
            lengths
                .iter()
                .map(|(length, pause)| {
                    let began = at;
                    at += length + pause;
                    (began, began + length)
                })
                .collect(),
        )
    }

    /// The number of the period with `at`, from 1 on, and its beginning.
    fn find(&self, at: u64) -> Option<(u8, u64)> {
        let index = self.0.iter().position(|(began, end)| (*began..*end).contains(&at))?;
        Some((index as u8 + 1, self.0[index].0))
    }
}

#[test]
fn a_task_that_ran_in_a_pause_is_known_by_its_first_wakeup_after_it() {
    let period = |number, age_ns| MeasuringPeriod { number, age_ns };
    let left_in = |period| {
        QueueSlot::default().switch_out(tag(0), SchedInfo { run_delay: 100, pcount: 9 }, PrevState::Sleeping, period).0
    };
    let slot = left_in(3);
    let now = SchedInfo { run_delay: 150, pcount: 11 };
    let (_, wait) = switch_in(slot, tag(0), now, Some(5), 0);
    assert_eq!(wait, QueueWait::AfterUnseen(UnseenWaits { count: 2, sum_ns: 50 }));
    let wakeup = QueueWait::Known { class: Class::Wakeup, latency_ns: 5 };
    assert_eq!(slot.wait_in_period(tag(0), wait, 5, period(4, 5)), wakeup);
    // It was queued before the period, or the machine hid switches within the period.
    assert_eq!(slot.wait_in_period(tag(0), wait, 5, period(4, 4)), wait);
    assert_eq!(slot.wait_in_period(tag(0), wait, 5, period(3, 1_000)), wait);
    assert_eq!(slot.wait_in_period(tag(0), wait, 5, period(4, -1)), wait);
    // A thread that was never seen.
    let unknown = QueueWait::UnknownStart { known_ns: 5 };
    assert_eq!(QueueSlot::default().wait_in_period(tag(0), unknown, 5, period(4, 5)), wakeup);
    // Another thread took the slot in this period.
    assert_eq!(left_in(4).wait_in_period(tag(1), unknown, 5, period(4, 5)), unknown);
}

#[test]
fn a_wait_that_began_in_a_pause_is_in_no_figure_even_if_it_is_known() {
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let slot = QueueSlot::default().switch_out(tag(0), now, PrevState::Runnable, 3).0;
    let (_, wait) = switch_in(slot, tag(0), now, Some(50), 0);
    let period = MeasuringPeriod { number: 4, age_ns: 49 };
    assert_eq!(slot.wait_in_period(tag(0), wait, 50, period), QueueWait::UnknownStart { known_ns: 50 });
}

#[test]
fn a_task_that_was_preempted_in_a_sleeping_state_before_a_pause_is_not_taken_for_woken() {
    let now = SchedInfo { run_delay: 100, pcount: 9 };
    let slot = QueueSlot::default().switch_out(tag(0), now, PrevState::PreemptedSleeping, 3).0;
    let (_, wait) = switch_in(slot, tag(0), now, Some(5), 0);
    let period = MeasuringPeriod { number: 4, age_ns: 1_000 };
    assert_eq!(slot.wait_in_period(tag(0), wait, 5, period), QueueWait::UnknownStart { known_ns: 5 });
}

#[test]
fn the_age_of_a_period_is_that_of_the_clock_of_the_queue() {
    let mut state = QueueState::default();
    let mut period = |number, clock_ns, now_ns| state.period(number, 1_000, clock_ns, || now_ns);
    assert_eq!(period(1, 70_500, 1_400), MeasuringPeriod { number: 2, age_ns: 400 });
    assert_eq!(period(1, 70_700, 0), MeasuringPeriod { number: 2, age_ns: 600 });
    // It begins later than now.
    assert_eq!(period(MAX_PERIOD, 71_000, 900), MeasuringPeriod { number: 1, age_ns: -100 });
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
    #[test]
    fn under_a_limit_the_waits_of_each_period_are_measured_with_their_class_and_length(
        periods in prop::collection::vec((1u64..3_000, 1u64..3_000), 1..20),
        steps in prop::collection::vec((0u64..300, any::<bool>(), 1u64..2_000, prop::collection::vec(0u64..300, 1..3)), 1..80)
    ) {
        let periods = Periods::of(&periods);
        let mut task = Task::default();
        let (mut count, mut sum_ns, mut at) = (0, 0, 1);
        let (mut is_first, mut first_is_seen) = (true, false);
        for (runs, preempted, sleeps, parts) in steps {
            // The task has a CPU until it leaves it at `at`; the first time, it is new.
            let class = if is_first { Class::New } else if preempted { Class::Preempted } else { Class::Wakeup };
            if !is_first {
                at += runs;
                if let Some((number, _)) = periods.find(at) {
                    task.period = number;
                    task.leave(preempted, true);
                }
                at += if preempted { 0 } else { sleeps };
            }
            let wait = TimedWait { class, began_at: at, parts };
            at = wait.ended_at();
            first_is_seen |= is_first && periods.find(at).is_some();
            is_first = false;
            let (before, Some((number, began_at))) = (task.slot, periods.find(at)) else {
                task.wait(&wait.parts, false);
                continue;
            };
            let queued_ns = *wait.parts.last().unwrap();
            let period = MeasuringPeriod { number, age_ns: (at - began_at) as i64 };
            let usual = before.usual_wait(tag(0), wait.sched_info(&task), Some(queued_ns), period);
            task.period = number;
            let found = task.wait(&wait.parts, true).unwrap();
            if let Some((class, latency_ns)) = usual {
                let found = before.wait_in_period(tag(0), found, queued_ns, period);
                prop_assert_eq!(found, QueueWait::Known { class, latency_ns });
            }
            match before.wait_in_period(tag(0), found, queued_ns, period) {
                QueueWait::Known { class, latency_ns } => {
                    (count, sum_ns) = (count + 1, sum_ns + latency_ns);
                    if !wait.migrated_since(began_at) {
                        prop_assert!(wait.began_at >= began_at);
                        // Of a task that ran unseen or was never seen, only the last part is known.
                        let is_known = before.has_tag(tag(0)) && !matches!(found, QueueWait::AfterUnseen(_));
                        let is_whole = is_known || class == Class::New || wait.parts.len() == 1;
                        prop_assert_eq!(class, wait.class);
                        prop_assert!(!is_whole || latency_ns == wait.latency_ns());
                    }
                }
                QueueWait::UnknownStart { known_ns } => {
                    prop_assert!(wait.began_at < began_at);
                    (count, sum_ns) = (count + 1, sum_ns + known_ns);
                }
                QueueWait::AfterUnseen(_) => {
                    prop_assert!(wait.began_at < began_at);
                    (count, sum_ns) = (count + 1, sum_ns + queued_ns);
                }
                QueueWait::NotTimed => prop_assert!(false, "every wait is timed"),
            }
        }
        // What ended in the last pause shows at the next switch.
        task.leave(false, true);
        if first_is_seen {
            prop_assert_eq!(count + task.unseen.count, task.info.pcount);
            prop_assert_eq!(sum_ns + task.unseen.sum_ns, task.info.run_delay);
        }
    }
}
