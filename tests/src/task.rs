//! What a workload's task does to itself: name, CPU, policy, fork and exit.

use std::{ffi::CString, io};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{ForkResult, Pid, fork, getppid},
};
use serde::{Deserialize, Serialize};

/// How the kernel schedules a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// SCHED_OTHER, nice 0.
    Other,
    /// SCHED_FIFO at this priority (1–99): no slice, and tasks of equal priority do not preempt each
    /// other, which makes counts exact.
    Fifo(i32),
}

impl Policy {
    /// Applies the policy to the calling task.
    pub fn take(self) {
        let (policy, sched_priority) = match self {
            Self::Other => (libc::SCHED_OTHER, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO, priority),
        };
        let parameters = libc::sched_param { sched_priority };
        // SAFETY: the structure is valid for the call and is only read.
        let result = unsafe { libc::sched_setscheduler(0, policy, &parameters) };
        assert_eq!(result, 0, "{self:?}: {}", io::Error::last_os_error());
    }
}

/// Where and how a task runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TaskPlacement {
    /// The only CPU that it may run on, or none for all.
    pub cpu: Option<usize>,
    /// Its policy.
    pub policy: Policy,
}

impl TaskPlacement {
    /// SCHED_FIFO 10 on `cpu`: above ordinary tasks, below the kernel's own real-time threads.
    pub const fn fifo(cpu: usize) -> Self {
        Self { cpu: Some(cpu), policy: Policy::Fifo(10) }
    }

    /// SCHED_OTHER on `cpu`.
    pub const fn other(cpu: usize) -> Self {
        Self { cpu: Some(cpu), policy: Policy::Other }
    }

    /// Applies the CPU and the policy to the calling task.
    pub fn take(self) {
        if let Some(cpu) = self.cpu {
            pin(0, cpu);
        }
        if let Policy::Fifo(_) = self.policy {
            self.policy.take();
        }
    }
}

/// Restricts thread `tid` (0 for the calling one) to `cpu`.
pub fn pin(tid: u32, cpu: usize) {
    pin_to(tid, &[cpu]);
}

/// Restricts thread `tid` (0 for the calling one) to `cpus`.
pub fn pin_to(tid: u32, cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu).expect("a CPU that fits cpu_set_t"));
    sched_setaffinity(Pid::from_raw(tid as i32), &set).unwrap_or_else(|error| panic!("CPUs {cpus:?}: {error}"));
}

/// Gives thread `tid` (0 for the calling one) this nice value, which threads and processes that it starts inherit.
pub fn set_nice(tid: u32, nice: i32) {
    // SAFETY: three numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) };
    assert_eq!(result, 0, "nice {nice}: {}", io::Error::last_os_error());
}

/// Another nice value of the calling thread, which threads and processes that it starts inherit; dropping it, also in a panic,
/// restores 0.
pub struct Niceness(());

impl Niceness {
    /// The nice value `nice` until this is dropped.
    pub fn lower(nice: i32) -> Self {
        set_nice(0, nice);
        Self(())
    }
}

impl Drop for Niceness {
    fn drop(&mut self) {
        set_nice(0, 0);
    }
}

/// Gives the calling thread the name by which a test finds it: at most 15 bytes.
///
/// # Panics
/// If the name is longer, or has a NUL in it.
pub fn name(comm: &str) {
    assert!(comm.len() <= 15, "the kernel would cut `{comm}`");
    prctl::set_name(&CString::new(comm).expect("a name without NUL")).expect("a thread may name itself");
}

/// Forks a process that runs `body` and exits, and that is killed if its parent exits first. Only for
/// processes with one thread. Returns its PID.
pub fn spawn(body: impl FnOnce()) -> u32 {
    // SAFETY: the workload process has only one thread here, so the child finds no lock held.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child.as_raw() as u32,
        ForkResult::Child => {
            prctl::set_pdeathsig(Signal::SIGKILL).expect("SIGKILL is a signal");
            let status = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
                Ok(()) => 0,
                Err(_) => {
                    // A task that waits for this one would wait forever: kill the whole workload, so
                    // that the test fails.
                    _ = kill(getppid(), Signal::SIGKILL);
                    101
                }
            };
            exit_now(status)
        }
    }
}

/// Ends the calling process without the C library's exit handlers, which belong to its parent.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: the call takes a number and does not return.
    unsafe { libc::_exit(status) }
}

/// Voluntary context switches of the calling thread so far.
///
/// # Panics
/// Never on Linux: RUSAGE_THREAD is older than BPF.
pub fn blocked_count() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_THREAD).expect("RUSAGE_THREAD").voluntary_context_switches() as u64
}
