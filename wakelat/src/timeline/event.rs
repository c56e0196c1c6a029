//! One thing that happened on a CPU, in user words.

use serde::{Deserialize, Serialize};
use wakelat_common::start::PrevState;

use super::stack::StackEvent;
use crate::wait::{Comm, Wait};

/// One event, and its place in the order of its CPU's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The CPU that told of it.
    pub cpu: u32,
    /// That CPU's events so far, lost ones included: a step of more than one is a loss. Wraps.
    pub seq: u32,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// How many events of its CPU are missing between the one before, whose number was `last`, and this one. `last` becomes the
    /// number of this one; one that does not go on counts as the next.
    pub fn lost_since(&self, last: &mut u32) -> u32 {
        let missing = self.seq.wrapping_sub(*last).wrapping_sub(1) as i32;
        *last = last.wrapping_add(1).wrapping_add(missing.max(0) as u32);
        missing.max(0) as u32
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The CPU went from one task to the next.
    Switch(Box<SwitchEvent>),
    /// An interrupt or softirq came to its end on this CPU.
    Interrupt(InterruptEvent),
    /// A task was moved from one CPU to another.
    Migration(MigrationEvent),
    /// A task was woken.
    Wakeup(WakeupEvent),
    /// A worker of a workqueue began or ended a work.
    WorkItem(WorkItemEvent),
    /// A task made another, or took another program.
    ForkExec(ForkExecEvent),
    /// A task woke another or was about to leave its CPU, and where it was in its code.
    Stack(StackEvent),
}

impl EventKind {
    /// When it was: ns of CLOCK_MONOTONIC. An interrupt is when it ended.
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

/// A task made another, or took another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkExecEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread that did.
    pub tid: u32,
    /// Its name; of one that took another program, the new one.
    pub comm: Comm,
    /// The thread that it made; none where it took another program.
    pub child: Option<u32>,
}

/// A worker of a workqueue began or ended a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItemEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The worker.
    pub tid: u32,
    /// The address of the function of the work that begins; none where one ends.
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
    /// Id in the v2 hierarchy, where asked for.
    pub cgroup_id: Option<u64>,
    /// The filter takes it. Where not each is asked about, known of a preempted one alone.
    pub wanted: bool,
}

/// A CPU went from one task to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Who leaves.
    pub prev: TaskInfo,
    /// What nobody saw of this CPU's switches before; none where the kernel says that nothing is missing, or nobody can tell and
    /// `prev` is who had come.
    pub unseen: Option<Unseen>,
    /// What becomes of it.
    pub prev_state: PrevState,
    /// Who comes.
    pub next: TaskInfo,
    /// The wait that ends with that, where one does that is to be shown.
    pub ended_wait: Option<DetailedWait>,
    /// The last C-state that the CPU entered, where it comes from idle and the kernel said so.
    pub idle_state: Option<u8>,
    /// Real-time tasks had used up their time on this CPU.
    pub rt_throttled: bool,
}

/// What is known of switches that the tracepoint did not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// How many there were since the last one that it showed.
    pub switches: Option<u32>,
    /// When the task that leaves had come, by the kernel's own account: ns of CLOCK_MONOTONIC.
    pub switched_in_ns: Option<u64>,
}

/// A wait, and what the kernel side knows of its course.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailedWait {
    /// The wait. Its latency may include the delivery: see the run's `--from`.
    pub wait: Wait,
    /// The run queue on which it began.
    pub cpu: Option<u32>,
    /// Where the waker ran.
    pub waker_cpu: Option<u32>,
    /// The wakeup was carried out by the CPU it was for, called by an interrupt from the waker's.
    pub remote: bool,
    /// How often it was moved to another CPU while it waited; 255 is that or more.
    pub migrations: u8,
    /// How much of it the task's group was out of quota: ns. None where the kernel does not tell.
    pub throttled_ns: Option<u64>,
    /// It was out of quota when the wait began.
    pub throttled_at_start: bool,
    /// How much of it the hypervisor kept the CPU, as far as the kernel knows: ns.
    pub stolen_ns: u64,
}

/// An interrupt or softirq, gross: what interrupted it has an event of its own, before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptEvent {
    /// What it was.
    pub source: InterruptSource,
    /// When it began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
}

/// What took a CPU from its task without a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InterruptSource {
    /// The handler of a device's interrupt.
    Irq {
        /// The interrupt's number.
        number: u32,
        /// The device's name, at most 15 bytes of it.
        name: Comm,
    },
    /// An interrupt of the CPU's own: a number of [`wakelat_common::timeline::vector`].
    Vector(u32),
    /// A softirq, by its vector.
    Softirq(u32),
}

/// A task was moved to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationEvent {
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// It waited for a CPU.
    pub waiting: bool,
    /// The CPU whose run queue it leaves.
    pub from_cpu: u32,
    /// The one it goes to.
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
    /// It had never run before.
    pub new: bool,
    /// It ran already: nothing waits.
    pub running: bool,
    /// The run queue it goes to.
    pub target_cpu: u32,
    /// The thread on the CPU where this happened; 0 is idle.
    pub waker_tid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(seqs: &[u32]) -> Vec<u32> {
        let what = || EventKind::WorkItem(WorkItemEvent { at_ns: 1, tid: 1, function: None });
        let mut last = seqs[0].wrapping_sub(1);
        seqs.iter().map(|seq| Event { cpu: 0, seq: *seq, kind: what() }.lost_since(&mut last)).collect()
    }

    #[test]
    fn a_number_that_comes_twice_is_no_loss() {
        assert_eq!(missing(&[7, 9, 9, 11]), [0, 1, 0, 0]);
        assert_eq!(missing(&[7, 10, 9, 12]), [0, 2, 0, 0]);
    }

    #[test]
    fn numbers_go_on_behind_the_largest() {
        assert_eq!(missing(&[u32::MAX - 1, u32::MAX, 1]), [0, 0, 1]);
    }
}
