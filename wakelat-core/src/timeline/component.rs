//! The components of a wait, and the tasks, interrupts and cgroups that cause them.

use std::hash::{Hash, Hasher};

use super::event::{InterruptSource, TaskInfo};
use crate::wait::Comm;

/// A component of a wait's latency. Each ns of the latency is in exactly one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Delivery: the waker's CPU selected a run queue and enqueued the task.
    Placement,
    /// Delivery: the waker's CPU sent an interrupt to the target CPU, which enqueued the task.
    Ipi,
    /// The CPU ran its idle task: it was leaving idle.
    Idle,
    /// A task of a higher class or priority ran.
    Higher,
    /// A task of the same class ran; if real-time, of the same priority.
    Same,
    /// A task of a lower class or priority ran.
    Lower,
    /// An interrupt ran.
    Irq,
    /// A softirq ran.
    Softirq,
    /// The task's group had used up its CPU quota.
    Throttled,
    /// A real-time task waited because real-time tasks had used up their time on the CPU.
    RtThrottled,
    /// The hypervisor had the CPU.
    Stolen,
    /// The cause is unknown; [`UnknownReason`] is the reason.
    Unexplained,
}

impl Component {
    /// All components, in the order of the documentation.
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

    /// The name of the component on the command line and in JSON.
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

/// The task, interrupt or cgroup that caused a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A task.
    Task(RunningTask),
    /// The idle task, with the last C-state that the CPU entered, if the kernel reported it.
    Idle(Option<u8>),
    /// An interrupt or softirq.
    Interrupt(InterruptSource),
    /// A cgroup, by ID; `None` if its ID is unknown.
    Cgroup(Option<u64>),
    /// Nothing beyond what the component itself says.
    NoActor,
    /// Unknown, for this reason.
    Unknown(UnknownReason),
}

/// A task that ran while another waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// ID in the cgroup v2 hierarchy, if requested.
    pub cgroup_id: Option<u64>,
}

impl From<&TaskInfo> for RunningTask {
    fn from(occupant: &TaskInfo) -> Self {
        let TaskInfo { tid, pid, comm, prio, policy, cgroup_id, wanted: _ } = *occupant;
        Self { tid, pid, comm, prio, policy, cgroup_id }
    }
}

/// Why part of a wait is unexplained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnknownReason {
    /// Records of the CPU were lost.
    Lost,
    /// The CPU switched to another task, and no tracepoint showed it.
    Unseen,
    /// The time is further back than the CPU's history reaches.
    HistoryLimit,
    /// The time is before the first event, or the first switch, seen on the CPU.
    BeforeStart,
    /// The CPU whose run queue held the task is unknown.
    UnknownCpu,
    /// The latency is longer than the clock has run.
    Clock,
}

impl UnknownReason {
    /// All reasons, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Unseen, Self::HistoryLimit, Self::BeforeStart, Self::UnknownCpu, Self::Clock];

    /// The name of the reason in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unseen => "unseen",
            Self::HistoryLimit => "history_limit",
            Self::BeforeStart => "before_start",
            Self::UnknownCpu => "unknown_cpu",
            Self::Clock => "clock",
        }
    }
}

/// The cause of a share of a wait: a component, and who or what caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Culprit {
    /// The component.
    pub component: Component,
    /// The task, interrupt or cgroup that caused it.
    pub actor: Actor,
}

/// The key by which shares of one culprit are added up. A task is identified by its TID and its name, because another
/// task may get the same TID later; an interrupt is identified by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CulpritKey {
    /// The component.
    pub component: Component,
    kind: u8,
    id: u64,
    name: Comm,
}

/// As two numbers: tables look up the key of each share of each wait.
impl Hash for CulpritKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { component, kind, id, name } = *self;
        state.write_u128(u128::from(id) | u128::from(kind) << 64 | (component as u128) << 72);
        name.hash(state);
    }
}

impl Culprit {
    /// The key of the culprit: its component and its actor.
    pub fn key(&self) -> CulpritKey {
        CulpritKey { component: self.component, ..self.identity() }
    }

    /// The key of the actor only: equal for all components that it caused.
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

/// Kernel priorities below this are real-time priorities (`MAX_RT_PRIO`, include/linux/sched/prio.h).
const MAX_RT_PRIO: i32 = 100;

/// `SCHED_IDLE` and `SCHED_EXT` (include/uapi/linux/sched.h).
const SCHED_IDLE: u32 = 5;
const SCHED_EXT: u32 = 7;

/// The rank of a task's scheduling class: the kernel picks from the lowest rank first (`SCHED_DATA`,
/// include/asm-generic/vmlinux.lds.h; `ext` below `fair` since 6.12). A task under `SCHED_IDLE` is in the fair class, and
/// yields to all others in it.
fn class(prio: i32, policy: u32) -> u8 {
    match (prio, policy) {
        (..0, _) => 0,
        (..MAX_RT_PRIO, _) => 1,
        (_, SCHED_IDLE) => 3,
        (_, SCHED_EXT) => 4,
        _ => 2,
    }
}

/// Whether a task is of the real-time class.
pub(super) fn is_real_time(prio: i32, policy: u32) -> bool {
    class(prio, policy) == class(0, 1)
}

/// The component of a wait in which `runner` ran, given the kernel priority and policy of the task that waited.
pub(super) fn relative_priority((waits_prio, waits_policy): (i32, u32), runner: &RunningTask) -> Component {
    let (waits, runs) = (class(waits_prio, waits_policy), class(runner.prio, runner.policy));
    // Nice values do not matter: they divide a CPU's time and exclude no task from it.
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
        for (waits, runs, component) in [
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
            (ext, idle, Component::Higher),
            (idle, ext, Component::Lower),
            // A fair task that holds a lock wanted by a real-time task runs at that task's priority.
            (fair, (49, 0), Component::Higher),
        ] {
            assert_eq!(relative_priority(waits, &runner(runs.0, runs.1)), component, "{waits:?} {runs:?}");
        }
    }
}
