//! How threads are scheduled, where Rust's library has no word for it.

use std::io;

use crate::config::Priority;

/// `struct sched_attr` in its first form (48 bytes; include/uapi/linux/sched/types.h, 3.14).
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Schedules the thread `tid`, 0 being the caller, with this priority.
///
/// # Errors
/// Where there is no such thread, or the kernel refuses.
pub fn set_priority(tid: u32, priority: Priority) -> io::Result<()> {
    let none = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: 0,
        deadline_ns: 0,
        period_ns: 0,
    };
    let of = |policy: libc::c_int, attributes| Attributes { policy: policy.cast_unsigned(), ..attributes };
    let attributes = match priority {
        Priority::Other(nice) => of(libc::SCHED_OTHER, Attributes { nice: nice.into(), ..none }),
        Priority::RoundRobin(priority) => of(libc::SCHED_RR, Attributes { priority: priority.into(), ..none }),
        Priority::Fifo(priority) => of(libc::SCHED_FIFO, Attributes { priority: priority.into(), ..none }),
        Priority::Deadline { runtime_ns, period_ns } => {
            of(libc::SCHED_DEADLINE, Attributes { runtime_ns, deadline_ns: period_ns, period_ns, ..none })
        }
    };
    // SAFETY: the pointer is to attributes of ours, which say their own size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
