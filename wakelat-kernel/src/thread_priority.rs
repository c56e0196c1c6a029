//! Sets the scheduling policy of threads, which Rust's standard library does not support.

use std::io;

use libc::sched_attr;

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// SCHED_OTHER, with this nice value.
    Other(i8),
    /// SCHED_RR.
    RoundRobin(u8),
    /// SCHED_FIFO.
    Fifo(u8),
    /// SCHED_DEADLINE; the deadline is the period.
    Deadline {
        /// How long it may run in each period: ns.
        runtime_ns: u64,
        /// The period, which is also the deadline: ns.
        period_ns: u64,
    },
}

impl std::fmt::Display for Priority {
    /// Formats it as rtla and `--priority` accept it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other(nice) => write!(f, "o:{nice}"),
            Self::RoundRobin(priority) => write!(f, "r:{priority}"),
            Self::Fifo(priority) => write!(f, "f:{priority}"),
            Self::Deadline { runtime_ns, period_ns } => write!(f, "d:{runtime_ns}ns:{period_ns}ns"),
        }
    }
}

/// Sets the policy and priority of thread `tid` (0: the calling thread).
///
/// # Errors
/// If there is no such thread, or the kernel refuses.
pub fn set_priority(tid: u32, priority: Priority) -> io::Result<()> {
    set(tid, priority, 0)
}

/// Sets the policy and priority of the calling thread. Its children do not inherit them (sched(7),
/// `SCHED_RESET_ON_FORK`).
pub fn set_own_priority(priority: Priority) -> io::Result<()> {
    set(0, priority, libc::SCHED_FLAG_RESET_ON_FORK as u64)
}

fn set(tid: u32, priority: Priority, flags: u64) -> io::Result<()> {
    let none = sched_attr {
        // The first form of the structure: 48 bytes (include/uapi/linux/sched/types.h, 3.14).
        size: size_of::<sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: flags,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let of = |policy: libc::c_int, attributes| sched_attr { sched_policy: policy.cast_unsigned(), ..attributes };
    let attributes = match priority {
        Priority::Other(nice) => of(libc::SCHED_OTHER, sched_attr { sched_nice: nice.into(), ..none }),
        Priority::RoundRobin(priority) => of(libc::SCHED_RR, sched_attr { sched_priority: priority.into(), ..none }),
        Priority::Fifo(priority) => of(libc::SCHED_FIFO, sched_attr { sched_priority: priority.into(), ..none }),
        Priority::Deadline { runtime_ns, period_ns } => of(
            libc::SCHED_DEADLINE,
            sched_attr { sched_runtime: runtime_ns, sched_deadline: period_ns, sched_period: period_ns, ..none },
        ),
    };
    // SAFETY: the pointer is to local attributes, whose `size` field contains their size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn children_do_not_inherit_the_priority_of_this_thread() {
        // A thread of its own may set the nice value that it already has without any privilege.
        let nice = getpriority_process(Some(rustix::thread::gettid()));
        set_own_priority(Priority::Other(nice.unwrap().try_into().unwrap())).unwrap();
        // SAFETY: the call takes a number.
        let policy = unsafe { libc::sched_getscheduler(0) };
        assert_eq!(policy, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK);
    }
}
