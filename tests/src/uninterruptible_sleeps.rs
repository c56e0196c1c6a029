//! How often a process sleeps in the kernel before its first output, as the kernel traces it.

use std::fs;

use crate::{procfs, skip::Skip, tracefs};

const SWITCH: &str = "events/sched/sched_switch";
const WRITE: &str = "events/syscalls/sys_enter_write";

/// The events, each with the filter for it: `TASK_UNINTERRUPTIBLE` of include/linux/sched.h, and a write to standard output.
const EVENTS: [(&str, &str); 2] = [(SWITCH, "prev_state == 2"), (WRITE, "fd == 1")];

/// Records when the threads that a process has at the start sleep uninterruptibly, as in a wait for a grace period, and when
/// they write to standard output. Dropping it removes its trace instance.
pub struct UninterruptibleSleeps {
    /// Directory of the instance in tracefs.
    instance: String,
}

impl UninterruptibleSleeps {
    /// Starts recording. Skips the test if this kernel has no events for system calls.
    pub fn start(pid: u32) -> Result<Self, Skip> {
        if !tracefs::path(WRITE).exists() {
            return Err(Skip::because("this kernel has no event for the system call `write`"));
        }
        let sleeps = Self { instance: "instances/wl-sleeps".to_owned() };
        fs::create_dir(tracefs::path(&sleeps.instance)).expect("an instance can be made");
        let threads = procfs::other_threads(pid).into_iter().chain([pid]);
        threads.for_each(|tid| tracefs::append(&sleeps.file("set_event_pid"), &tid.to_string()));
        for (event, filter) in EVENTS {
            tracefs::append(&sleeps.file(&format!("{event}/filter")), filter);
            tracefs::append(&sleeps.file(&format!("{event}/enable")), "1");
        }
        Ok(sleeps)
    }

    /// Their number before the first write.
    ///
    /// # Panics
    /// If nothing was written.
    pub fn before_output(&self) -> usize {
        let text = tracefs::read(&self.file("trace"));
        let (before, _) = text.split_once("sys_write(").unwrap_or_else(|| panic!("nothing written: {text}"));
        before.matches("sched_switch: ").count()
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.instance)
    }
}

impl Drop for UninterruptibleSleeps {
    fn drop(&mut self) {
        for (event, _) in EVENTS {
            tracefs::append(&self.file(&format!("{event}/enable")), "0");
        }
        if let Err(error) = fs::remove_dir(tracefs::path(&self.instance)) {
            eprintln!("could not remove {}: {error}", self.instance);
        }
    }
}
