//! The record of one wait, as it is passed through the ring buffer.

/// Size of a task's name in bytes, with its final NUL (`TASK_COMM_LEN`, include/linux/sched.h).
pub const COMM_LEN: usize = 16;

/// The value of [`Sample::delivery_ns`] if `sched_waking` was not seen.
pub const DELIVERY_UNKNOWN: u64 = u64::MAX;

/// The value of [`Sample::prev_cpu`] if it is not known.
pub const CPU_UNKNOWN: u32 = u32::MAX;

/// The [`Sample::kind`] of every [`Sample`]; records of other kinds have other numbers.
pub const KIND_SAMPLE: u8 = 1;

/// Whether the kernel's counters of a task (`/proc/TID/schedstat`) have a wait.
///
/// A task that is preempted in a sleeping state waits like any other, but the kernel looks only at that state
/// (`sched_info_depart()`, kernel/sched/stats.h, 5.10 to 7.2): it has no start for the wait, unless the task
/// migrates to another run queue meanwhile. From 5.14 on, the kernel does not count a wait without a start
/// (`sched_info_arrive()`).
///
/// Recordings have only whether it is not [`Yes`](Self::Yes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(serde::Serialize, serde::Deserialize), serde(from = "bool", into = "bool"))]
#[repr(u8)]
pub enum KernelCounts {
    /// They have it.
    #[default]
    Yes = 0,
    /// They do not: the kernel had no start for the wait when it ended (`sched_info.last_queued` was 0).
    No = 1,
    /// The task was preempted in a sleeping state, or may have been, and whether the kernel has a start was not read.
    Unknown = 2,
}

impl KernelCounts {
    /// Converts the byte in a record; `None` if it is none of these.
    #[inline(always)]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Yes),
            1 => Some(Self::No),
            2 => Some(Self::Unknown),
            _ => None,
        }
    }

    /// What is known of a wait if only the task's state at its preemption is.
    pub const fn of_preempted_sleeping(preempted_sleeping: bool) -> Self {
        if preempted_sleeping { Self::Unknown } else { Self::Yes }
    }

    /// Whether the counters may lack the wait: the task was preempted in a sleeping state, or may have been.
    pub const fn may_lack(self) -> bool {
        !matches!(self, Self::Yes)
    }
}

#[cfg(feature = "user")]
impl From<bool> for KernelCounts {
    fn from(preempted_sleeping: bool) -> Self {
        Self::of_preempted_sleeping(preempted_sleeping)
    }
}

#[cfg(feature = "user")]
impl From<KernelCounts> for bool {
    fn from(counts: KernelCounts) -> Self {
        counts.may_lack()
    }
}

/// One wait, which ended when its task was switched in.
///
/// Names are those of the kernel: `pid` is the thread, `tgid` the process. All fields are about the task
/// that waited, unless their names say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct Sample {
    /// The kind of this record: [`KIND_SAMPLE`].
    pub kind: u8,
    /// The sampling shift of the wait ([`crate::task_sampling`]): it counts for 2^shift waits.
    pub sampling_shift: u8,
    /// A [`crate::Class`] as a number.
    pub class: u8,
    /// A [`KernelCounts`] as a number.
    pub kernel_counts: u8,
    /// The CPU on which it runs now.
    pub cpu: u32,
    /// When it was switched in: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long it waited on a run queue: ns.
    pub latency_ns: u64,
    /// Wake delivery, from `sched_waking` to `sched_wakeup`: ns, or [`DELIVERY_UNKNOWN`].
    pub delivery_ns: u64,
    /// ID of its cgroup in the v2 hierarchy (the inode number of the cgroup's directory); 0 if not
    /// requested.
    pub cgroup_id: u64,
    /// Thread ID.
    pub pid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    pub prio: i32,
    /// Scheduling policy: `SCHED_*` of include/uapi/linux/sched.h.
    pub policy: u32,
    /// The CPU on which it ran before this wait, or [`CPU_UNKNOWN`].
    pub prev_cpu: u32,
    /// The thread that woke it; 0 if none did or it is not known, or if an interrupt on an idle CPU woke it.
    pub waker_pid: u32,
    /// The thread that was running on `cpu` until now; 0 is the idle task.
    pub prev_pid: u32,
    /// The kernel priority of `prev_pid`.
    pub prev_prio: i32,
    /// The task's name, NUL-terminated.
    pub comm: [u8; COMM_LEN],
    /// The name of `prev_pid`.
    pub prev_comm: [u8; COMM_LEN],
}

impl Sample {
    /// An empty record.
    pub const NONE: Self = Self {
        kind: 0,
        sampling_shift: 0,
        class: 0,
        kernel_counts: 0,
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
