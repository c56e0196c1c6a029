//! Switches and interrupts in few bytes: as what differs from the events before them in the block.
//!
//! An event begins with a byte from [`INTERRUPT`] on, which no frame in postcard's encoding begins with. Both begin with
//! flags, then CPU and number unless [`SAME_CPU`] and [`NEXT_SEQ`] omit them, and the time since the event before
//! ([`EventBytes::difference`](super::byte_cursor::EventBytes::difference)). Then a switch has:
//!
//! - its outgoing task, unless it is the one that the CPU last switched to, and its incoming task: a place in a table of
//!   tasks, and all of the task if it is not in that place already;
//! - if a flag says so, what is [`rare`];
//! - if a wait ended, its course, whose flags say what is not as usual ([`course`]), its latency, and its delivery and waker.
//!
//! An interrupt has its length, its number, and the device's name.
//!
//! A switch whose wait differs from its tasks, and all other events, are in postcard's encoding: any event can be written.

mod read;
#[cfg(test)]
mod tests;
mod write;

use wakelat_common::{Class, pending_wait::PrevState};

use crate::timeline::event::TaskInfo;

/// The lowest first byte of an event: that of an interrupt. Its lowest bits are the kind of the source.
pub(super) const INTERRUPT: u8 = 0x40;
/// The bit that the first byte of a switch has. Its lowest bits are the state of the outgoing task.
const SWITCH: u8 = 0x80;

// The flags of an interrupt, and the same of a switch in its second byte.
/// The event is of the same CPU as the one before.
const SAME_CPU: u8 = 0x10;
/// The number of the event is the next one of its CPU.
const NEXT_SEQ: u8 = 0x20;

// The first byte of a switch.
const WAITED: u8 = 4;
const PREV_IS_CURRENT: u8 = 8;
const NEXT_IS_NEW: u8 = 0x10;
const PREV_WANTED: u8 = 0x20;
const NEXT_WANTED: u8 = 0x40;

// The second byte of a switch, whose lowest bits are the class of the wait.
const DELIVERED: u8 = 4;
const WAKER_IS_PREV: u8 = 8;
const PREV_IS_NEW: u8 = 0x40;
const WITH_RARE: u8 = 0x80;

/// The flags of what few switches have.
mod rare {
    pub const UNSEEN: u8 = 1;
    pub const UNSEEN_SWITCHES: u8 = 2;
    pub const UNSEEN_SINCE: u8 = 4;
    pub const IDLE_STATE: u8 = 8;
    pub const RT_THROTTLED: u8 = 0x10;
}

/// The flags of the course of a wait. Usually a task waits on the CPU on which it ran before and runs next, and on which its
/// waker is, and is throttled for as long as in the wait before: not at all.
mod course {
    pub const REMOTE: u8 = 1;
    pub const THROTTLED_AT_START: u8 = 2;
    pub const PREEMPTED_SLEEPING: u8 = 4;
    pub const OTHER_PREV_CPU: u8 = 8;
    pub const OTHER_CPU: u8 = 0x10;
    pub const OTHER_WAKER_CPU: u8 = 0x20;
    pub const OTHER_THROTTLED: u8 = 0x40;
    /// Migrations, stolen time and sampling.
    pub const MORE: u8 = 0x80;
}

const STATES: [PrevState; 4] =
    [PrevState::Runnable, PrevState::PreemptedSleeping, PrevState::Sleeping, PrevState::Dead];

/// Places for CPUs, and for tasks: powers of two.
const CPUS: usize = 128;
const TASKS: usize = 256;

/// What writer and reader know from the events before in the block.
#[derive(Clone, Debug)]
pub(super) struct EventContext {
    last_cpu: u32,
    last_at_ns: u64,
    throttled_ns: Option<u64>,
    /// The last event of each CPU, by some bits of its number.
    cpus: Vec<CpuContext>,
    /// Tasks, by some bits of their TID; the idle task by some bits of its CPU.
    tasks: Vec<Option<TaskInfo>>,
}

#[derive(Clone, Copy, Debug)]
struct CpuContext {
    cpu: u32,
    seq: u32,
    /// The place of the task that it switched to.
    current: Option<u8>,
}

/// A CPU without an event.
const NO_CPU: CpuContext = CpuContext { cpu: u32::MAX, seq: 0, current: None };

impl Default for EventContext {
    fn default() -> Self {
        Self { last_cpu: 0, last_at_ns: 0, throttled_ns: Some(0), cpus: vec![NO_CPU; CPUS], tasks: vec![None; TASKS] }
    }
}

fn is_same(one: &TaskInfo, other: &TaskInfo) -> bool {
    let of = |task: &TaskInfo| (task.tid, task.pid, task.prio, task.policy, task.cgroup_id);
    of(one) == of(other) && one.comm == other.comm
}

/// The CPU of the waker if nothing else is known.
fn usual_waker_cpu(class: Class, cpu: u32) -> Option<u32> {
    (class == Class::Wakeup).then_some(cpu)
}

impl EventContext {
    /// Forgets all: a block begins.
    pub fn clear(&mut self) {
        (self.last_cpu, self.last_at_ns, self.throttled_ns) = (0, 0, Some(0));
        self.cpus.fill(NO_CPU);
        self.tasks.fill(None);
    }

    /// Takes the number of an event of `cpu`.
    #[inline]
    pub fn pass(&mut self, cpu: u32, seq: u32) {
        let known = self.known(cpu);
        let current = known.current.filter(|_| known.cpu == cpu);
        *known = CpuContext { cpu, seq, current };
    }

    fn known(&mut self, cpu: u32) -> &mut CpuContext {
        &mut self.cpus[cpu as usize % CPUS]
    }

    /// Whether `task` is in this place.
    fn has(&self, place: u8, task: &TaskInfo) -> bool {
        self.tasks[usize::from(place)].as_ref().is_some_and(|known| is_same(known, task))
    }

    /// Puts `task` into this place. Returns whether it was not there.
    fn put(&mut self, place: u8, task: &TaskInfo) -> bool {
        let is_new = !self.has(place, task);
        if is_new {
            self.tasks[usize::from(place)] = Some(*task);
        }
        is_new
    }
}
