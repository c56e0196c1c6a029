//! `stress-ng` as a load: all of its tasks are stopped at once, and the kernel's account of them stays the same.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, getpgid},
};

use crate::{procfs, skip::Skip, tool, workload::until};

/// The name of all of its tasks.
pub const NAME: &str = "stress-ng";

/// A running stress-ng. All of its tasks are killed when it is dropped.
pub struct StressNg {
    child: Child,
}

impl StressNg {
    /// Finds the program.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn find() -> Result<String, Skip> {
        tool::find(NAME, NAME)
    }

    /// Starts the program at `path` with `arguments`, and returns once it has `workers` tasks besides its first one.
    pub fn start(path: &str, arguments: &[&str], workers: usize) -> Self {
        let mut command = Command::new(path);
        // Without `--keep-name`, the names depend on its version. A limit of time ends it if the test is killed.
        command.args(["--keep-name", "--timeout", "120"]).args(arguments).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The first task inherits this name, so that it has no other one from its first wait on.
        let start = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || command.spawn());
        let started = start.expect("a thread can be started").join().expect("starting a program does not panic");
        let child = started.unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut stress = Self { child };
        until("stress-ng has its tasks", || {
            let ended = stress.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "{arguments:?}: stress-ng has ended with {ended:?}");
            stress.workers().len() >= workers
        });
        stress
    }

    /// Stops its tasks, and returns them once they are off their CPUs.
    pub fn stop(&self) -> Vec<u32> {
        self.signal(Signal::SIGSTOP).expect("stress-ng is running");
        let is_stopped = |tid: &u32| procfs::state(*tid) == Some('T') && procfs::is_blocked(*tid);
        until("stress-ng is stopped", || self.tasks().iter().all(is_stopped));
        self.tasks()
    }

    /// Its tasks except the first one.
    pub fn workers(&self) -> Vec<u32> {
        self.tasks().into_iter().filter(|tid| *tid != self.child.id()).collect()
    }

    /// Its running processes, each with one thread.
    fn tasks(&self) -> Vec<u32> {
        let is_own = |tid: &u32| getpgid(Some(Pid::from_raw(*tid as i32))).is_ok_and(|group| group == self.group());
        let lives = |tid: &u32| procfs::state(*tid).is_some_and(|state| state != 'Z');
        procfs::pids_named(NAME).into_iter().filter(|tid| is_own(tid) && lives(tid)).collect()
    }

    /// Its process group, which all of its tasks are in.
    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn signal(&self, signal: Signal) -> nix::Result<()> {
        killpg(self.group(), signal)
    }
}

impl Drop for StressNg {
    fn drop(&mut self) {
        let _ = self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
