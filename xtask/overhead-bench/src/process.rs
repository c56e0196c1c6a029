//! A process of another program, with all its children. None of them outlives the guard.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::affinity::CpuList;
use super::sigint::InterruptFlag;

/// A process group, killed when dropped.
pub struct ProcessGroup {
    child: Child,
    name: String,
    /// The files with its standard output and standard error.
    printed: [PathBuf; 2],
    ended: Option<ExitStatus>,
}

impl ProcessGroup {
    /// Starts `command` on `cpus`, in a process group of its own, so that Ctrl-C reaches it only through
    /// this program. Its output goes to files whose names begin with `printed`, because a pipe could fill
    /// up.
    pub fn spawn(command: &mut Command, cpus: &CpuList, printed: PathBuf) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let printed = ["out", "err"].map(|kind| printed.with_extension(kind));
        let create = |path: &PathBuf| File::create(path).with_context(|| format!("cannot write `{}`", path.display()));
        command.stdout(create(&printed[0])?).stderr(create(&printed[1])?).stdin(Stdio::null());
        command.env("LC_ALL", "C").process_group(0);
        let child = cpus.inherited(|| command.spawn())?.with_context(|| format!("cannot run `{name}`"))?;
        Ok(Self { child, name, printed, ended: None })
    }

    /// The PID of its first process, which is also the ID of the group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the first process, if it has ended.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits until it has ended, and returns its standard output.
    ///
    /// # Errors
    /// Fails if the process failed, or takes longer than `limit`.
    pub fn outcome(&mut self, limit: Duration, interrupt: &InterruptFlag) -> anyhow::Result<String> {
        let status = interrupt.wait(limit, || self.ended())?;
        match status {
            Some(status) if status.success() => Ok(self.printed().0),
            Some(status) => bail!("`{}` failed ({status}): {}", self.name, self.last_message()),
            None => bail!("`{}` takes longer than {limit:?}", self.name),
        }
    }

    /// Asks the process to end, as Ctrl-C does, and waits until it has. Its exit status does not matter.
    ///
    /// # Errors
    /// Fails if it takes longer than `limit`.
    pub fn interrupt(&mut self, limit: Duration, interrupt: &InterruptFlag) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            kill(self.group(), Signal::SIGINT)?;
        }
        match interrupt.wait(limit, || self.ended())? {
            Some(_) => Ok(()),
            None => bail!("`{}` does not end within {limit:?}", self.name),
        }
    }

    /// What it has printed so far, to standard output and to standard error.
    pub fn printed(&self) -> (String, String) {
        let read = |path: &PathBuf| {
            fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        (read(&self.printed[0]), read(&self.printed[1]))
    }

    /// Its first error message, or else the last line that it printed.
    pub fn last_message(&self) -> String {
        let (output, errors) = self.printed();
        last_message(&format!("{output}\n{errors}"))
    }

    fn group(&self) -> Pid {
        // PIDs are positive and fit into an `i32`.
        Pid::from_raw(self.child.id() as i32)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Its children may outlive the first process.
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn last_message(printed: &str) -> String {
    let lines = || printed.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let complaint = lines().find(|line| {
        let line = line.to_lowercase();
        ["error", "not permitted", "unable", "cannot", "failed"].iter().any(|word| line.contains(word))
    });
    complaint.or_else(|| lines().next_back()).unwrap_or("it printed nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_message_is_reported() {
        let bcc = "sh: 1: modprobe: not found\nUnable to find kernel headers.\nchdir: No such file\nTraceback:\n\
                   Exception: Failed to compile BPF\n";
        assert_eq!(last_message(bcc), "Unable to find kernel headers.");
        let trace_cmd = "trace-cmd: Operation not permitted\n  Can't enable ftrace\n";
        assert_eq!(last_message(trace_cmd), "trace-cmd: Operation not permitted");
        assert_eq!(last_message("usage: x\n\n"), "usage: x");
        assert_eq!(last_message(""), "it printed nothing");
    }
}
