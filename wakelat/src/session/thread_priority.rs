//! Sets the scheduling policy of threads, which Rust's standard library does not support.

use std::io;

use libc::sched_attr;

use crate::config::Priority;

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
