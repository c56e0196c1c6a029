//! The kernel's thread that ends RCU grace periods. It has an ordinary priority (`rcutree.kthread_prio`), so it waits for a CPU
//! like any other task, and whatever waits for a grace period waits as long.

use std::{io, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use crate::{clock::now_ns, procfs, task};

/// That thread with another policy or on one CPU; dropping it, also in a panic, restores both.
pub struct GracePeriodThread {
    tid: u32,
    cpus: CpuSet,
}

impl GracePeriodThread {
    /// Gives it a real-time priority, as `rcutree.kthread_prio=1` does: grace periods end soon under any load of ordinary
    /// tasks.
    pub fn real_time() -> Self {
        let thread = Self::find();
        set_policy(thread.tid, libc::SCHED_FIFO, 1).expect("the kernel changes the policy of its threads");
        thread
    }

    /// Lets it run on `cpu` only. If real-time tasks want that CPU all the time, a grace period takes most of a second: the
    /// kernel leaves 5 % of each second to other tasks (`kernel.sched_rt_runtime_us`).
    pub fn on(cpu: usize) -> Self {
        let thread = Self::find();
        task::pin(thread.tid, cpu);
        thread
    }

    fn find() -> Self {
        // By preemption model: `rcu_state.name` in kernel/rcu/tree.c.
        let tids = ["rcu_preempt", "rcu_sched"].map(procfs::pids_named);
        let tid = *tids.iter().flatten().next().expect("a thread for grace periods");
        let cpus = sched_getaffinity(Pid::from_raw(tid as i32)).expect("a thread's affinity can be read");
        Self { tid, cpus }
    }
}

impl Drop for GracePeriodThread {
    fn drop(&mut self) {
        let restored = set_policy(self.tid, libc::SCHED_OTHER, 0)
            .and_then(|()| Ok(sched_setaffinity(Pid::from_raw(self.tid as i32), &self.cpus)?));
        if let Err(error) = restored {
            eprintln!("could not restore thread {}: {error}", self.tid);
        }
    }
}

fn set_policy(tid: u32, policy: i32, sched_priority: i32) -> io::Result<()> {
    // SAFETY: the structure is valid for the call and is only read.
    let result = unsafe { libc::sched_setscheduler(tid as i32, policy, &libc::sched_param { sched_priority }) };
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
