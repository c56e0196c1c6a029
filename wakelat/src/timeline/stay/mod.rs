//! The stays of tasks on CPUs, one after the other: each from the turn that brings a task to the one that takes it away.

use wakelat_common::start::Leaving;

use super::event::{Event, Moved, Occupant, Turn, What, Woken};
use crate::{hash::HashMap, wait::Wait};

/// What there is to be told of a course of events, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A task has left its CPU.
    Stay(Box<Stay>),
    /// A task was moved to another CPU.
    Moved(Moved),
    /// A task was woken.
    Woken(Woken),
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
        came: u32,
        /// Who leaves.
        leaves: u32,
    },
}

impl Line {
    /// The CPU it is about: where the task ran, from where it was moved, to where it was woken.
    pub fn cpu(&self) -> u32 {
        match self {
            Self::Stay(stay) => stay.cpu,
            Self::Moved(moved) => moved.from_cpu,
            Self::Woken(woken) => woken.target_cpu,
            Self::Lost { cpu, .. } | Self::Unseen { cpu, .. } => *cpu,
        }
    }

    /// When it was: ns of CLOCK_MONOTONIC.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Stay(stay) => stay.until_ns,
            Self::Moved(moved) => moved.at_ns,
            Self::Woken(woken) => woken.at_ns,
            Self::Lost { at_ns, .. } | Self::Unseen { at_ns, .. } => *at_ns,
        }
    }
}

/// A task's time on a CPU, and how it came there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Where.
    pub cpu: u32,
    /// When it left: ns of CLOCK_MONOTONIC.
    pub until_ns: u64,
    /// Who, as it was when it left.
    pub task: Occupant,
    /// How long it had the CPU, interrupts included: ns. None where nobody saw it come.
    pub run_ns: Option<u64>,
    /// From when it had last left a CPU to when it came to this one: ns. None where that was not seen, and of the idle task.
    pub off_cpu_ns: Option<u64>,
    /// The wait by which it came, the last part of the time off CPUs; none where it did not wait, or nobody saw it.
    pub waited: Option<Wait>,
    /// What becomes of it.
    pub leaving: Leaving,
    /// Who comes after it.
    pub next: Occupant,
}

/// What is shown beside the stays of the tasks that the filter takes. Of moves and wakeups, the source tells only those of
/// such tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
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
pub struct Stays {
    shown: Shown,
    cpus: HashMap<u32, Cpu>,
    /// When each task left a CPU for the last time, of those that are on none.
    left: HashMap<u32, Left>,
    /// What was before may have gone on in events that were lost: ns.
    whole_since_ns: u64,
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
    left: Option<Left>,
    waited: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    at_ns: u64,
    cpu: u32,
}

impl Stays {
    /// Nothing was seen yet.
    pub fn new(shown: Shown) -> Self {
        Self { shown, cpus: HashMap::default(), left: HashMap::default(), whole_since_ns: 0 }
    }

    /// Takes the next event, and gives the lines that it makes.
    pub fn take(&mut self, event: &Event) -> impl Iterator<Item = Line> + use<> {
        let lost = self.follow(event);
        let (unseen, line) = match &event.what {
            What::Turn(turn) => {
                let (unseen, stay) = self.turn(event.cpu, turn);
                (unseen, stay.map(|stay| Line::Stay(Box::new(stay))))
            }
            What::Moved(moved) => (None, self.shown.migrations.then_some(Line::Moved(*moved))),
            What::Woken(woken) => {
                if woken.new {
                    // The number may have been another's.
                    self.left.remove(&woken.tid);
                }
                (None, self.shown.wakeups.then_some(Line::Woken(*woken)))
            }
            What::Noise(_) | What::Work(_) | What::Spawn(_) | What::Stack(_) => (None, None),
        };
        [lost, unseen, line].into_iter().flatten()
    }

    /// Whether events of this CPU are missing before this one.
    fn follow(&mut self, event: &Event) -> Option<Line> {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let events = event.follow(&mut cpu.seq);
        if events == 0 {
            return None;
        }
        cpu.current = None;
        let at_ns = at_ns(&event.what);
        self.whole_since_ns = self.whole_since_ns.max(at_ns);
        Some(Line::Lost { cpu: event.cpu, at_ns, events })
    }

    fn turn(&mut self, on: u32, turn: &Turn) -> (Option<Line>, Option<Stay>) {
        let waited = turn.waited.map(|waited| waited.wait);
        let left = self.left.remove(&turn.next.tid);
        let comes = Current {
            tid: turn.next.tid,
            is_shown: self.shows(&turn.next),
            since_ns: turn.at_ns,
            left: left.filter(|left| waited.and_then(|wait| wait.prev_cpu).is_none_or(|cpu| cpu == left.cpu)),
            waited,
        };
        let came = self.cpus.get_mut(&on).and_then(|cpu| cpu.current.replace(comes));
        let is_shown = self.shows(&turn.prev);
        let has_unseen = turn.unseen.is_some_and(|unseen| unseen.switches.is_some());
        let is_whole = |came: &Current| came.tid == turn.prev.tid && !has_unseen;
        let unseen = came
            .as_ref()
            .filter(|came| !is_whole(came) && (came.is_shown || is_shown))
            .map(|came| Line::Unseen { cpu: on, at_ns: turn.at_ns, came: came.tid, leaves: turn.prev.tid });
        if turn.leaving == Leaving::Dead || turn.prev.tid == 0 {
            self.left.remove(&turn.prev.tid);
        } else {
            self.left.insert(turn.prev.tid, Left { at_ns: turn.at_ns, cpu: on });
        }
        let came = came.filter(is_whole);
        let stay = is_shown.then(|| Stay {
            cpu: on,
            until_ns: turn.at_ns,
            task: turn.prev,
            run_ns: came.as_ref().and_then(|came| turn.at_ns.checked_sub(came.since_ns)),
            off_cpu_ns: came.as_ref().and_then(|came| self.off_cpu_ns(came)),
            waited: came.and_then(|came| came.waited),
            leaving: turn.leaving,
            next: turn.next,
        });
        (unseen, stay)
    }

    fn shows(&self, task: &Occupant) -> bool {
        if task.tid == 0 { self.shown.idle } else { task.wanted }
    }

    /// From when it had left a CPU to when it came: ns. None where it may have been on one meanwhile.
    fn off_cpu_ns(&self, came: &Current) -> Option<u64> {
        let left = came.left.filter(|left| left.at_ns > self.whole_since_ns)?;
        came.since_ns.checked_sub(left.at_ns)
    }
}

/// When something was: ns of CLOCK_MONOTONIC.
fn at_ns(what: &What) -> u64 {
    match what {
        What::Turn(turn) => turn.at_ns,
        What::Noise(noise) => noise.to_ns,
        What::Moved(moved) => moved.at_ns,
        What::Woken(woken) => woken.at_ns,
        What::Work(work) => work.at_ns,
        What::Spawn(spawn) => spawn.at_ns,
        What::Stack(stack) => stack.at_ns,
    }
}

#[cfg(test)]
pub(crate) mod tests;
