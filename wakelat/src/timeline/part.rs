//! The words for the parts of a wait, and for who or what each went to.

use super::event::{InterruptSource, TaskInfo};
use crate::wait::Comm;

/// A part of a wait. Each of its ns is in exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Delivery: the waker chose a CPU and put the task on its run queue itself.
    Placement,
    /// Delivery: the waker called the CPU by an interrupt, and that CPU put the task on its run queue.
    Ipi,
    /// The CPU ran its idle task: it was on its way out of idle.
    Idle,
    /// A task of a higher class or priority ran.
    Higher,
    /// A task of the same class ran; of the same priority where it is a real-time one.
    Same,
    /// A task of a lower class or priority ran.
    Lower,
    /// An interrupt ran.
    Irq,
    /// A softirq ran.
    Softirq,
    /// The task's group had used up its quota.
    Throttled,
    /// A real-time task waited because such tasks had used up their time on the CPU.
    RtThrottled,
    /// The hypervisor had the CPU.
    Stolen,
    /// Nobody can tell; [`UnknownReason`] says why.
    Unexplained,
}

impl Component {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Placement,
        Self::Ipi,
        Self::Idle,
        Self::Higher,
        Self::Same,
        Self::Lower,
        Self::Irq,
        Self::Softirq,
        Self::Throttled,
        Self::RtThrottled,
        Self::Stolen,
        Self::Unexplained,
    ];

    /// The word for it, on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Ipi => "ipi",
            Self::Idle => "idle",
            Self::Higher => "higher",
            Self::Same => "same",
            Self::Lower => "lower",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Throttled => "throttled",
            Self::RtThrottled => "rt_throttled",
            Self::Stolen => "stolen",
            Self::Unexplained => "unexplained",
        }
    }
}

/// Who or what had the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A task.
    Task(RunningTask),
    /// The idle task, with the last C-state that the CPU had entered where the kernel said so.
    Idle(Option<u8>),
    /// An interrupt or softirq.
    Interrupt(InterruptSource),
    /// A cgroup, of which no more is known where its id is not.
    Cgroup(Option<u64>),
    /// The part says it all.
    NoActor,
    /// Why it is not known.
    Unknown(UnknownReason),
}

/// A task that ran while another waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningTask {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Name.
    pub comm: Comm,
    /// Kernel priority.
    pub prio: i32,
    /// `SCHED_*` number.
    pub policy: u32,
    /// Id in the v2 hierarchy, where asked for.
    pub cgroup_id: Option<u64>,
}

impl From<&TaskInfo> for RunningTask {
    fn from(occupant: &TaskInfo) -> Self {
        let TaskInfo { tid, pid, comm, prio, policy, cgroup_id, wanted: _ } = *occupant;
        Self { tid, pid, comm, prio, policy, cgroup_id }
    }
}

/// Why a time is unexplained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnknownReason {
    /// Records of the CPU were lost.
    Lost,
    /// The CPU changed its task, and the tracepoint did not show it.
    Unseen,
    /// It is longer ago than is remembered.
    HistoryLimit,
    /// It is before the first switch seen on the CPU.
    BeforeStart,
    /// On which CPU's run queue the task stood is not known.
    UnknownCpu,
    /// The wait is longer than the clock has run.
    Clock,
}

impl UnknownReason {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Unseen, Self::HistoryLimit, Self::BeforeStart, Self::UnknownCpu, Self::Clock];

    /// The word for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unseen => "hidden",
            Self::HistoryLimit => "reach",
            Self::BeforeStart => "before",
            Self::UnknownCpu => "place",
            Self::Clock => "clock",
        }
    }
}

/// What a share of a wait went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Culprit {
    /// The part.
    pub component: Component,
    /// Who or what in it.
    pub actor: Actor,
}

/// What two shares have in common that are one: a task is its thread id and its name, as another may have the same id later; an
/// interrupt is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CulpritKey {
    /// The part.
    pub component: Component,
    kind: u8,
    id: u64,
    name: Comm,
}

impl Culprit {
    /// What it is told from others by.
    pub fn key(&self) -> CulpritKey {
        CulpritKey { component: self.component, ..self.identity() }
    }

    /// The same, whatever the part.
    pub fn identity(&self) -> CulpritKey {
        let (kind, id) = match self.actor {
            Actor::Task(task) => (0, task.tid.into()),
            Actor::Idle(state) => (1, state.map_or(u64::MAX, u64::from)),
            Actor::Interrupt(InterruptSource::Irq { number, .. }) => (2, number.into()),
            Actor::Interrupt(InterruptSource::Vector(vector)) => (3, vector.into()),
            Actor::Interrupt(InterruptSource::Softirq(vector)) => (4, vector.into()),
            Actor::Cgroup(id) => (5, id.unwrap_or(0)),
            Actor::NoActor => (6, 0),
            Actor::Unknown(why) => (7, why as u64),
        };
        let name = if let Actor::Task(task) = self.actor { task.comm } else { Comm::default() };
        CulpritKey { component: Component::Unexplained, kind, id, name }
    }
}

/// Kernel priorities below this are real-time ones (`MAX_RT_PRIO`, include/linux/sched/prio.h).
const MAX_RT_PRIO: i32 = 100;

/// `SCHED_IDLE` and `SCHED_EXT` (include/uapi/linux/sched.h).
const SCHED_IDLE: u32 = 5;
const SCHED_EXT: u32 = 7;

/// The place of a task's class among the others: the lower, the earlier it runs (`__sched_class_highest` and those that
/// follow it, kernel/sched/sched.h). A task under `SCHED_IDLE` is of the fair class, and yields to all others of it.
fn class(prio: i32, policy: u32) -> u8 {
    match (prio, policy) {
        (..0, _) => 0,
        (..MAX_RT_PRIO, _) => 1,
        (_, SCHED_EXT) => 3,
        (_, SCHED_IDLE) => 4,
        _ => 2,
    }
}

/// Whether a task is of the real-time class.
pub(super) fn is_real_time(prio: i32, policy: u32) -> bool {
    class(prio, policy) == class(0, 1)
}

/// What a task that runs is to one that waits, given kernel priority and policy of either.
pub(super) fn relative_priority((waits_prio, waits_policy): (i32, u32), runner: &RunningTask) -> Component {
    let (waits, runs) = (class(waits_prio, waits_policy), class(runner.prio, runner.policy));
    // Nice values share a CPU out, and keep nobody from it.
    let order = runs.cmp(&waits).then_with(|| {
        if is_real_time(waits_prio, waits_policy) { runner.prio.cmp(&waits_prio) } else { std::cmp::Ordering::Equal }
    });
    match order {
        std::cmp::Ordering::Less => Component::Higher,
        std::cmp::Ordering::Equal => Component::Same,
        std::cmp::Ordering::Greater => Component::Lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(prio: i32, policy: u32) -> RunningTask {
        RunningTask { tid: 1, pid: 1, comm: Comm::default(), prio, policy, cgroup_id: None }
    }

    #[test]
    fn classes_and_real_time_priorities_outrank_and_nice_values_do_not() {
        let (fair, nice, fifo, deadline, idle, ext) = ((120, 0), (139, 0), (49, 1), (-1, 6), (120, 5), (120, 7));
        for (waits, runs, part) in [
            (fair, fair, Component::Same),
            (fair, nice, Component::Same),
            (nice, fair, Component::Same),
            (fair, fifo, Component::Higher),
            (fifo, fair, Component::Lower),
            (fifo, fifo, Component::Same),
            (fifo, (10, 2), Component::Higher),
            (fifo, (60, 2), Component::Lower),
            (fifo, deadline, Component::Higher),
            (deadline, fifo, Component::Lower),
            (fair, idle, Component::Lower),
            (idle, fair, Component::Higher),
            (idle, idle, Component::Same),
            (ext, fair, Component::Higher),
            (fair, ext, Component::Lower),
            // A fair task that holds a lock for a real-time one runs at its priority.
            (fair, (49, 0), Component::Higher),
        ] {
            assert_eq!(relative_priority(waits, &runner(runs.0, runs.1)), part, "{waits:?} {runs:?}");
        }
    }
}
