//! The kernel's thread that ends RCU grace periods. It has an ordinary priority (`rcutree.kthread_prio`), so that it waits
//! for a CPU like any other task, and whoever waits for a grace period waits as long.

use std::{fs, io, time::Duration};

use crate::clock::now_ns;

/// Another priority of that thread; dropping it, also in a panic, restores the ordinary one.
pub struct GracePeriodThread {
    tid: i32,
}

impl GracePeriodThread {
    /// Gives it a real-time priority, as `rcutree.kthread_prio=1` does: grace periods end soon under any load of ordinary
    /// tasks.
    pub fn real_time() -> Self {
        Self::with(libc::SCHED_FIFO, 1)
    }

    /// Lets it run only when a CPU has nothing else to do, or hardly: grace periods are slow under load.
    pub fn idle() -> Self {
        Self::with(libc::SCHED_IDLE, 0)
    }

    fn with(policy: i32, priority: i32) -> Self {
        let threads = fs::read_dir("/proc").expect("procfs").flatten().filter_map(|entry| {
            let tid = entry.file_name().to_str()?.parse().ok()?;
            let comm = fs::read_to_string(entry.path().join("comm")).ok()?;
            // By preemption model: `rcu_state.name` in kernel/rcu/tree.c.
            matches!(comm.trim(), "rcu_preempt" | "rcu_sched").then_some(tid)
        });
        let tid = threads.min().expect("a thread for grace periods");
        set_policy(tid, policy, priority).unwrap_or_else(|error| panic!("policy of thread {tid}: {error}"));
        Self { tid }
    }
}

impl Drop for GracePeriodThread {
    fn drop(&mut self) {
        if let Err(error) = set_policy(self.tid, libc::SCHED_OTHER, 0) {
            eprintln!("could not restore the policy of thread {}: {error}", self.tid);
        }
    }
}

fn set_policy(tid: i32, policy: i32, sched_priority: i32) -> io::Result<()> {
    // SAFETY: the structure is valid for the call and is only read.
    let result = unsafe { libc::sched_setscheduler(tid, policy, &libc::sched_param { sched_priority }) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for a grace period. Returns how long it took.
pub fn grace_period() -> Duration {
    let began_ns = now_ns();
    // SAFETY: three numbers. MEMBARRIER_CMD_GLOBAL is `synchronize_rcu()` (kernel/sched/membarrier.c).
    let result = unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) };
    assert_eq!(result, 0, "membarrier: {}", io::Error::last_os_error());
    Duration::from_nanos(now_ns() - began_ns)
}
