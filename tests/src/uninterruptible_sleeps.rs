//! How often a process sleeps in the kernel before its first output, as the kernel traces it.

use crate::{procfs, skip::Skip, trace_instance::TraceInstance, tracefs};

const WRITE: &str = "syscalls/sys_enter_write";

/// The events, each with the filter for it: `TASK_UNINTERRUPTIBLE` of include/linux/sched.h, and a write to standard
/// output.
const EVENTS: [(&str, &str); 2] = [("sched/sched_switch", "prev_state == 2"), (WRITE, "fd == 1")];

/// Records when the threads that a process has at the start sleep uninterruptibly, as in a wait for a grace period, and
/// when they write to standard output.
pub struct UninterruptibleSleeps(TraceInstance);

impl UninterruptibleSleeps {
    /// Starts recording. Skips the test if this kernel has no events for system calls.
    pub fn start(pid: u32) -> Result<Self, Skip> {
        if !tracefs::path(&format!("events/{WRITE}")).exists() {
            return Err(Skip::because("this kernel has no event for the system call `write`"));
        }
        let instance = TraceInstance::create("wl-sleeps");
        let threads = procfs::other_threads(pid).into_iter().chain([pid]);
        threads.for_each(|tid| instance.append("set_event_pid", &tid.to_string()));
        for (event, filter) in EVENTS {
            instance.filter(event, filter);
            instance.enable(event, true);
        }
        Ok(Self(instance))
    }

    /// Their number before the first write.
    ///
    /// # Panics
    /// If nothing was written.
    pub fn before_output(&self) -> usize {
        let text = self.0.read("trace");
        let (before, _) = text.split_once("sys_write(").unwrap_or_else(|| panic!("nothing written: {text}"));
        before.matches("sched_switch: ").count()
    }
}

impl Drop for UninterruptibleSleeps {
    fn drop(&mut self) {
        EVENTS.iter().for_each(|(event, _)| self.0.enable(event, false));
    }
}
