//! What happens on each CPU, one thing after the other: the records from which user space accounts for a wait.
//!
//! Programs send them where the question is what a wait consists of. A CPU's records come in its own order, and carry the
//! number of those lost so far, so that a missing one is known to be missing.

use crate::{
    sample::{COMM_LEN, Sample},
    start::Leaving,
};

/// What a record is: the number it begins with. They have numbers of their own, beside [`crate::sample::KIND_SAMPLE`].
pub mod kind {
    /// A [`super::Turn`].
    pub const TURN: u8 = 2;
    /// A [`super::Noise`].
    pub const NOISE: u8 = 3;
    /// A [`super::Moved`].
    pub const MOVED: u8 = 4;
    /// A [`super::Woken`].
    pub const WOKEN: u8 = 5;
    /// A [`super::Work`].
    pub const WORK: u8 = 16;
    /// A [`super::Spawn`].
    pub const SPAWN: u8 = 17;
}

/// Bits of the load-time integer that says what is told, so that the verifier removes what is not.
pub mod part {
    /// Every switch; without it, nothing.
    pub const TURNS: u32 = 1;
    /// Interrupts and softirqs.
    pub const NOISE: u32 = 1 << 1;
    /// The clocks of throttling and of stolen time.
    pub const CLOCKS: u32 = 1 << 2;
    /// Moves of all tasks measured, and not only of those that wait.
    pub const ALL_MOVES: u32 = 1 << 3;
    /// Wakeups.
    pub const WAKEUPS: u32 = 1 << 4;
}

/// What a CPU is at, between two of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Here {
    /// When what is under way began, by [`source`]: ns of CLOCK_MONOTONIC, 0 where nothing is. One of each at most: handlers
    /// and the CPU's own interrupts run with interrupts off, and softirqs one after the other.
    pub from_ns: [u64; 3],
    /// Records that found no room so far: of softirqs, which an interrupt may interrupt at any instruction, of what none
    /// does, and of works, which both may. So each is written by one at a time.
    pub lost: [u64; 3],
    /// Switches so far. Wraps.
    pub turns: u32,
    /// One more than the last C-state that was entered; 0 where none was since the last switch.
    pub idle_state: u32,
}

impl Here {
    /// All records that found no room so far.
    #[inline(always)]
    pub const fn lost(&self) -> u64 {
        self.lost[0] + self.lost[1] + self.lost[2]
    }
}

/// [`Sample::class`] in a [`Turn`] with which no wait ended that is to be shown.
pub const NO_WAIT: u8 = u8::MAX;

/// A C-state that is not known.
pub const IDLE_STATE_UNKNOWN: u8 = u8::MAX;

/// Bits of [`Turn::flags`].
pub mod flag {
    /// The CPU that carried the wakeup out was not the waker's: it had been sent an interrupt.
    pub const REMOTE: u8 = 1;
    /// The task's group had used up its quota already when the wait began.
    pub const THROTTLED_AT_START: u8 = 1 << 1;
    /// The filter takes the task that leaves.
    pub const PREV_WANTED: u8 = 1 << 2;
    /// The filter takes the task that comes.
    pub const NEXT_WANTED: u8 = 1 << 3;
    /// Real-time tasks had used up their time on this CPU when it was switched.
    pub const RT_THROTTLED: u8 = 1 << 4;
    /// How long the group was throttled is not known: the kernel does not tell.
    pub const THROTTLING_UNKNOWN: u8 = 1 << 5;
}

/// A CPU went from one task to the next; with that a wait may have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Turn {
    /// `kind` is [`kind::TURN`]; `class` is [`NO_WAIT`] where none ended, and then latency and delivery are zero, what is
    /// known of the two tasks is there all the same.
    pub sample: Sample,
    /// This CPU's records that found no room so far. Not a number of its own for each record: an interrupt may come
    /// between taking one and taking a place in the ring buffer.
    pub lost: u32,
    /// On whose run queue the wait began: a CPU, or [`crate::sample::CPU_UNKNOWN`].
    pub wait_cpu: u32,
    /// Where the waker ran, or [`crate::sample::CPU_UNKNOWN`].
    pub waker_cpu: u32,
    /// What becomes of the task that leaves: [`leaving_number`].
    pub leaving: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The last C-state that the CPU entered, where it comes from idle; or [`IDLE_STATE_UNKNOWN`].
    pub idle_state: u8,
    /// How often the task was moved to another CPU while it waited; 255 is that or more.
    pub moves: u8,
    /// The process of the task that leaves.
    pub prev_tgid: u32,
    /// Its policy.
    pub prev_policy: u32,
    /// Its cgroup, as [`Sample::cgroup_id`].
    pub prev_cgroup_id: u64,
    /// How much of the wait the task's group was out of quota: ns.
    pub throttled_ns: u64,
    /// How much of the wait the hypervisor kept the CPU, as far as the kernel knows: ns.
    pub stolen_ns: u64,
}

/// An interrupt or softirq has come to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Noise {
    /// [`kind::NOISE`].
    pub kind: u8,
    /// Of [`source`].
    pub source: u8,
    /// Zero.
    pub reserved: u16,
    /// Where.
    pub cpu: u32,
    /// As [`Turn::lost`].
    pub lost: u32,
    /// The interrupt's number, the softirq's vector, or of [`vector`].
    pub number: u32,
    /// When it began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ended. What interrupted it meanwhile has a record of its own, which came before.
    pub to_ns: u64,
    /// The device's name, NUL-terminated or cut; otherwise zeros.
    pub name: [u8; COMM_LEN],
}

/// [`Noise::source`].
pub mod source {
    /// The handler of a device's interrupt.
    pub const IRQ: u8 = 0;
    /// An interrupt of the CPU's own: a [`super::vector`].
    pub const VECTOR: u8 = 1;
    /// A softirq.
    pub const SOFTIRQ: u8 = 2;
}

/// Interrupts of the CPU's own (include/asm/trace/irq_vectors.h on x86).
pub mod vector {
    /// `local_timer`.
    pub const LOCAL_TIMER: u32 = 0;
    /// `reschedule`.
    pub const RESCHEDULE: u32 = 1;
    /// `call_function`.
    pub const CALL_FUNCTION: u32 = 2;
    /// `call_function_single`.
    pub const CALL_FUNCTION_SINGLE: u32 = 3;
    /// `irq_work`.
    pub const IRQ_WORK: u32 = 4;
}

/// A task was moved to another CPU (`sched_migrate_task`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Moved {
    /// [`kind::MOVED`].
    pub kind: u8,
    /// 1 where it waited.
    pub waits: u8,
    /// Zero.
    pub reserved: u16,
    /// Where the event fired.
    pub cpu: u32,
    /// As [`Turn::lost`].
    pub lost: u32,
    /// The thread.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The CPU whose run queue it leaves.
    pub from_cpu: u32,
    /// The one it goes to.
    pub to_cpu: u32,
    /// Its name.
    pub comm: [u8; COMM_LEN],
}

/// A task was woken (`sched_wakeup`, `sched_wakeup_new`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Woken {
    /// [`kind::WOKEN`].
    pub kind: u8,
    /// A [`crate::Class`], as its number.
    pub class: u8,
    /// 1 where it ran already.
    pub running: u8,
    /// Zero.
    pub reserved: u8,
    /// Where the event fired.
    pub cpu: u32,
    /// As [`Turn::lost`].
    pub lost: u32,
    /// The thread.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The CPU whose run queue it goes to.
    pub target_cpu: u32,
    /// The thread on the CPU where the event fired.
    pub waker_pid: u32,
    /// The name of the task woken.
    pub comm: [u8; COMM_LEN],
}

/// A worker of a workqueue begins or ends a work (`workqueue_execute_start`, `workqueue_execute_end`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Work {
    /// [`kind::WORK`].
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Where.
    pub cpu: u32,
    /// As [`Turn::lost`].
    pub lost: u32,
    /// The worker.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The address of its function; 0 where it ends.
    pub function: u64,
}

/// A task made another, or took another program (`sched_process_fork`, `sched_process_exec`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Spawn {
    /// [`kind::SPAWN`].
    pub kind: u8,
    /// 1 where it took another program.
    pub exec: u8,
    /// Zero.
    pub reserved: u16,
    /// Where.
    pub cpu: u32,
    /// As [`Turn::lost`].
    pub lost: u32,
    /// The task that did.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The task that was made; 0 where none was.
    pub child: u32,
    /// Zero.
    pub reserved2: u32,
    /// The name of the task that did; of one that took another program, the new one.
    pub comm: [u8; COMM_LEN],
}

/// [`Leaving`] as a number.
#[inline(always)]
pub const fn leaving_number(leaving: Leaving) -> u8 {
    match leaving {
        Leaving::Runnable => 0,
        Leaving::RunnableYetWakeable => 1,
        Leaving::Asleep => 2,
        Leaving::Dead => 3,
    }
}

/// The inverse of [`leaving_number`].
pub const fn leaving_of(number: u8) -> Option<Leaving> {
    match number {
        0 => Some(Leaving::Runnable),
        1 => Some(Leaving::RunnableYetWakeable),
        2 => Some(Leaving::Asleep),
        3 => Some(Leaving::Dead),
        _ => None,
    }
}

// The layouts are a contract with objects built elsewhere: no padding, nothing moves by accident.
const _: () = {
    assert!(size_of::<Here>() == 56);
    assert!(size_of::<Turn>() == 152);
    assert!(core::mem::offset_of!(Turn, prev_cgroup_id) == 128);
    assert!(size_of::<Noise>() == 48);
    assert!(size_of::<Moved>() == 48);
    assert!(size_of::<Woken>() == 48);
    assert!(size_of::<Work>() == 32);
    assert!(size_of::<Spawn>() == 48);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_a_task_survives_being_a_number() {
        for leaving in [Leaving::Runnable, Leaving::RunnableYetWakeable, Leaving::Asleep, Leaving::Dead] {
            assert_eq!(leaving_of(leaving_number(leaving)), Some(leaving));
        }
        assert_eq!(leaving_of(4), None);
    }
}
