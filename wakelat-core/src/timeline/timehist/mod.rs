//! The slices of tasks on CPUs: each from the switch-in of a task to its next switch-out.

use wakelat_common::pending_wait::PrevState;

use super::event::{Event, EventKind, MigrationEvent, SwitchEvent, TaskInfo, WakeupEvent};
use crate::{hash::HashMap, wait::Wait};

/// A line of scheduling output; lines are in the order of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedLine {
    /// A task left its CPU: its slice has ended.
    Slice(Box<Slice>),
    /// A task migrated to another CPU.
    Migration(MigrationEvent),
    /// A task was woken.
    Wakeup(WakeupEvent),
    /// Events are missing between the last one of this CPU and the next: the ring buffer had no room for them.
    Lost {
        /// The CPU.
        cpu: u32,
        /// When the next event happened: ns of CLOCK_MONOTONIC.
        at_ns: u64,
        /// The number of missing events.
        events: u32,
    },
    /// No tracepoint showed a switch: the outgoing task is not the one that was switched in, or it has been away in the
    /// meantime.
    Unseen {
        /// The CPU.
        cpu: u32,
        /// When the unseen switch was detected: ns of CLOCK_MONOTONIC.
        at_ns: u64,
        /// The thread that was switched in last.
        expected: u32,
        /// The outgoing thread.
        switched_out: u32,
    },
}

impl SchedLine {
    /// The CPU of the slice or the loss; of a migration, the CPU it left; of a wakeup, the target CPU.
    pub fn cpu(&self) -> u32 {
        match self {
            Self::Slice(slice) => slice.cpu,
            Self::Migration(migration) => migration.from_cpu,
            Self::Wakeup(wakeup) => wakeup.target_cpu,
            Self::Lost { cpu, .. } | Self::Unseen { cpu, .. } => *cpu,
        }
    }

    /// When the event of the line happened: ns of CLOCK_MONOTONIC; of a slice, when it ended.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Slice(slice) => slice.until_ns,
            Self::Migration(migration) => migration.at_ns,
            Self::Wakeup(wakeup) => wakeup.at_ns,
            Self::Lost { at_ns, .. } | Self::Unseen { at_ns, .. } => *at_ns,
        }
    }
}

/// The time of a task on a CPU from a switch-in to the next switch-out, and the time before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The CPU.
    pub cpu: u32,
    /// When the slice ended: ns of CLOCK_MONOTONIC.
    pub until_ns: u64,
    /// The task, as it was at the end of the slice.
    pub task: TaskInfo,
    /// How long the task had the CPU, including interrupts: ns. `None` if its switch-in was not seen.
    pub run_ns: Option<u64>,
    /// The time from the task's last switch-out, on any CPU, to this switch-in: ns. `None` if that switch-out was not
    /// seen, and for the idle task.
    pub off_cpu_ns: Option<u64>,
    /// The wait that ended with the switch-in, which is the last part of the time off CPU. `None` if the task did not
    /// wait, or if the wait was not seen.
    pub wait: Option<Wait>,
    /// What becomes of the task at the switch-out.
    pub prev_state: PrevState,
    /// The incoming task.
    pub next: TaskInfo,
}

/// What is shown besides the slices of the tasks that the filter accepts. The programs record migrations and wakeups
/// only of such tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedLineOptions {
    /// Slices of the idle tasks.
    pub idle: bool,
    /// Migrations from one CPU to another.
    pub migrations: bool,
    /// Wakeups.
    pub wakeups: bool,
}

/// Turns events into lines. Nothing is measured across a loss: whatever is uncertain is reported as unknown.
///
/// A loss becomes known with the next event of its CPU. Until then, a task may have run there unseen, so that the time
/// off CPU of its slice on another CPU may include that run time.
#[derive(Debug)]
pub struct SliceTracker {
    options: SchedLineOptions,
    cpus: HashMap<u32, Cpu>,
    /// The last switch-out of each task that is on no CPU.
    last_out: HashMap<u32, LastSwitchOut>,
    /// The end of the last loss: ns of CLOCK_MONOTONIC. A task that left a CPU before then may have run unseen.
    complete_since_ns: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    /// The number of the last event; 0 before the first.
    seq: u32,
    /// The slice in progress; `None` if its switch-in was not seen.
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    tid: u32,
    is_shown: bool,
    since_ns: u64,
    /// The task's last switch-out, unless it has been on another CPU since.
    last_out: Option<LastSwitchOut>,
    wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct LastSwitchOut {
    at_ns: u64,
    cpu: u32,
}

impl SliceTracker {
    /// A tracker that has seen no event.
    pub fn new(options: SchedLineOptions) -> Self {
        Self { options, cpus: HashMap::default(), last_out: HashMap::default(), complete_since_ns: 0 }
    }

    /// Takes the next event and returns its lines.
    pub fn take(&mut self, event: &Event) -> impl Iterator<Item = SchedLine> + use<> {
        let lost = self.follow(event);
        let (unseen, line) = match &event.kind {
            EventKind::Switch(switch) => {
                let (unseen, slice) = self.switch(event.cpu, switch);
                (unseen, slice.map(|slice| SchedLine::Slice(Box::new(slice))))
            }
            EventKind::Migration(migration) => {
                (None, self.options.migrations.then_some(SchedLine::Migration(*migration)))
            }
            EventKind::Wakeup(wakeup) => {
                if wakeup.new {
                    // The TID may have been that of another task, whose exit was not seen.
                    self.last_out.remove(&wakeup.tid);
                }
                (None, self.options.wakeups.then_some(SchedLine::Wakeup(*wakeup)))
            }
            EventKind::Interrupt(_) | EventKind::WorkItem(_) | EventKind::ForkExec(_) | EventKind::Stack(_) => {
                (None, None)
            }
        };
        [lost, unseen, line].into_iter().flatten()
    }

    /// Returns a line if events of this CPU are missing before this one.
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

    fn switch(&mut self, on: u32, switch: &SwitchEvent) -> (Option<SchedLine>, Option<Slice>) {
        let waited = switch.ended_wait.map(|waited| waited.wait);
        let last_out = self.last_out.remove(&switch.next.tid);
        let next = Current {
            tid: switch.next.tid,
            is_shown: self.shows(&switch.next),
            since_ns: switch.at_ns,
            last_out: last_out.filter(|out| waited.and_then(|wait| wait.prev_cpu).is_none_or(|cpu| cpu == out.cpu)),
            wait: waited,
        };
        let current = self.cpus.get_mut(&on).and_then(|cpu| cpu.current.replace(next));
        let is_shown = self.shows(&switch.prev);
        let has_unseen = switch.unseen.is_some_and(|unseen| unseen.switches.is_some());
        let is_whole = |current: &Current| current.tid == switch.prev.tid && !has_unseen;
        let broken = current.as_ref().filter(|current| !is_whole(current) && (current.is_shown || is_shown));
        let unseen = broken.map(|current| SchedLine::Unseen {
            cpu: on,
            at_ns: switch.at_ns,
            expected: current.tid,
            switched_out: switch.prev.tid,
        });
        if switch.prev_state == PrevState::Dead || switch.prev.tid == 0 {
            self.last_out.remove(&switch.prev.tid);
        } else {
            self.last_out.insert(switch.prev.tid, LastSwitchOut { at_ns: switch.at_ns, cpu: on });
        }
        let current = current.filter(is_whole);
        let slice = is_shown.then(|| Slice {
            cpu: on,
            until_ns: switch.at_ns,
            task: switch.prev,
            run_ns: current.as_ref().and_then(|current| switch.at_ns.checked_sub(current.since_ns)),
            off_cpu_ns: current.as_ref().and_then(|current| self.off_cpu_ns(current)),
            wait: current.and_then(|current| current.wait),
            prev_state: switch.prev_state,
            next: switch.next,
        });
        (unseen, slice)
    }

    fn shows(&self, task: &TaskInfo) -> bool {
        if task.tid == 0 { self.options.idle } else { task.wanted }
    }

    /// The time from the last switch-out to this switch-in: ns. `None` if the task may have been on a CPU in between.
    fn off_cpu_ns(&self, current: &Current) -> Option<u64> {
        let last_out = current.last_out.filter(|out| out.at_ns > self.complete_since_ns)?;
        current.since_ns.checked_sub(last_out.at_ns)
    }
}

#[cfg(test)]
pub(crate) mod tests;
