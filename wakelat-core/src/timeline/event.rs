//! One event on a CPU, as user space sees it.

use serde::{Deserialize, Serialize};
use wakelat_common::pending_wait::PrevState;

use super::stack_event::StackEvent;
use crate::wait::{Comm, Wait};

/// One event, with its number in the sequence of its CPU's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The CPU that sent the record.
    pub cpu: u32,
    /// Number of events of that CPU so far, including lost ones: a step of more than one is a loss. Wraps.
    pub seq: u32,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// Returns how many events of the CPU are missing between the previous one, whose number was `last`, and this
    /// one, and sets `last` to the number of this one. A number that does not increase is taken as the next one.
    pub fn lost_since(&self, last: &mut u32) -> u32 {
        let missing = self.seq.wrapping_sub(*last).wrapping_sub(1) as i32;
        *last = last.wrapping_add(1).wrapping_add(missing.max(0) as u32);
        missing.max(0) as u32
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The CPU switched from one task to another.
    Switch(Box<SwitchEvent>),
    /// An interrupt or softirq ended on this CPU.
    Interrupt(InterruptEvent),
    /// A task migrated from one CPU to another.
    Migration(MigrationEvent),
    /// A task was woken.
    Wakeup(WakeupEvent),
    /// A workqueue worker began or finished a work item.
    WorkItem(WorkItemEvent),
    /// A task forked, or executed another program.
    ForkExec(ForkExecEvent),
    /// The stacks of a task that woke another one, or that was about to leave its CPU.
    Stack(StackEvent),
}

impl EventKind {
    /// When the event happened: ns of CLOCK_MONOTONIC; for an interrupt, when it ended.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Switch(switch) => switch.at_ns,
            Self::Interrupt(interrupt) => interrupt.to_ns,
            Self::Migration(migration) => migration.at_ns,
            Self::Wakeup(wakeup) => wakeup.at_ns,
            Self::WorkItem(work_item) => work_item.at_ns,
            Self::ForkExec(fork_exec) => fork_exec.at_ns,
            Self::Stack(stack) => stack.at_ns,
        }
    }
}

/// A task forked, or executed another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkExecEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread that forked or executed a program.
    pub tid: u32,
    /// Its name; after an exec, the new name.
    pub comm: Comm,
    /// The new thread of a fork; `None` for an exec.
    pub child: Option<u32>,
}

/// A workqueue worker began or finished a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItemEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The worker.
    pub tid: u32,
    /// Address of the function of the work item that begins; `None` if one ends.
    pub function: Option<u64>,
}

/// A task at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Thread id; 0 is idle.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Name.
    pub comm: Comm,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    pub prio: i32,
    /// `SCHED_*` number.
    pub policy: u32,
    /// ID in the cgroup v2 hierarchy, if requested.
    pub cgroup_id: Option<u64>,
    /// Whether the filter accepts the task. Unless the programs test every task, this is known only of a preempted
    /// one.
    pub wanted: bool,
}

/// A CPU switched from one task to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The outgoing task.
    pub prev: TaskInfo,
    /// Unseen switches of this CPU since the last one that was seen. `None` if the kernel's count shows that none is
    /// missing, or if that count is unknown and `prev` is the task last switched in.
    pub unseen: Option<Unseen>,
    /// What becomes of `prev`.
    pub prev_state: PrevState,
    /// The incoming task.
    pub next: TaskInfo,
    /// The wait of `next` that ends here, if there is one to report.
    pub ended_wait: Option<DetailedWait>,
    /// The last C-state that the CPU entered, if it leaves idle and the kernel reported the state.
    pub idle_state: Option<u8>,
    /// Real-time tasks had used up their time on this CPU.
    pub rt_throttled: bool,
}

/// What is known of switches that no tracepoint showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// How many there were since the last switch that was seen; `None` if the kernel's count is unknown.
    pub switches: Option<u32>,
    /// When the outgoing task was switched in, by the kernel's own record: ns of CLOCK_MONOTONIC. `None` if unknown.
    pub switched_in_ns: Option<u64>,
}

/// A wait, with what the BPF programs know of its course.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailedWait {
    /// The wait. Whether its latency includes delivery depends on the run's `--from`.
    pub wait: Wait,
    /// The CPU on whose run queue the wait began.
    pub cpu: Option<u32>,
    /// The CPU on which the waker ran.
    pub waker_cpu: Option<u32>,
    /// The target CPU enqueued the task itself, after an interrupt from the waker's CPU.
    pub remote: bool,
    /// How often the task migrated while it waited; 255 means 255 or more.
    pub migrations: u8,
    /// How long the task's group was out of quota during the wait: ns. `None` if the kernel does not report it.
    pub throttled_ns: Option<u64>,
    /// The group was out of quota when the wait began.
    pub throttled_at_start: bool,
    /// How long the hypervisor had the CPU during the wait, as far as the kernel knows: ns.
    pub stolen_ns: u64,
}

/// An interrupt or softirq, gross: what interrupted it is included and has an event of its own, before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptEvent {
    /// What it was.
    pub source: InterruptSource,
    /// When it began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ended: ns of CLOCK_MONOTONIC.
    pub to_ns: u64,
}

/// An interrupt or softirq, which takes a CPU from its task without a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InterruptSource {
    /// The handler of a device's interrupt.
    Irq {
        /// The interrupt's number.
        number: u32,
        /// The first 15 bytes of the device's name.
        name: Comm,
    },
    /// One of the CPU's own interrupts: a number of [`wakelat_common::timeline::vector`].
    Vector(u32),
    /// A softirq, by vector.
    Softirq(u32),
}

/// A task migrated to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Whether the task was waiting for a CPU.
    pub waiting: bool,
    /// The CPU whose run queue it leaves.
    pub from_cpu: u32,
    /// The CPU whose run queue it goes to.
    pub to_cpu: u32,
}

/// A task was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeupEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Whether the task is new: it has never run.
    pub new: bool,
    /// Whether the task was already running: then no wait begins.
    pub running: bool,
    /// The CPU whose run queue it goes to.
    pub target_cpu: u32,
    /// The thread that was on the CPU where the event fired; 0 is idle.
    pub waker_tid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(seqs: &[u32]) -> Vec<u32> {
        let kind = || EventKind::WorkItem(WorkItemEvent { at_ns: 1, tid: 1, function: None });
        let mut last = seqs[0].wrapping_sub(1);
        seqs.iter().map(|seq| Event { cpu: 0, seq: *seq, kind: kind() }.lost_since(&mut last)).collect()
    }

    #[test]
    fn a_repeated_sequence_number_is_no_loss() {
        assert_eq!(missing(&[7, 9, 9, 11]), [0, 1, 0, 0]);
        assert_eq!(missing(&[7, 10, 9, 12]), [0, 2, 0, 0]);
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        assert_eq!(missing(&[u32::MAX - 1, u32::MAX, 1]), [0, 0, 1]);
    }
}
