//! The oracle: the expected result for a recorded sequence of scheduler events, by either set of rules. Pure.
//!
//! It knows only what the records contain, identifies a task by its number, and shares no code with
//! what it checks: it follows docs/semantics.md, and "The rules of a hist trigger" there.

use std::collections::HashMap;

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayEvent {
    /// When: ns.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task on that CPU.
    pub current: u32,
    /// What happened.
    pub what: ReplayEventKind,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayEventKind {
    /// `sched_waking`.
    Waking {
        /// The task about to be woken.
        tid: u32,
    },
    /// `sched_wakeup`, or `sched_wakeup_new` if the task is new.
    Wakeup {
        /// The wakee.
        tid: u32,
        /// The task's name.
        comm: String,
        /// Whether this is its first wakeup.
        new: bool,
    },
    /// `sched_switch`.
    Switch {
        /// The outgoing task.
        prev: u32,
        /// Name of the outgoing task.
        prev_comm: String,
        /// `prev_state`.
        prev_state: u32,
        /// The incoming task.
        next: u32,
    },
}

/// Flag in `prev_state` of a preempted task, whatever its state (`TASK_REPORT_MAX`,
/// include/linux/sched.h).
const PREEMPTED: u32 = 0x100;

/// A wait by wakelat's own rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayWait {
    /// The task that waited.
    pub tid: u32,
    /// `wakeup`, `new` or `preempted`.
    pub class: &'static str,
    /// When the wait ended: ns.
    pub at_ns: u64,
    /// Its latency: ns.
    pub latency_ns: u64,
    /// From `sched_waking` to `sched_wakeup`, if both were seen: ns.
    pub delivery_ns: Option<u64>,
    /// The task that was on the CPU at `sched_waking`.
    pub waker: Option<u32>,
    /// The CPU on which the wait ended.
    pub cpu: u32,
}

/// The result of a replay by wakelat's own rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayedWaits {
    /// The waits that ended, ordered by their ends.
    pub waits: Vec<ReplayWait>,
    /// Wakeups of tasks that were on a CPU.
    pub already_running: u64,
    /// Wakeups of preempted tasks, which were already waiting.
    pub already_queued: u64,
    /// Switch-ins of tasks that, according to the records, slept: 0, or the records are incomplete.
    pub unexplained: u64,
}

/// What is known about a task.
#[derive(Default)]
struct Task {
    waking: Option<(u64, u32)>,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Asleep,
    Running,
    Waits(ReplayWait),
}

/// Replays `events` by wakelat's own rules, for tasks whose name is `wanted` when the wait begins.
pub fn own(events: &[ReplayEvent], wanted: impl Fn(&str) -> bool) -> ReplayedWaits {
    let (mut own, mut tasks) = (ReplayedWaits::default(), HashMap::<u32, Task>::new());
    for event in events {
        match &event.what {
            ReplayEventKind::Waking { tid } => {
                tasks.entry(*tid).or_default().waking = Some((event.at_ns, event.current))
            }
            ReplayEventKind::Wakeup { tid, comm, new } => {
                let task = tasks.entry(*tid).or_default();
                let waking = task.waking.take().filter(|_| !new);
                match task.state {
                    State::Running if !new => own.already_running += u64::from(wanted(comm)),
                    State::Waits(ReplayWait { class: "preempted", .. }) if !new => {
                        own.already_queued += u64::from(wanted(comm))
                    }
                    // A new task may reuse the number of one that has exited, and a task that is woken a second time
                    // has run meanwhile: the records lack it.
                    _ if wanted(comm) => {
                        task.state = begin(*tid, if *new { "new" } else { "wakeup" }, event.at_ns, waking);
                    }
                    _ => task.state = State::Unknown,
                }
            }
            ReplayEventKind::Switch { prev, prev_comm, prev_state, next } => {
                if *prev != 0 {
                    let state = match prev_state {
                        0 | PREEMPTED.. if wanted(prev_comm) => begin(*prev, "preempted", event.at_ns, None),
                        1..PREEMPTED if wanted(prev_comm) => State::Asleep,
                        _ => State::Unknown,
                    };
                    tasks.entry(*prev).or_default().state = state;
                }
                if *next != 0 {
                    let task = tasks.entry(*next).or_default();
                    match std::mem::replace(&mut task.state, State::Running) {
                        State::Waits(wait) => {
                            let latency_ns = event.at_ns - wait.at_ns;
                            own.waits.push(ReplayWait { at_ns: event.at_ns, latency_ns, cpu: event.cpu, ..wait });
                        }
                        State::Asleep => own.unexplained += 1,
                        State::Unknown | State::Running => {}
                    }
                }
            }
        }
    }
    own
}

fn begin(tid: u32, class: &'static str, at_ns: u64, waking: Option<(u64, u32)>) -> State {
    let delivery_ns = waking.map(|(waking_ns, _)| at_ns - waking_ns);
    State::Waits(ReplayWait {
        tid,
        class,
        at_ns,
        latency_ns: 0,
        delivery_ns,
        waker: waking.map(|(_, waker)| waker),
        cpu: 0,
    })
}

/// Replays `events` by the rules of the trigger recipe, for `wanted` threads: the latest wakeup wins,
/// whatever the task does, and a saved time is used once. Returns the thread and latency of each wait: ns.
pub fn trigger(events: &[ReplayEvent], wanted: impl Fn(u32) -> bool) -> Vec<(u32, u64)> {
    let (mut saved, mut waits) = (HashMap::new(), Vec::new());
    for event in events {
        match event.what {
            ReplayEventKind::Wakeup { tid, new: false, .. } if wanted(tid) => drop(saved.insert(tid, event.at_ns)),
            ReplayEventKind::Switch { next, .. } => {
                waits.extend(saved.remove(&next).map(|at_ns| (next, event.at_ns - at_ns)));
            }
            ReplayEventKind::Waking { .. } | ReplayEventKind::Wakeup { .. } => {}
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEPS: u32 = 1;
    const OTHER: u32 = 9;

    fn event(at_ns: u64, what: ReplayEventKind) -> ReplayEvent {
        ReplayEvent { at_ns, cpu: 3, current: 42, what }
    }

    fn waking(at_ns: u64) -> ReplayEvent {
        event(at_ns, ReplayEventKind::Waking { tid: 7 })
    }

    fn wakeup(at_ns: u64, new: bool) -> ReplayEvent {
        event(at_ns, ReplayEventKind::Wakeup { tid: 7, comm: "wl-a".to_owned(), new })
    }

    fn switch_in(at_ns: u64) -> ReplayEvent {
        event(at_ns, ReplayEventKind::Switch { prev: OTHER, prev_comm: "x".to_owned(), prev_state: SLEEPS, next: 7 })
    }

    fn switch_out(at_ns: u64, prev_state: u32) -> ReplayEvent {
        event(at_ns, ReplayEventKind::Switch { prev: 7, prev_comm: "wl-a".to_owned(), prev_state, next: 0 })
    }

    fn ours(events: &[ReplayEvent]) -> ReplayedWaits {
        own(events, |comm| comm.starts_with("wl-"))
    }

    fn waits(own: &ReplayedWaits) -> Vec<(&str, u64)> {
        own.waits.iter().map(|wait| (wait.class, wait.latency_ns)).collect()
    }

    #[test]
    fn a_wait_lasts_from_its_wakeup_to_the_switch_in() {
        let own = ours(&[waking(90), wakeup(100, false), switch_in(130)]);
        let wait = ReplayWait {
            tid: 7,
            class: "wakeup",
            at_ns: 130,
            latency_ns: 30,
            delivery_ns: Some(10),
            waker: Some(42),
            cpu: 3,
        };
        assert_eq!(own, ReplayedWaits { waits: vec![wait], ..ReplayedWaits::default() });
    }

    #[test]
    fn a_wakeup_of_a_running_task_starts_only_the_triggers_clock() {
        let events = [switch_in(100), wakeup(110, false), switch_out(120, 0), switch_in(150)];
        let own = ours(&events);
        assert_eq!((waits(&own), own.already_running), (vec![("preempted", 30)], 1));
        assert_eq!(trigger(&events, |tid| tid == 7), [(7, 40)]);
    }

    #[test]
    fn a_wakeup_of_a_preempted_task_restarts_only_the_triggers_clock() {
        let events = [switch_out(100, PREEMPTED), wakeup(110, false), switch_in(150)];
        let own = ours(&events);
        assert_eq!((waits(&own), own.already_queued), (vec![("preempted", 50)], 1));
        assert_eq!(trigger(&events, |_| true), [(7, 40)]);
    }

    #[test]
    fn a_preempted_task_waits_and_a_sleeping_one_does_not() {
        for (state, expected) in [(0, vec![("preempted", 9)]), (PREEMPTED, vec![("preempted", 9)]), (0x10, vec![])] {
            let own = ours(&[switch_in(10), switch_out(20, state), switch_in(29)]);
            assert_eq!((waits(&own), own.unexplained), (expected, u64::from(state == 0x10)));
        }
    }

    #[test]
    fn a_saved_time_is_used_once() {
        let events = [wakeup(100, false), switch_in(110), switch_out(120, 0), switch_in(130)];
        assert_eq!(trigger(&events, |_| true), [(7, 10)]);
    }

    #[test]
    fn a_new_task_is_a_class_of_its_own_and_unknown_to_the_trigger() {
        let events = [switch_in(10), switch_out(20, 0x20), wakeup(100, true), switch_in(110)];
        assert_eq!(waits(&ours(&events)), [("new", 10)]);
        assert_eq!(trigger(&events, |_| true), []);
    }

    #[test]
    fn other_tasks_are_left_out() {
        let events = [wakeup(100, false), switch_in(110), switch_out(120, 0), switch_in(130)];
        assert_eq!(own(&events, |comm| comm == "else"), ReplayedWaits::default());
        assert_eq!(trigger(&events, |tid| tid != 7), []);
    }
}
