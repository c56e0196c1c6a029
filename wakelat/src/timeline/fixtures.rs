//! Drawn streams of events, for the tests of all that is made of them.

use wakelat_common::{Class, start::Leaving};

use super::{
    event::{Event, Moved, Noise, Occupant, Source, Turn, Waited, What},
    stack::Stack,
};
use crate::{
    hash::HashMap,
    wait::{Comm, Wait},
};

/// The idle task.
pub fn idle() -> Occupant {
    task(0, "swapper")
}

/// A task of the fair class.
pub fn task(tid: u32, name: &str) -> Occupant {
    Occupant { tid, pid: tid, comm: Comm::new(name.as_bytes()), prio: 120, policy: 0, cgroup_id: None, wanted: true }
}

/// A task under `SCHED_FIFO`, by its kernel priority.
pub fn fifo(tid: u32, name: &str, prio: i32) -> Occupant {
    Occupant { prio, policy: 1, ..task(tid, name) }
}

/// An interrupt of a device.
pub fn irq(number: u32, name: &str) -> Source {
    Source::Irq { number, name: Comm::new(name.as_bytes()) }
}

/// Events of several CPUs as they happen, each CPU with its own numbers.
#[derive(Default)]
pub struct Stream {
    /// What was drawn.
    pub events: Vec<Event>,
    seqs: HashMap<u32, u32>,
    runs: HashMap<u32, Occupant>,
}

impl Stream {
    fn push(&mut self, cpu: u32, what: What) {
        let seq = self.seqs.entry(cpu).or_default();
        *seq = seq.wrapping_add(1);
        self.events.push(Event { cpu, seq: *seq, what });
    }

    /// `cpu` loses so many events.
    pub fn lose(&mut self, cpu: u32, events: u32) {
        *self.seqs.entry(cpu).or_default() += events;
    }

    /// A switch to `next`; before the first, a CPU is idle.
    pub fn turn(&mut self, cpu: u32, at_ns: u64, next: Occupant) -> &mut Turn {
        let prev = self.runs.insert(cpu, next).unwrap_or_else(idle);
        let leaving = Leaving::Asleep;
        let turn =
            Turn { at_ns, prev, unseen: None, leaving, next, waited: None, idle_state: None, rt_throttled: false };
        self.push(cpu, What::Turn(Box::new(turn)));
        match self.events.last_mut().map(|event| &mut event.what) {
            Some(What::Turn(turn)) => turn,
            _ => unreachable!(),
        }
    }

    /// As [`Stream::turn`], and a wait of `next` ends with it that began at `from_ns`.
    pub fn ends(&mut self, cpu: u32, (from_ns, at_ns): (u64, u64), next: Occupant) -> &mut Waited {
        let prev = self.runs.get(&cpu).copied().unwrap_or_else(idle);
        let waited = waited(cpu, from_ns, at_ns, &next, &prev);
        self.turn(cpu, at_ns, next).waited.insert(waited)
    }

    /// As [`Stream::turn`], and whoever leaves could have gone on.
    pub fn preempts(&mut self, cpu: u32, at_ns: u64, next: Occupant) {
        self.turn(cpu, at_ns, next).leaving = Leaving::Runnable;
    }

    /// An interrupt or softirq has ended.
    pub fn noise(&mut self, cpu: u32, (from_ns, to_ns): (u64, u64), source: Source) {
        self.push(cpu, What::Noise(Noise { source, from_ns, to_ns }));
    }

    /// A stack was taken.
    pub fn stack(&mut self, cpu: u32, stack: Stack) {
        self.push(cpu, What::Stack(stack));
    }

    /// `to` takes a task that waits from `from`, and tells of it.
    pub fn moves(&mut self, task: Occupant, at_ns: u64, from: u32, to: u32) {
        let moved = Moved { at_ns, tid: task.tid, comm: task.comm, waits: true, from_cpu: from, to_cpu: to };
        self.push(to, What::Moved(moved));
    }
}

/// A wait of `next` on the run queue of `cpu` alone.
pub fn waited(cpu: u32, from_ns: u64, at_ns: u64, next: &Occupant, prev: &Occupant) -> Waited {
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
        wakeable: false,
        level: 0,
    };
    Waited {
        wait,
        cpu: Some(cpu),
        waker_cpu: None,
        remote: false,
        moves: 0,
        throttled_ns: Some(0),
        throttled_at_start: false,
        stolen_ns: 0,
    }
}
