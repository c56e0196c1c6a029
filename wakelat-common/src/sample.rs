//! The record of one wait, as it travels through the ring buffer.

/// Bytes of a task's name, with its final NUL (`TASK_COMM_LEN`, include/linux/sched.h).
pub const COMM_LEN: usize = 16;

/// The value of [`Sample::delivery_ns`] where `sched_waking` was not seen.
pub const DELIVERY_UNKNOWN: u64 = u64::MAX;

/// The value of [`Sample::prev_cpu`] where it is not known.
pub const CPU_UNKNOWN: u32 = u32::MAX;

/// [`Sample::kind`] of a [`Sample`]; other kinds of record will have other numbers.
pub const KIND_SAMPLE: u8 = 1;

/// One wait that ended: a task was switched in.
///
/// Kernel words throughout: `pid` is the thread, `tgid` the process. All fields are about the task that waited, except
/// where the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    /// What record this is: [`KIND_SAMPLE`].
    pub kind: u8,
    /// The level at which its task was watched ([`crate::share`]): it stands for 2^level waits.
    pub sampling_shift: u8,
    /// A [`crate::Class`], as its number.
    pub class: u8,
    /// 1 where the task was preempted although its state said that it sleeps, or that is not known: see
    /// [`crate::start::PendingWait::preempted_sleeping`].
    pub preempted_sleeping: u8,
    /// Where it runs now.
    pub cpu: u32,
    /// When it was switched in: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long it waited on a run queue: ns.
    pub latency_ns: u64,
    /// `sched_waking` to `sched_wakeup`: ns, or [`DELIVERY_UNKNOWN`].
    pub delivery_ns: u64,
    /// Its cgroup's id in the v2 hierarchy (the inode number of its directory), or 0 where nobody asked.
    pub cgroup_id: u64,
    /// Thread id.
    pub pid: u32,
    /// Process id.
    pub tgid: u32,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    pub prio: i32,
    /// Scheduling policy: `SCHED_*` of include/uapi/linux/sched.h.
    pub policy: u32,
    /// Where it ran before this wait, or [`CPU_UNKNOWN`].
    pub prev_cpu: u32,
    /// The thread that woke it, or 0 (also when an interrupt on an idle CPU did).
    pub waker_pid: u32,
    /// The thread that ran on `cpu` until now; 0 is idle.
    pub prev_pid: u32,
    /// That thread's kernel priority.
    pub prev_prio: i32,
    /// Its name, NUL-terminated.
    pub comm: [u8; COMM_LEN],
    /// The name of `prev_pid`.
    pub prev_comm: [u8; COMM_LEN],
}

impl Sample {
    /// Nothing.
    pub const NONE: Self = Self {
        kind: 0,
        sampling_shift: 0,
        class: 0,
        preempted_sleeping: 0,
        cpu: 0,
        at_ns: 0,
        latency_ns: 0,
        delivery_ns: 0,
        cgroup_id: 0,
        pid: 0,
        tgid: 0,
        prio: 0,
        policy: 0,
        prev_cpu: 0,
        waker_pid: 0,
        prev_pid: 0,
        prev_prio: 0,
        comm: [0; COMM_LEN],
        prev_comm: [0; COMM_LEN],
    };
}

// The layout is a contract with objects built elsewhere: no padding, nothing moves by accident.
const _: () = {
    assert!(size_of::<Sample>() == 104);
    assert!(core::mem::offset_of!(Sample, at_ns) == 8);
    assert!(core::mem::offset_of!(Sample, pid) == 40);
    assert!(core::mem::offset_of!(Sample, comm) == 72);
};
