//! The action of `--on-threshold`.

use std::process::{Child, Command};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::config::ThresholdAction;
use wakelat_core::wait::Wait;

/// Runs the action when the threshold is reached for the first time.
pub struct ActionRunner {
    action: ThresholdAction,
    fired: bool,
    child: Option<Child>,
}

impl ActionRunner {
    /// A runner for `action`, which has not run yet.
    pub fn new(action: ThresholdAction) -> Self {
        Self { action, fired: false, child: None }
    }

    /// Called for each wait that reaches the threshold: runs the action once. Returns whether the run has to
    /// stop.
    ///
    /// # Errors
    /// If the signal cannot be sent or the command cannot be started.
    pub fn fire(&mut self, wait: &Wait, unix_offset_ns: i64) -> Result<bool> {
        let at_unix_ns = i128::from(wait.at_ns) + i128::from(unix_offset_ns);
        self.fire_with(|| {
            vec![
                ("WAKELAT_TID", wait.tid.to_string()),
                ("WAKELAT_PID", wait.pid.to_string()),
                ("WAKELAT_COMM", wait.comm.to_string()),
                ("WAKELAT_CPU", wait.cpu.to_string()),
                ("WAKELAT_CLASS", wait.class.name().to_owned()),
                ("WAKELAT_LATENCY_NS", wait.latency_ns.to_string()),
                ("WAKELAT_AT_UNIX_NS", at_unix_ns.to_string()),
            ]
        })
    }

    /// Like [`Self::fire`] for anything else that reaches the threshold: `environment` describes it to a
    /// command. Returns whether the run has to stop.
    ///
    /// # Errors
    /// If the signal cannot be sent or the command cannot be started.
    pub fn fire_with(&mut self, environment: impl FnOnce() -> Vec<(&'static str, String)>) -> Result<bool> {
        if std::mem::replace(&mut self.fired, true) {
            return Ok(self.action == ThresholdAction::Stop);
        }
        match &self.action {
            ThresholdAction::Continue => {}
            ThresholdAction::Stop => return Ok(true),
            ThresholdAction::Signal { signal, pid } => {
                let target = i32::try_from(*pid).context("the PID is too large")?;
                // Not by rustix, whose safe signals are only those with names; a real-time signal has none.
                // SAFETY: the call takes two integers and no pointer.
                if unsafe { libc::kill(target, *signal) } != 0 {
                    let error = std::io::Error::last_os_error();
                    bail!("cannot send signal `{signal}` to process `{pid}`: {error}");
                }
            }
            ThresholdAction::Exec(command) => {
                let child = Command::new("sh").args(["-c", command]).envs(environment()).spawn();
                // As text: an I/O error would count as one of the output.
                self.child = Some(child.map_err(|error| anyhow!("cannot run `{command}`: {error}"))?);
            }
        }
        Ok(false)
    }

    /// Waits for the command to end, so that its output is not cut short.
    ///
    /// # Errors
    /// If the command failed.
    pub fn finish(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = child.wait().context("cannot wait for the command of `--on-threshold`")?;
        if !status.success() {
            bail!("the command of `--on-threshold` failed: {status}");
        }
        Ok(())
    }
}
