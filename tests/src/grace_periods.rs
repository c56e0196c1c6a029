//! The kernel's thread that ends RCU grace periods. It has an ordinary priority (`rcutree.kthread_prio`), so it waits for a CPU
//! like any other task, and whatever waits for a grace period waits as long.

use std::io;

use crate::procfs;

/// That thread with another policy; dropping it, also in a panic, restores the policy.
pub struct GracePeriodThread {
    tid: u32,
}

impl GracePeriodThread {
    /// Gives it a real-time priority, as `rcutree.kthread_prio=1` does: grace periods end soon under any load of ordinary
    /// tasks.
    pub fn real_time() -> Self {
        let thread = Self::find();
        set_policy(thread.tid, libc::SCHED_FIFO, 1).expect("the kernel changes the policy of its threads");
        thread
    }

    fn find() -> Self {
        // By preemption model: `rcu_state.name` in kernel/rcu/tree.c.
        let tids = ["rcu_preempt", "rcu_sched"].map(procfs::pids_named);
        let tid = *tids.iter().flatten().next().expect("a thread for grace periods");
        Self { tid }
    }
}

impl Drop for GracePeriodThread {
    fn drop(&mut self) {
        if let Err(error) = set_policy(self.tid, libc::SCHED_OTHER, 0) {
            eprintln!("could not restore thread {}: {error}", self.tid);
        }
    }
}

fn set_policy(tid: u32, policy: i32, sched_priority: i32) -> io::Result<()> {
    // SAFETY: the structure is valid for the call and is only read.
    let result = unsafe { libc::sched_setscheduler(tid as i32, policy, &libc::sched_param { sched_priority }) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
