//! The rules of waits, applied to drawn timelines. A drawing has a column for each microsecond:
//!
//! ```text
//! _ sleeping    ~ waiting for a CPU    = running
//! ```
//!
//! A change from one state to the next is the event that causes it. A second line marks what a drawing
//! cannot show: `w` a wakeup event without effect, `n` the wakeup is that of a new task, `s` the task
//! that loses its CPU has already announced that it will sleep, `m` the switch is missed, `x` the
//! switch-out is the last one, `k` `sched_waking` happened a microsecond before, `u` the same, but the
//! task is not sampled any more at its `sched_wakeup`.

use proptest::prelude::*;
use wakelat_common::{
    Class::{self, New, Preempted, Wakeup},
    pending_wait::{PendingWait, PrevState, WakeupOutcome},
    sample::CPU_UNKNOWN,
};

const COLUMN_NS: u64 = 1000;
/// Time of the first column: not 0, which means no wait.
const BEGIN_NS: u64 = 1_000_000;

/// What the programs see of a task, and what they derive from it.
#[derive(Default)]
struct Observer {
    preempted_wanted: bool,
    from_waking: bool,
    latest_wins: bool,
    pending: Option<PendingWait>,
    /// Class and latency in µs.
    waits: Vec<(Class, u64)>,
    seen: u64,
    not_sampled: u64,
    already_running: u64,
    already_queued: u64,
    missed_switch: u64,
    invalid: u64,
}

impl Observer {
    fn entry(&mut self) -> &mut PendingWait {
        self.pending.get_or_insert(PendingWait::IDLE)
    }

    fn wakeup(&mut self, now_ns: u64, class: Class, running: bool) {
        self.seen += 1;
        if running && !self.latest_wins {
            self.already_running += 1;
            return;
        }
        let latest_wins = self.latest_wins;
        let left = if latest_wins { None } else { self.entry().drop_missed(class) };
        self.missed_switch += u64::from(left.is_some());
        if self.entry().wakeup(now_ns, 1, class, latest_wins) == WakeupOutcome::AlreadyQueued {
            self.already_queued += 1;
        }
    }

    fn switch_out(&mut self, now_ns: u64, prev_state: PrevState) {
        if self.latest_wins {
            return;
        }
        let left = self.entry().switch_out();
        self.missed_switch += u64::from(left.is_some());
        if prev_state == PrevState::Dead {
            self.pending = None;
        } else if prev_state.starts_wait(self.preempted_wanted) {
            let wanted = self.preempted_wanted;
            self.entry().preempt(now_ns, 1, 0, wanted, prev_state);
        }
    }

    fn switch_in(&mut self, now_ns: u64) {
        let from_waking = self.from_waking;
        let Some(wait) = self.entry().switch_in(|wait| Some(*wait)) else { return };
        match wait.latency_ns(now_ns, from_waking) {
            Some(latency_ns) => self.waits.push((Class::from_u8(wait.class).unwrap(), latency_ns / COLUMN_NS)),
            None => self.invalid += 1,
        }
    }

    fn replay(mut self, drawing: &str, marks: &str) -> Self {
        let states: Vec<char> = drawing.chars().collect();
        let mark = |at: usize| marks.chars().nth(at).unwrap_or(' ');
        for at in 0..states.len() {
            let now_ns = BEGIN_NS + at as u64 * COLUMN_NS;
            let before = if at == 0 { '_' } else { states[at - 1] };
            match (before, states[at]) {
                ('_', '~') => {
                    if matches!(mark(at), 'k' | 'u') {
                        self.entry().waking(now_ns - COLUMN_NS, 2, 0);
                    }
                    if mark(at) == 'u' {
                        // The program returns before it looks for the task's entry.
                        self.seen += 1;
                        self.not_sampled += 1;
                        continue;
                    }
                    let class = if mark(at) == 'n' { New } else { Wakeup };
                    self.wakeup(now_ns, class, false);
                }
                ('~', '=') | ('=', '_') if mark(at) == 'm' => {}
                ('~', '=') => self.switch_in(now_ns),
                ('=', '~') => {
                    let state = if mark(at) == 's' { 1 } else { 0 };
                    self.switch_out(now_ns, PrevState::of(true, state));
                }
                ('=', '_') => {
                    let state = if mark(at) == 'x' { 0x80 } else { 1 };
                    self.switch_out(now_ns, PrevState::of(false, state));
                }
                (_, state) if mark(at) == 'w' => self.wakeup(now_ns, Wakeup, state == '='),
                _ => {}
            }
        }
        self
    }
}

fn replay(drawing: &str, marks: &str) -> Observer {
    Observer { preempted_wanted: true, ..Observer::default() }.replay(drawing, marks)
}

#[test]
fn a_wakeup_lasts_from_the_run_queue_to_the_cpu() {
    assert_eq!(replay("__~~~==__", "").waits, [(Wakeup, 3)]);
}

#[test]
fn the_first_wait_of_a_new_task_is_a_class_of_its_own() {
    assert_eq!(replay("~~==_~=", "n").waits, [(New, 2), (Wakeup, 1)]);
}

#[test]
fn t01_a_task_preempted_on_its_way_to_sleep_is_not_asleep() {
    let observer = replay("_~==~~==_", "    s    ");
    assert_eq!(observer.waits, [(Wakeup, 1), (Preempted, 2)]);
}

#[test]
fn t03_only_the_tasks_own_state_and_preempt_decide_its_prev_state() {
    assert_eq!(PrevState::of(false, 0), PrevState::Runnable);
    assert_eq!(PrevState::of(true, 0), PrevState::Runnable);
    assert_eq!(PrevState::of(true, 1), PrevState::PreemptedSleeping);
    assert_eq!(PrevState::of(false, 1), PrevState::Sleeping);
    assert_eq!(PrevState::of(false, 0x80), PrevState::Dead);
}

#[test]
fn t05_a_wakeup_of_a_running_task_leaves_nothing_behind() {
    let observer = replay("_~====____~~=", "    w        ");
    assert_eq!(observer.waits, [(Wakeup, 1), (Wakeup, 2)]);
    assert_eq!((observer.seen, observer.already_running, observer.missed_switch), (3, 1, 0));
}

#[test]
fn t05_by_the_rules_of_a_trigger_it_becomes_a_bogus_wait() {
    let observer = Observer { latest_wins: true, ..Observer::default() }.replay("_~====~~=", "    w    ");
    assert_eq!(observer.waits, [(Wakeup, 1), (Wakeup, 4)]);
}

#[test]
fn t06_a_second_wakeup_does_not_restart_the_clock() {
    let observer = replay("_~==~~~~==", "    s w   ");
    assert_eq!(observer.waits, [(Wakeup, 1), (Preempted, 4)]);
    assert_eq!((observer.seen, observer.already_queued), (2, 1));
}

#[test]
fn t06_by_the_rules_of_a_trigger_it_does() {
    let observer = Observer { latest_wins: true, ..Observer::default() }.replay("_~~~~=", "   w  ");
    assert_eq!(observer.waits, [(Wakeup, 2)]);
}

#[test]
fn t07_delivery_counts_only_on_request() {
    let wakeup = replay("__~~=", "  k  ");
    assert_eq!(wakeup.waits, [(Wakeup, 2)]);
    let waking = Observer { from_waking: true, ..Observer::default() }.replay("__~~=", "  k  ");
    assert_eq!(waking.waits, [(Wakeup, 3)]);
}

#[test]
fn t07_without_its_sched_waking_no_latency_is_made_up() {
    let observer = Observer { from_waking: true, ..Observer::default() }.replay("__~~==__~=", "  k       ");
    assert_eq!((observer.waits.as_slice(), observer.invalid), ([(Wakeup, 3)].as_slice(), 1));
}

#[test]
fn t10_no_state_of_a_dead_task_is_left_to_the_next_with_its_tid() {
    let observer = replay("_~==_____~~==", "    x    n   ");
    assert_eq!(observer.waits, [(Wakeup, 1), (New, 2)]);
    assert!(replay("_~==_", "    x").pending.is_none());
}

#[test]
fn t12_an_end_before_its_start_is_no_latency() {
    let mut pending = PendingWait::IDLE;
    pending.wakeup(5000, 1, Wakeup, false);
    assert_eq!(pending.switch_in(|wait| wait.latency_ns(4999, false)), None);
    pending.wakeup(5000, 1, Wakeup, false);
    assert_eq!(pending.switch_in(|wait| wait.latency_ns(5000, false)), Some(0));
}

#[test]
fn a_missed_switch_in_is_counted_and_not_a_long_wait() {
    let observer = replay("_~====__~~=", "  m        ");
    assert_eq!((observer.waits.as_slice(), observer.missed_switch), ([(Wakeup, 2)].as_slice(), 1));
}

#[test]
fn after_a_missed_run_the_next_wakeup_begins_a_new_wait() {
    let observer = replay("_~==_~~==", "  m m    ");
    let Observer { missed_switch, already_queued, .. } = observer;
    assert_eq!((observer.waits.as_slice(), missed_switch, already_queued), ([(Wakeup, 2)].as_slice(), 1, 0));
}

/// The exception to "no start outlives its wait" (docs/semantics.md): a wakeup that is not sampled drops no start.
#[test]
fn after_a_missed_run_a_wakeup_that_is_not_sampled_does_not_end_the_first_wait() {
    let observer = replay("_~==_~~==", "  m mu   ");
    assert_eq!((observer.waits.as_slice(), observer.missed_switch), ([(Wakeup, 6)].as_slice(), 0));
    // If one of both switches is seen, nothing is left.
    assert_eq!(replay("_~==_~~==", "  m  u   ").waits, []);
    assert_eq!(replay("_~==_~~==", "    mu   ").waits, [(Wakeup, 1)]);
}

#[test]
fn after_a_missed_switch_in_the_delivery_is_that_of_the_next_wakeup() {
    let mut pending = PendingWait::IDLE;
    pending.waking(1000, 7, 3);
    pending.wakeup(2000, 1, Wakeup, false);
    // Its switch-in is missed. On its way to sleep it is woken again.
    pending.waking(9000, 8, 4);
    assert_eq!(pending.switch_out(), Some(Wakeup));
    pending.wakeup(9500, 1, Wakeup, false);
    assert_eq!(pending.switch_in(|wait| Some((wait.delivery_ns(), wait.waker_pid))), Some((500, 8)));
}

#[test]
fn a_missed_death_is_not_a_wait_of_the_next_task() {
    let mut observer = Observer::default();
    observer.entry().wakeup(1000, 1, Wakeup, false);
    observer.wakeup(9000, New, false);
    observer.switch_in(11_000);
    assert_eq!((observer.waits.as_slice(), observer.missed_switch), ([(New, 2)].as_slice(), 1));
}

#[test]
fn a_wakeup_whose_sched_waking_was_missed_keeps_nothing_of_the_previous_one() {
    let mut pending = PendingWait::IDLE;
    pending.waking(1000, 7, 3);
    pending.wakeup(2000, 1, Wakeup, false);
    assert_eq!(pending.switch_in(|wait| Some(wait.prev_cpu)), Some(3));
    pending.wakeup(5000, 1, Wakeup, false);
    let second = pending.switch_in(|wait| Some((wait.waking_at_ns, wait.prev_cpu)));
    assert_eq!(second, Some((0, CPU_UNKNOWN)));
}

/// A timeline that a kernel could show: it begins asleep, and sleep ends with waiting, not with running.
fn schedule() -> impl Strategy<Value = (String, String)> {
    let stretch = (1usize..6, 1usize..6, 1usize..6, 0usize..3, prop::bool::ANY);
    prop::collection::vec(stretch, 1..20).prop_map(|stretches| {
        let (mut drawing, mut marks) = (String::new(), String::new());
        let mut draw = |state: char, columns: usize, mark: char| {
            drawing.extend(std::iter::repeat_n(state, columns));
            marks.push(mark);
            marks.extend(std::iter::repeat_n(' ', columns - 1));
        };
        for (asleep, waiting, running, preemptions, announced) in stretches {
            draw('_', asleep, ' ');
            draw('~', waiting, ' ');
            draw('=', running, ' ');
            for _ in 0..preemptions {
                draw('~', waiting, if announced { 's' } else { ' ' });
                draw('=', running, ' ');
            }
        }
        (drawing, marks)
    })
}

proptest! {
    #[test]
    fn the_waits_of_all_classes_are_all_waiting((drawing, marks) in schedule()) {
        let observer = replay(&drawing, &marks);
        let drawn = drawing.chars().filter(|state| *state == '~').count() as u64;
        prop_assert_eq!(observer.waits.iter().map(|(_, wait)| wait).sum::<u64>(), drawn);
        prop_assert_eq!(
            (observer.missed_switch, observer.invalid, observer.already_running, observer.already_queued),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn every_wakeup_is_one_term_of_the_identity(
        (drawing, marks) in schedule(),
        noise in prop::collection::vec(0usize..200, 0..20),
    ) {
        // Wakeup events at any time except while the task sleeps, when they would have an effect.
        let mut marks: Vec<char> = marks.chars().collect();
        let states: Vec<char> = drawing.chars().collect();
        for at in noise {
            if at > 0 && at < states.len() && states[at] != '_' && states[at] == states[at - 1] && marks[at] == ' ' {
                marks[at] = 'w';
            }
        }
        let observer = replay(&drawing, &marks.into_iter().collect::<String>());
        let measured = observer.waits.iter().filter(|(class, _)| *class == Wakeup).count() as u64;
        let Observer { seen, already_running, already_queued, missed_switch, .. } = observer;
        prop_assert_eq!(seen, measured + already_running + already_queued + missed_switch);
    }

    /// Under `--max-overhead`, a task may cease to be sampled, or be sampled again, between any two events.
    #[test]
    fn a_wakeup_that_is_not_sampled_leaves_nothing_to_the_next_wait(
        (drawing, marks) in schedule(),
        seen in prop::collection::vec(prop::sample::select(vec!['k', ' ', 'u']), 20),
    ) {
        let states: Vec<char> = drawing.chars().collect();
        let mut marks: Vec<char> = marks.chars().collect();
        let wakeups = (1..states.len()).filter(|at| states[*at - 1] == '_' && states[*at] == '~');
        let (mut expected, mut unknown, mut left_out) = (Vec::new(), 0, 0);
        for (at, mark) in wakeups.zip(seen) {
            marks[at] = mark;
            let waited = states[at..].iter().take_while(|state| **state == '~').count() as u64;
            match mark {
                'k' => expected.push((Wakeup, waited + 1)),
                'u' => left_out += 1,
                // Only its `sched_wakeup` was sampled: there is no latency from `sched_waking` on.
                _ => unknown += 1,
            }
        }
        let observer = Observer { from_waking: true, ..Observer::default() };
        let Observer { waits, not_sampled, invalid, missed_switch, .. } =
            observer.replay(&drawing, &marks.into_iter().collect::<String>());
        prop_assert_eq!(waits, expected);
        prop_assert_eq!((not_sampled, invalid, missed_switch), (left_out, unknown, 0));
    }

    #[test]
    fn no_figure_depends_on_the_requested_classes((drawing, marks) in schedule()) {
        let wakeups = |observer: Observer| -> Vec<(Class, u64)> {
            observer.waits.into_iter().filter(|(class, _)| *class == Wakeup).collect()
        };
        prop_assert_eq!(wakeups(Observer::default().replay(&drawing, &marks)), wakeups(replay(&drawing, &marks)));
    }
}
