//! What happens when a wait reaches the threshold.

use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};

use crate::{config::Action, wait::Wait};

/// Carries out the action, once in a run.
pub struct Trigger {
    action: Action,
    fired: bool,
    child: Option<Child>,
}

impl Trigger {
    /// Nothing has happened yet.
    pub fn new(action: Action) -> Self {
        Self { action, fired: false, child: None }
    }

    /// A wait has reached the threshold. Returns whether the run is to stop.
    ///
    /// # Errors
    /// Where the signal cannot be sent or the command cannot be started.
    pub fn fire(&mut self, wait: &Wait, unix_offset_ns: i64) -> Result<bool> {
        if std::mem::replace(&mut self.fired, true) {
            return Ok(self.action == Action::Stop);
        }
        match &self.action {
            Action::Continue => {}
            Action::Stop => return Ok(true),
            Action::Signal { signal, pid } => {
                let target = i32::try_from(*pid).context("the pid is too large")?;
                // SAFETY: the call takes two integers.
                if unsafe { libc::kill(target, *signal) } != 0 {
                    let error = std::io::Error::last_os_error();
                    bail!("cannot send signal `{signal}` to process `{pid}`: {error}");
                }
            }
            Action::Exec(command) => {
                let at = i128::from(wait.at_ns) + i128::from(unix_offset_ns);
                let child = Command::new("sh")
                    .args(["-c", command])
                    .env("WAKELAT_TID", wait.tid.to_string())
                    .env("WAKELAT_PID", wait.pid.to_string())
                    .env("WAKELAT_COMM", wait.comm.to_string())
                    .env("WAKELAT_CPU", wait.cpu.to_string())
                    .env("WAKELAT_CLASS", wait.class.name())
                    .env("WAKELAT_LATENCY_NS", wait.latency_ns.to_string())
                    .env("WAKELAT_AT_UNIX_NS", at.to_string())
                    .spawn()
                    .with_context(|| format!("cannot run `{command}`"))?;
                self.child = Some(child);
            }
        }
        Ok(false)
    }

    /// Waits for the command to end, so that its output is not cut short.
    ///
    /// # Errors
    /// Where it failed.
    pub fn finish(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = child.wait().context("cannot wait for the command of `--on-threshold`")?;
        if !status.success() {
            bail!("the command of `--on-threshold` failed: {status}");
        }
        Ok(())
    }
}
