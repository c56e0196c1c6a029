//! What happens on each CPU, one thing after the other: the records from which user space accounts for a wait.
//!
//! Programs send them where the question is what a wait consists of. A CPU's records come in its own order, and carry the
//! number of those lost so far, so that a missing one is known to be missing.

use crate::{sample::COMM_LEN, start::PrevState};

/// What a record is: the number it begins with. They have numbers of their own, beside [`crate::sample::KIND_SAMPLE`].
pub mod kind {
    /// A [`super::SwitchRecord`].
    pub const SWITCH: u8 = 2;
    /// A [`super::InterruptRecord`].
    pub const INTERRUPT: u8 = 3;
    /// A [`super::MigrationRecord`].
    pub const MIGRATION: u8 = 4;
    /// A [`super::WakeupRecord`].
    pub const WAKEUP: u8 = 5;
    /// A [`super::SwitchRecordFull`].
    pub const SWITCH_FULL: u8 = 6;
    /// A [`super::WorkItemRecord`].
    pub const WORK_ITEM: u8 = 16;
    /// A [`super::ForkExecRecord`].
    pub const FORK_EXEC: u8 = 17;
    /// A [`crate::stack::StackRecord`].
    pub const STACK: u8 = 18;
}

/// Bits of the load-time integer that says what is told, so that the verifier removes what is not.
pub mod part {
    /// Every switch; without it, nothing.
    pub const SWITCHES: u32 = 1;
    /// Interrupts and softirqs.
    pub const INTERRUPTS: u32 = 1 << 1;
    /// The clocks of throttling and of stolen time.
    pub const CLOCKS: u32 = 1 << 2;
    /// Moves of all tasks measured, and not only of those that wait.
    pub const ALL_MIGRATIONS: u32 = 1 << 3;
    /// Wakeups.
    pub const WAKEUPS: u32 = 1 << 4;
    /// What the filter says of each task at a switch, and not only of those that are preempted.
    pub const FILTER_RESULTS: u32 = 1 << 5;
}

/// What a CPU is at, between two of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuState {
    /// When what is under way began, by [`source`]: ns of CLOCK_MONOTONIC, 0 where nothing is. One of each at most: handlers
    /// and the CPU's own interrupts run with interrupts off, and softirqs one after the other.
    pub from_ns: [u64; 3],
    /// Records that found no room so far. Written by one instruction, as an interrupt may come between any two and lose a
    /// record of its own.
    pub lost: u64,
    /// Switches so far. Wraps.
    pub switches_seen: u32,
    /// One more than the last C-state that was entered; 0 where none was since the last switch.
    pub idle_state: u32,
    /// The kernel's own count of this CPU's switches at the last one that was seen (`rq.nr_switches`, which
    /// `__schedule()`, kernel/sched/core.c, raises before the tracepoint); 0 before the first, or where it cannot be read.
    pub nr_switches: u64,
    /// When the idle task was found running although the last switch was to another: ns of CLOCK_MONOTONIC; 0 where it was not.
    pub idle_since_ns: u64,
    /// Who came by the last switch.
    pub current: CurrentTask,
}

/// A task that came to a CPU, as a record told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CurrentTask {
    /// The thread.
    pub pid: u32,
    /// Its priority.
    pub prio: i32,
    /// Its policy.
    pub policy: u32,
    /// 1 where a record told of it.
    pub is_recorded: u32,
    /// Its cgroup; 0 where that is not asked for.
    pub cgroup_id: u64,
    /// Its name, as two words of the machine's byte order.
    pub comm: [u64; 2],
}

impl CpuState {
    /// Takes note of a switch, of which the kernel says that it is number `switches`. Returns how many before it were not
    /// seen, or [`UNSEEN_UNKNOWN`].
    #[inline(always)]
    pub fn count_unseen(&mut self, switches: u64) -> u32 {
        let before = core::mem::replace(&mut self.nr_switches, switches);
        if before == 0 || switches == 0 {
            return UNSEEN_UNKNOWN;
        }
        let hidden = switches.wrapping_sub(before).wrapping_sub(1);
        if hidden < UNSEEN_UNKNOWN as u64 { hidden as u32 } else { UNSEEN_UNKNOWN }
    }
}

/// [`SwitchRecord::class`] of one with which no wait ended that is to be shown.
pub const NO_WAIT: u8 = u8::MAX;

/// How many switches were not seen is not known.
pub const UNSEEN_UNKNOWN: u32 = u32::MAX;

/// A C-state that is not known.
pub const IDLE_STATE_UNKNOWN: u8 = u8::MAX;

/// Bits of [`SwitchRecord::flags`].
pub mod flag {
    /// The CPU that carried the wakeup out was not the waker's: it had been sent an interrupt.
    pub const REMOTE: u8 = 1;
    /// The task's group had used up its quota already when the wait began.
    pub const THROTTLED_AT_START: u8 = 1 << 1;
    /// The filter takes the task that leaves. Where not all are judged, of a preempted one alone.
    pub const PREV_WANTED: u8 = 1 << 2;
    /// The filter takes the task that comes, where all are judged.
    pub const NEXT_WANTED: u8 = 1 << 3;
    /// Real-time tasks had used up their time on this CPU when it was switched.
    pub const RT_THROTTLED: u8 = 1 << 4;
    /// How long the group was throttled is not known: the kernel does not tell.
    pub const THROTTLING_UNKNOWN: u8 = 1 << 5;
}

/// A CPU went from one task to the next; with that a wait may have ended. The task that leaves is the one that came by the
/// CPU's last record of a switch, and is as it was then: otherwise the record is a [`SwitchRecordFull`].
///
/// Fields of a wait are as those of a [`crate::Sample`] of the same name. It fills two lines of a cache with the ring buffer's
/// own header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SwitchRecord {
    /// [`kind::SWITCH`] or [`kind::SWITCH_FULL`].
    pub kind: u8,
    /// Of the wait.
    pub sampling_shift: u8,
    /// Of the wait; [`NO_WAIT`] where none ended, and then what is of a wait means nothing.
    pub class: u8,
    /// Of the wait.
    pub preempted_sleeping: u8,
    /// Where.
    pub cpu: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// This CPU's records that found no room so far. Not a number of its own for each record: an interrupt may come
    /// between taking one and taking a place in the ring buffer.
    pub lost: u32,
    /// What becomes of the task that leaves: [`prev_state_to_u8`].
    pub prev_state: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The last C-state that the CPU entered, where it comes from idle; or [`IDLE_STATE_UNKNOWN`].
    pub idle_state: u8,
    /// Of the wait: how often the task was moved to another CPU; 255 is that or more.
    pub migrations: u8,
    /// The thread that leaves.
    pub prev_pid: u32,
    /// The thread that comes.
    pub pid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its priority.
    pub prio: i32,
    /// Its policy.
    pub policy: u32,
    /// Of the wait: on whose run queue it began: a CPU, or [`crate::sample::CPU_UNKNOWN`].
    pub wait_cpu: u32,
    /// Of the wait: where the waker ran, or [`crate::sample::CPU_UNKNOWN`].
    pub waker_cpu: u32,
    /// Of the wait.
    pub waker_pid: u32,
    /// Of the wait.
    pub prev_cpu: u32,
    /// Zero.
    pub reserved: u32,
    /// Of the wait: ns.
    pub latency_ns: u64,
    /// Of the wait: ns.
    pub delivery_ns: u64,
    /// Of the wait: how much of it the task's group was out of quota: ns.
    pub throttled_ns: u64,
    /// Of the wait: how much of it the hypervisor kept the CPU, as far as the kernel knows: ns.
    pub stolen_ns: u64,
    /// The cgroup of the task that comes.
    pub cgroup_id: u64,
    /// Its name.
    pub comm: [u8; COMM_LEN],
}

/// The same, where the task that leaves is not the one that came by the last record, or has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SwitchRecordFull {
    /// The switch.
    pub switch: SwitchRecord,
    /// The process of the task that leaves.
    pub prev_tgid: u32,
    /// Its priority.
    pub prev_prio: i32,
    /// Its policy.
    pub prev_policy: u32,
    /// How many switches of this CPU no program has seen since the last one that one did; or [`UNSEEN_UNKNOWN`].
    pub unseen: u32,
    /// When the task that leaves came, by the kernel's own account (`sched_info.last_arrival`): ns of CLOCK_MONOTONIC, some
    /// hundred ns off as the kernel reads its clock before the tracepoint. Of idle, of which it keeps none, when the CPU first
    /// entered a C-state, if that came unseen. 0 where nobody tells.
    pub switched_in_ns: u64,
    /// Its cgroup.
    pub prev_cgroup_id: u64,
    /// Its name.
    pub prev_comm: [u8; COMM_LEN],
}

/// An interrupt or softirq has come to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct InterruptRecord {
    /// [`kind::INTERRUPT`].
    pub kind: u8,
    /// Of [`source`].
    pub source: u8,
    /// Zero.
    pub reserved: u16,
    /// Where.
    pub cpu: u32,
    /// As [`SwitchRecord::lost`].
    pub lost: u32,
    /// The interrupt's number, the softirq's vector, or of [`vector`].
    pub number: u32,
    /// When it began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ended. What interrupted it meanwhile has a record of its own, which came before.
    pub to_ns: u64,
    /// The device's name, NUL-terminated or cut; of another source it means nothing.
    pub name: [u8; COMM_LEN],
}

/// [`InterruptRecord::source`].
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
pub struct MigrationRecord {
    /// [`kind::MIGRATION`].
    pub kind: u8,
    /// 1 where it waited.
    pub waiting: u8,
    /// Zero.
    pub reserved: u16,
    /// Where the event fired.
    pub cpu: u32,
    /// As [`SwitchRecord::lost`].
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
pub struct WakeupRecord {
    /// [`kind::WAKEUP`].
    pub kind: u8,
    /// A [`crate::Class`], as its number.
    pub class: u8,
    /// 1 where it ran already.
    pub running: u8,
    /// Zero.
    pub reserved: u8,
    /// Where the event fired.
    pub cpu: u32,
    /// As [`SwitchRecord::lost`].
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
pub struct WorkItemRecord {
    /// [`kind::WORK_ITEM`].
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Where.
    pub cpu: u32,
    /// As [`SwitchRecord::lost`].
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
pub struct ForkExecRecord {
    /// [`kind::FORK_EXEC`].
    pub kind: u8,
    /// 1 where it took another program.
    pub exec: u8,
    /// Zero.
    pub reserved: u16,
    /// Where.
    pub cpu: u32,
    /// As [`SwitchRecord::lost`].
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

/// [`PrevState`] as a number.
#[inline(always)]
pub const fn prev_state_to_u8(leaving: PrevState) -> u8 {
    match leaving {
        PrevState::Runnable => 0,
        PrevState::PreemptedSleeping => 1,
        PrevState::Sleeping => 2,
        PrevState::Dead => 3,
    }
}

/// The inverse of [`prev_state_to_u8`].
pub const fn prev_state_from_u8(number: u8) -> Option<PrevState> {
    match number {
        0 => Some(PrevState::Runnable),
        1 => Some(PrevState::PreemptedSleeping),
        2 => Some(PrevState::Sleeping),
        3 => Some(PrevState::Dead),
        _ => None,
    }
}

// The layouts are a contract with objects built elsewhere: no padding, nothing moves by accident.
const _: () = {
    assert!(size_of::<CpuState>() == 96);
    assert!(size_of::<SwitchRecord>() == 120);
    assert!(core::mem::offset_of!(SwitchRecord, comm) == 104);
    assert!(size_of::<SwitchRecordFull>() == 168);
    assert!(core::mem::offset_of!(SwitchRecordFull, prev_comm) == 152);
    assert!(size_of::<InterruptRecord>() == 48);
    assert!(size_of::<MigrationRecord>() == 48);
    assert!(size_of::<WakeupRecord>() == 48);
    assert!(size_of::<WorkItemRecord>() == 32);
    assert!(size_of::<ForkExecRecord>() == 48);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_no_program_saw_are_counted_by_the_kernels_own_count() {
        let mut here = CpuState::default();
        let hidden = [7, 8, 10, 11, 0, 12, 5].map(|switches| here.count_unseen(switches));
        assert_eq!(hidden, [UNSEEN_UNKNOWN, 0, 1, 0, UNSEEN_UNKNOWN, UNSEEN_UNKNOWN, UNSEEN_UNKNOWN]);
    }

    #[test]
    fn what_becomes_of_a_task_survives_being_a_number() {
        for leaving in [PrevState::Runnable, PrevState::PreemptedSleeping, PrevState::Sleeping, PrevState::Dead] {
            assert_eq!(prev_state_from_u8(prev_state_to_u8(leaving)), Some(leaving));
        }
        assert_eq!(prev_state_from_u8(4), None);
    }
}
