//! The stays of tasks on CPUs, one after the other: each from the turn that brings a task to the one that takes it away.

use wakelat_common::start::PrevState;

use super::event::{Event, EventKind, MigrationEvent, SwitchEvent, TaskInfo, WakeupEvent};
use crate::{hash::HashMap, wait::Wait};

/// What there is to be told of a course of events, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedLine {
    /// A task has left its CPU.
    Slice(Box<Slice>),
    /// A task was moved to another CPU.
    Migration(MigrationEvent),
    /// A task was woken.
    Wakeup(WakeupEvent),
    /// Events are missing between the last one of this CPU and the next: the ring buffer had no room for them.
    Lost {
        /// The CPU.
        cpu: u32,
        /// When the next event was: ns of CLOCK_MONOTONIC.
        at_ns: u64,
        /// How many.
        events: u32,
    },
    /// A switch was shown by no tracepoint: another task leaves than the one that came, or it has been away meanwhile.
    Unseen {
        /// The CPU.
        cpu: u32,
        /// When that was found: ns of CLOCK_MONOTONIC.
        at_ns: u64,
        /// Who had come.
        expected: u32,
        /// Who leaves.
        switched_out: u32,
    },
}

impl SchedLine {
    /// The CPU it is about: where the task ran, from where it was moved, to where it was woken.
    pub fn cpu(&self) -> u32 {
        match self {
            Self::Slice(stay) => stay.cpu,
            Self::Migration(moved) => moved.from_cpu,
            Self::Wakeup(woken) => woken.target_cpu,
            Self::Lost { cpu, .. } | Self::Unseen { cpu, .. } => *cpu,
        }
    }

    /// When it was: ns of CLOCK_MONOTONIC.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Slice(stay) => stay.until_ns,
            Self::Migration(moved) => moved.at_ns,
            Self::Wakeup(woken) => woken.at_ns,
            Self::Lost { at_ns, .. } | Self::Unseen { at_ns, .. } => *at_ns,
        }
    }
}

/// A task's time on a CPU, and how it came there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where.
    pub cpu: u32,
    /// When it left: ns of CLOCK_MONOTONIC.
    pub until_ns: u64,
    /// Who, as it was when it left.
    pub task: TaskInfo,
    /// How long it had the CPU, interrupts included: ns. None where nobody saw it come.
    pub run_ns: Option<u64>,
    /// From when it had last left a CPU to when it came to this one: ns. None where that was not seen, and of the idle task.
    pub off_cpu_ns: Option<u64>,
    /// The wait by which it came, the last part of the time off CPUs; none where it did not wait, or nobody saw it.
    pub wait: Option<Wait>,
    /// What becomes of it.
    pub prev_state: PrevState,
    /// Who comes after it.
    pub next: TaskInfo,
}

/// What is shown beside the stays of the tasks that the filter takes. Of moves and wakeups, the source tells only those of
/// such tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedLineOptions {
    /// Those of the idle tasks.
    pub idle: bool,
    /// Moves from one CPU to another.
    pub migrations: bool,
    /// Wakeups.
    pub wakeups: bool,
}

/// Makes lines of events. What is not known for sure stays unknown: nothing is measured across a loss.
///
/// A loss is known with the next event of its CPU. Until then, a task may have come and gone there unseen, so that the time
/// off CPUs of a stay on another one may contain what it ran.
#[derive(Debug)]
pub struct SliceTracker {
    options: SchedLineOptions,
    cpus: HashMap<u32, Cpu>,
    /// When each task left a CPU for the last time, of those that are on none.
    last_out: HashMap<u32, LastSwitchOut>,
    /// What was before may have gone on in events that were lost: ns.
    complete_since_ns: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Of the last event; 0 before the first.
    seq: u32,
    /// Who has it; none where that was not seen.
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    tid: u32,
    is_shown: bool,
    since_ns: u64,
    /// When and where it had left, unless it has been elsewhere since.
    last_out: Option<LastSwitchOut>,
    wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct LastSwitchOut {
    at_ns: u64,
    cpu: u32,
}

impl SliceTracker {
    /// Nothing was seen yet.
    pub fn new(options: SchedLineOptions) -> Self {
        Self { options, cpus: HashMap::default(), last_out: HashMap::default(), complete_since_ns: 0 }
    }

    /// Takes the next event, and gives the lines that it makes.
    pub fn take(&mut self, event: &Event) -> impl Iterator<Item = SchedLine> + use<> {
        let lost = self.follow(event);
        let (unseen, line) = match &event.kind {
            EventKind::Switch(turn) => {
                let (unseen, stay) = self.switch(event.cpu, turn);
                (unseen, stay.map(|stay| SchedLine::Slice(Box::new(stay))))
            }
            EventKind::Migration(moved) => (None, self.options.migrations.then_some(SchedLine::Migration(*moved))),
            EventKind::Wakeup(woken) => {
                if woken.new {
                    // The number may have been another's.
                    self.last_out.remove(&woken.tid);
                }
                (None, self.options.wakeups.then_some(SchedLine::Wakeup(*woken)))
            }
            EventKind::Interrupt(_) | EventKind::WorkItem(_) | EventKind::ForkExec(_) | EventKind::Stack(_) => {
                (None, None)
            }
        };
        [lost, unseen, line].into_iter().flatten()
    }

    /// Whether events of this CPU are missing before this one.
    fn follow(&mut self, event: &Event) -> Option<SchedLine> {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let events = event.lost_since(&mut cpu.seq);
        if events == 0 {
            return None;
        }
        cpu.current = None;
        let at_ns = event.kind.at_ns();
        self.complete_since_ns = self.complete_since_ns.max(at_ns);
        Some(SchedLine::Lost { cpu: event.cpu, at_ns, events })
    }

    fn switch(&mut self, on: u32, turn: &SwitchEvent) -> (Option<SchedLine>, Option<Slice>) {
        let waited = turn.ended_wait.map(|waited| waited.wait);
        let left = self.last_out.remove(&turn.next.tid);
        let comes = Current {
            tid: turn.next.tid,
            is_shown: self.shows(&turn.next),
            since_ns: turn.at_ns,
            last_out: left.filter(|left| waited.and_then(|wait| wait.prev_cpu).is_none_or(|cpu| cpu == left.cpu)),
            wait: waited,
        };
        let came = self.cpus.get_mut(&on).and_then(|cpu| cpu.current.replace(comes));
        let is_shown = self.shows(&turn.prev);
        let has_unseen = turn.unseen.is_some_and(|unseen| unseen.switches.is_some());
        let is_whole = |came: &Current| came.tid == turn.prev.tid && !has_unseen;
        let unseen = came.as_ref().filter(|came| !is_whole(came) && (came.is_shown || is_shown)).map(|came| {
            SchedLine::Unseen { cpu: on, at_ns: turn.at_ns, expected: came.tid, switched_out: turn.prev.tid }
        });
        if turn.prev_state == PrevState::Dead || turn.prev.tid == 0 {
            self.last_out.remove(&turn.prev.tid);
        } else {
            self.last_out.insert(turn.prev.tid, LastSwitchOut { at_ns: turn.at_ns, cpu: on });
        }
        let came = came.filter(is_whole);
        let stay = is_shown.then(|| Slice {
            cpu: on,
            until_ns: turn.at_ns,
            task: turn.prev,
            run_ns: came.as_ref().and_then(|came| turn.at_ns.checked_sub(came.since_ns)),
            off_cpu_ns: came.as_ref().and_then(|came| self.off_cpu_ns(came)),
            wait: came.and_then(|came| came.wait),
            prev_state: turn.prev_state,
            next: turn.next,
        });
        (unseen, stay)
    }

    fn shows(&self, task: &TaskInfo) -> bool {
        if task.tid == 0 { self.options.idle } else { task.wanted }
    }

    /// From when it had left a CPU to when it came: ns. None where it may have been on one meanwhile.
    fn off_cpu_ns(&self, came: &Current) -> Option<u64> {
        let left = came.last_out.filter(|left| left.at_ns > self.complete_since_ns)?;
        came.since_ns.checked_sub(left.at_ns)
    }
}

#[cfg(test)]
pub(crate) mod tests;
