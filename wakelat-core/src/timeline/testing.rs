//! Streams of events, composed by hand, for the tests of everything that works on events.

use wakelat_common::{Class, pending_wait::PrevState, sample::KernelCounts};

use super::{
    event::{DetailedWait, Event, EventKind, InterruptEvent, InterruptSource, MigrationEvent, SwitchEvent, TaskInfo},
    stack_event::StackEvent,
};
use crate::{
    hash::HashMap,
    wait::{Comm, Wait},
};

/// The idle task.
pub fn idle() -> TaskInfo {
    task(0, "swapper")
}

/// A task of the fair class.
pub fn task(tid: u32, name: &str) -> TaskInfo {
    TaskInfo { tid, pid: tid, comm: Comm::new(name.as_bytes()), prio: 120, policy: 0, cgroup_id: None, wanted: true }
}

/// A task under `SCHED_FIFO`, by its kernel priority.
pub fn fifo(tid: u32, name: &str, prio: i32) -> TaskInfo {
    TaskInfo { prio, policy: 1, ..task(tid, name) }
}

/// An interrupt of a device.
pub fn irq(number: u32, name: &str) -> InterruptSource {
    InterruptSource::Irq { number, name: Comm::new(name.as_bytes()) }
}

/// Events of several CPUs as they happen, each CPU with its own numbers.
#[derive(Default)]
pub struct EventStream {
    /// The events so far.
    pub events: Vec<Event>,
    seqs: HashMap<u32, u32>,
    running: HashMap<u32, TaskInfo>,
}

impl EventStream {
    fn push(&mut self, cpu: u32, kind: EventKind) {
        let seq = self.seqs.entry(cpu).or_default();
        *seq = seq.wrapping_add(1);
        self.events.push(Event { cpu, seq: *seq, kind });
    }

    /// Skips the numbers of this many events of `cpu`, as if they were lost.
    pub fn lose(&mut self, cpu: u32, events: u32) {
        *self.seqs.entry(cpu).or_default() += events;
    }

    /// Adds a switch to `next`. Before its first switch, a CPU is idle.
    pub fn switch(&mut self, cpu: u32, at_ns: u64, next: TaskInfo) -> &mut SwitchEvent {
        let prev = self.running.insert(cpu, next).unwrap_or_else(idle);
        let switch = SwitchEvent {
            at_ns,
            prev,
            unseen: None,
            prev_state: PrevState::Sleeping,
            next,
            ended_wait: None,
            idle_state: None,
            rt_throttled: false,
        };
        self.push(cpu, EventKind::Switch(Box::new(switch)));
        match self.events.last_mut().map(|event| &mut event.kind) {
            Some(EventKind::Switch(switch)) => switch,
            _ => unreachable!(),
        }
    }

    /// Adds a switch to `next` that ends a wait of `next` since `from_ns`.
    pub fn end_wait(&mut self, cpu: u32, (from_ns, at_ns): (u64, u64), next: TaskInfo) -> &mut DetailedWait {
        let prev = self.running.get(&cpu).copied().unwrap_or_else(idle);
        let waited = detailed_wait(cpu, from_ns, at_ns, &next, &prev);
        self.switch(cpu, at_ns, next).ended_wait.insert(waited)
    }

    /// Adds a switch to `next` that preempts a runnable task.
    pub fn preempt(&mut self, cpu: u32, at_ns: u64, next: TaskInfo) {
        self.switch(cpu, at_ns, next).prev_state = PrevState::Runnable;
    }

    /// Adds the end of an interrupt or softirq.
    pub fn interrupt(&mut self, cpu: u32, (from_ns, to_ns): (u64, u64), source: InterruptSource) {
        self.push(cpu, EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns }));
    }

    /// Adds a stack.
    pub fn stack(&mut self, cpu: u32, stack: StackEvent) {
        self.push(cpu, EventKind::Stack(stack));
    }

    /// Adds the migration of a waiting task from CPU `from` to CPU `to`, recorded by `to`.
    pub fn migrate(&mut self, task: TaskInfo, at_ns: u64, from: u32, to: u32) {
        let event = MigrationEvent { at_ns, tid: task.tid, comm: task.comm, waiting: true, from_cpu: from, to_cpu: to };
        self.push(to, EventKind::Migration(event));
    }
}

/// A wait of `next` that began and ended on the run queue of `cpu`.
pub fn detailed_wait(cpu: u32, from_ns: u64, at_ns: u64, next: &TaskInfo, prev: &TaskInfo) -> DetailedWait {
    let wait = Wait {
        class: Class::Wakeup,
        at_ns,
        latency_ns: at_ns - from_ns,
        delivery_ns: None,
        tid: next.tid,
        pid: next.pid,
        comm: next.comm,
        cgroup_id: next.cgroup_id,
        prio: next.prio,
        policy: next.policy,
        cpu,
        prev_cpu: Some(cpu),
        waker_tid: None,
        prev_tid: prev.tid,
        prev_comm: prev.comm,
        prev_prio: prev.prio,
        kernel_counts: KernelCounts::Yes,
        sampling_shift: 0,
    };
    DetailedWait {
        wait,
        cpu: Some(cpu),
        waker_cpu: None,
        remote: false,
        migrations: 0,
        throttled_ns: Some(0),
        throttled_at_start: false,
        stolen_ns: 0,
    }
}
