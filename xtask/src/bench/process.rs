//! A process of another program, with all its children: none of them outlives the guard.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::affinity::CpuList;
use super::interrupt::InterruptFlag;

/// A process group. Dropped, it is killed.
pub struct ProcessGroup {
    child: Child,
    name: String,
    /// What it has printed.
    printed: [PathBuf; 2],
    ended: Option<ExitStatus>,
}

impl ProcessGroup {
    /// Starts `command` in a group of its own, so that Ctrl-C reaches it by way of us alone, on `cpus` alone. What it
    /// prints goes to files beginning with `printed`: no pipe can fill up.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(command: &mut Command, cpus: &CpuList, printed: PathBuf) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let printed = ["out", "err"].map(|kind| printed.with_extension(kind));
        let create = |path: &PathBuf| File::create(path).with_context(|| format!("cannot write `{}`", path.display()));
        command.stdout(create(&printed[0])?).stderr(create(&printed[1])?).stdin(Stdio::null());
        command.env("LC_ALL", "C").process_group(0);
        let child = cpus.inherited(|| command.spawn())?.with_context(|| format!("cannot run `{name}`"))?;
        Ok(Self { child, name, printed, ended: None })
    }

    /// Its first process, whose number is that of the group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the first process has ended, and how.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits until it has ended, and gives what it printed to standard output.
    ///
    /// # Errors
    /// If it failed, or takes longer than `limit`.
    pub fn outcome(&mut self, limit: Duration, interrupt: &InterruptFlag) -> anyhow::Result<String> {
        let status = interrupt.wait(limit, || self.ended())?;
        match status {
            Some(status) if status.success() => Ok(self.printed().0),
            Some(status) => bail!("`{}` failed ({status}): {}", self.name, self.last_message()),
            None => bail!("`{}` takes longer than {limit:?}", self.name),
        }
    }

    /// Asks it to end as Ctrl-C does, and waits until it has; whether it then says that it failed, does not matter.
    ///
    /// # Errors
    /// If it takes longer than `limit`.
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

    /// What it complained of first, or else the last that it printed.
    pub fn last_message(&self) -> String {
        let (output, errors) = self.printed();
        last_message(&format!("{output}\n{errors}"))
    }

    fn group(&self) -> Pid {
        // The kernel's process ids are positive and fit.
        Pid::from_raw(self.child.id() as i32)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Children may be left of one that has ended.
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
    complaint.or_else(|| lines().next_back()).unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_complaint_is_the_cause_of_those_that_follow() {
        let bcc = "sh: 1: modprobe: not found\nUnable to find kernel headers.\nchdir: No such file\nTraceback:\n\
                   Exception: Failed to compile BPF\n";
        assert_eq!(last_message(bcc), "Unable to find kernel headers.");
        let trace_cmd = "trace-cmd: Operation not permitted\n  Can't enable ftrace\n";
        assert_eq!(last_message(trace_cmd), "trace-cmd: Operation not permitted");
        assert_eq!(last_message("usage: x\n\n"), "usage: x");
        assert_eq!(last_message(""), "it said nothing");
    }
}
