//! Timeline records: what happens on each CPU, in order; user space explains waits by them.
//!
//! The programs send them only if a timeline is requested. Each CPU's records come in the order in which
//! it sent them, and carry the number of records lost so far, so that a missing record is noticed.

use crate::{pending_wait::PrevState, sample::COMM_LEN};

/// The first byte of a record: its kind. Distinct from [`crate::sample::KIND_SAMPLE`].
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

/// Bits of the load-time integer that says what is recorded, so that the verifier removes all other code.
pub mod feature {
    /// Every switch. Without it, no timeline record is sent.
    pub const SWITCHES: u32 = 1;
    /// Interrupts and softirqs.
    pub const INTERRUPTS: u32 = 1 << 1;
    /// The clocks of throttled and stolen time.
    pub const CLOCKS: u32 = 1 << 2;
    /// Migrations of all measured tasks, not only of those that wait.
    pub const ALL_MIGRATIONS: u32 = 1 << 3;
    /// Wakeups.
    pub const WAKEUPS: u32 = 1 << 4;
    /// The result of the filter for both tasks of every switch, not only for preempted ones.
    pub const FILTER_RESULTS: u32 = 1 << 5;
    /// The run queue's own clock measures the waits: no program keeps where they began.
    pub const QUEUE_CLOCK: u32 = 1 << 6;
}

/// [`SwitchRecord::class`] of a switch that ended no wait, or none to be reported.
pub const NO_WAIT: u8 = u8::MAX;

/// The number of unseen switches is not known.
pub const UNSEEN_UNKNOWN: u32 = u32::MAX;

/// The C-state is not known.
pub const IDLE_STATE_UNKNOWN: u8 = u8::MAX;

/// Bits of [`SwitchRecord::flags`].
pub mod flag {
    /// The wakeup was carried out on a CPU other than the waker's, which had been sent an interrupt.
    pub const REMOTE: u8 = 1;
    /// The task's group had already used up its quota when the wait began.
    pub const THROTTLED_AT_START: u8 = 1 << 1;
    /// The filter accepts `prev`. Only set if `prev` is preempted or with [`super::feature::FILTER_RESULTS`].
    pub const PREV_WANTED: u8 = 1 << 2;
    /// The filter accepts `next`. Only set with [`super::feature::FILTER_RESULTS`].
    pub const NEXT_WANTED: u8 = 1 << 3;
    /// Real-time tasks had used up their time on this CPU at the switch.
    pub const RT_THROTTLED: u8 = 1 << 4;
    /// The kernel does not report for how long the group was throttled.
    pub const THROTTLING_UNKNOWN: u8 = 1 << 5;
    /// [`super::SwitchRecord::stolen_ns`] is the CPU's total since boot, whether a wait ended or not.
    pub const STOLEN_TOTAL: u8 = 1 << 6;
}

/// A CPU switched tasks (`sched_switch`), which may have ended a wait. `prev` is the task that the CPU's
/// last switch record switched in, unchanged since then; otherwise the record is a [`SwitchRecordFull`].
///
/// Fields of the wait are the same as in a [`crate::Sample`]. With the ring buffer's own header it fills
/// two cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct SwitchRecord {
    /// [`kind::SWITCH`] or [`kind::SWITCH_FULL`].
    pub kind: u8,
    /// Sampling shift of the wait.
    pub sampling_shift: u8,
    /// Class of the wait; [`NO_WAIT`] if none ended, and then all fields of the wait are meaningless.
    pub class: u8,
    /// Of the wait: 1 if it began in a sleeping state, or if that is not known.
    pub preempted_sleeping: u8,
    /// The CPU that switched.
    pub cpu: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Records of this CPU lost so far. Records are not numbered instead, because an interrupt may come
    /// between taking a number and reserving room in the ring buffer.
    pub lost: u32,
    /// What becomes of `prev`: [`prev_state_to_u8`].
    pub prev_state: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The last C-state that the CPU entered, if it comes from idle; otherwise [`IDLE_STATE_UNKNOWN`].
    pub idle_state: u8,
    /// Of the wait: number of migrations; 255 means 255 or more. With [`feature::QUEUE_CLOCK`], 1 if there were any.
    pub migrations: u8,
    /// The thread that is switched out (`prev`).
    pub prev_pid: u32,
    /// The thread that is switched in (`next`).
    pub pid: u32,
    /// The process of `next`.
    pub tgid: u32,
    /// The priority of `next`.
    pub prio: i32,
    /// The policy of `next`.
    pub policy: u32,
    /// Of the wait: the CPU on whose run queue it began, or [`crate::sample::CPU_UNKNOWN`].
    pub wait_cpu: u32,
    /// Of the wait: the CPU of the waker, or [`crate::sample::CPU_UNKNOWN`].
    pub waker_cpu: u32,
    /// Of the wait: the thread that woke the task, or 0.
    pub waker_pid: u32,
    /// Of the wait: the CPU on which the task ran before.
    pub prev_cpu: u32,
    /// Zero.
    pub reserved: u32,
    /// Of the wait: its latency in ns.
    pub latency_ns: u64,
    /// Of the wait: wake delivery in ns, or [`crate::sample::DELIVERY_UNKNOWN`].
    pub delivery_ns: u64,
    /// Of the wait: how long the task's group was throttled meanwhile: ns.
    pub throttled_ns: u64,
    /// Of the wait: how long the hypervisor had the CPU meanwhile, as far as the kernel knows: ns. With
    /// [`flag::STOLEN_TOTAL`], how long it had the CPU in total.
    pub stolen_ns: u64,
    /// The cgroup of `next`.
    pub cgroup_id: u64,
    /// The name of `next`.
    pub comm: [u8; COMM_LEN],
}

/// A switch whose `prev` is not the task that the CPU's last switch record switched in, or has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct SwitchRecordFull {
    /// The switch.
    pub switch: SwitchRecord,
    /// The process of `prev`.
    pub prev_tgid: u32,
    /// The priority of `prev`.
    pub prev_prio: i32,
    /// The policy of `prev`.
    pub prev_policy: u32,
    /// Switches of this CPU since the last seen one that no program saw, or [`UNSEEN_UNKNOWN`].
    pub unseen: u32,
    /// When `prev` was switched in, as recorded by the kernel (`sched_info.last_arrival`): ns of
    /// CLOCK_MONOTONIC, some hundred ns off as the kernel reads its clock before the tracepoint. For
    /// idle, of which the kernel keeps no record: when the CPU first entered a C-state, if the switch to
    /// idle was unseen. 0 if unknown.
    pub switched_in_ns: u64,
    /// The cgroup of `prev`.
    pub prev_cgroup_id: u64,
    /// The name of `prev`.
    pub prev_comm: [u8; COMM_LEN],
}

/// An interrupt or softirq that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct InterruptRecord {
    /// [`kind::INTERRUPT`].
    pub kind: u8,
    /// One of [`source`].
    pub source: u8,
    /// Zero.
    pub reserved: u16,
    /// The CPU that it interrupted.
    pub cpu: u32,
    /// Same as [`SwitchRecord::lost`].
    pub lost: u32,
    /// The number of the interrupt, the vector of the softirq, or one of [`vector`].
    pub number: u32,
    /// When it began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ended: ns of CLOCK_MONOTONIC. What interrupted it has a record of its own, before this one.
    pub to_ns: u64,
    /// The device's name, NUL-terminated or cut; meaningless for other sources.
    pub name: [u8; COMM_LEN],
}

/// [`InterruptRecord::source`].
pub mod source {
    /// The handler of a device's interrupt.
    pub const IRQ: u8 = 0;
    /// One of the CPU's own interrupts: a [`super::vector`].
    pub const VECTOR: u8 = 1;
    /// A softirq.
    pub const SOFTIRQ: u8 = 2;
}

/// The CPU's own interrupts (include/asm/trace/irq_vectors.h on x86).
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

/// A task is about to migrate to another CPU (`sched_migrate_task`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct MigrationRecord {
    /// [`kind::MIGRATION`].
    pub kind: u8,
    /// 1 if the task is waiting.
    pub waiting: u8,
    /// Zero.
    pub reserved: u16,
    /// The CPU on which the event fired.
    pub cpu: u32,
    /// Same as [`SwitchRecord::lost`].
    pub lost: u32,
    /// The thread.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The CPU whose run queue it leaves.
    pub from_cpu: u32,
    /// The CPU to whose run queue it moves.
    pub to_cpu: u32,
    /// The task's name.
    pub comm: [u8; COMM_LEN],
}

/// A task was woken (`sched_wakeup`, `sched_wakeup_new`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct WakeupRecord {
    /// [`kind::WAKEUP`].
    pub kind: u8,
    /// A [`crate::Class`], as its number.
    pub class: u8,
    /// 1 if the task was already running.
    pub running: u8,
    /// Zero.
    pub reserved: u8,
    /// The CPU on which the event fired.
    pub cpu: u32,
    /// Same as [`SwitchRecord::lost`].
    pub lost: u32,
    /// The thread.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The CPU whose run queue it goes to.
    pub target_cpu: u32,
    /// The thread that was current when the event fired.
    pub waker_pid: u32,
    /// The name of the woken task.
    pub comm: [u8; COMM_LEN],
}

/// A workqueue worker begins or ends a work item (`workqueue_execute_start`, `workqueue_execute_end`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct WorkItemRecord {
    /// [`kind::WORK_ITEM`].
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The CPU of the worker.
    pub cpu: u32,
    /// Same as [`SwitchRecord::lost`].
    pub lost: u32,
    /// The worker.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The address of the work item's function; 0 if the work item ends.
    pub function: u64,
}

/// A task created another or changed its program (`sched_process_fork`, `sched_process_exec`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct ForkExecRecord {
    /// [`kind::FORK_EXEC`].
    pub kind: u8,
    /// 1 for exec, 0 for fork.
    pub exec: u8,
    /// Zero.
    pub reserved: u16,
    /// The CPU of the task.
    pub cpu: u32,
    /// Same as [`SwitchRecord::lost`].
    pub lost: u32,
    /// The thread that called fork or exec.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread that was created; 0 for exec.
    pub child: u32,
    /// Zero.
    pub reserved2: u32,
    /// The name of the thread that called fork or exec; after exec, the new one.
    pub comm: [u8; COMM_LEN],
}

/// Encodes [`PrevState`] as a number.
#[inline(always)]
pub const fn prev_state_to_u8(prev_state: PrevState) -> u8 {
    match prev_state {
        PrevState::Runnable => 0,
        PrevState::PreemptedSleeping => 1,
        PrevState::Sleeping => 2,
        PrevState::Dead => 3,
    }
}

/// Decodes the result of [`prev_state_to_u8`]; `None` if it is not one.
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
mod tests;
