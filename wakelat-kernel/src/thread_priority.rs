//! Sets the scheduling policy of threads, which Rust's standard library does not support.

use std::io;

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
    let none = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: 0,
        flags,
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
    // SAFETY: the pointer is to local attributes, whose `size` field contains their size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_started_does_not_take_the_priority_over() {
        if let Err(error) = set_own_priority(Priority::Fifo(1)) {
            println!("SKIP what_is_started_does_not_take_the_priority_over: no real-time priority: {error}");
            return;
        }
        // The policy is the 41st field (proc_pid_stat(5)), the 39th after the name.
        let policy = |stat: &str| stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().parse();
        let own = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        assert_eq!(policy(&own), Ok(libc::SCHED_FIFO));
        let started = Command::new("cat").arg("/proc/self/stat").output().unwrap();
        assert_eq!(policy(&String::from_utf8(started.stdout).unwrap()), Ok(libc::SCHED_OTHER));
    }
}
