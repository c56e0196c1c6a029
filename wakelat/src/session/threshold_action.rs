//! The action of `--on-threshold`.

use std::process::{Child, Command};

use anyhow::{Context as _, Error, Result, bail};

use crate::config::ThresholdAction;
use wakelat_core::wait::Wait;

/// Runs the action when the threshold is reached for the first time.
pub struct ActionRunner {
    action: ThresholdAction,
    fired: bool,
    child: Option<Child>,
    failure: Option<Error>,
}

impl ActionRunner {
    /// A runner for `action`, which has not run yet.
    pub fn new(action: ThresholdAction) -> Self {
        Self { action, fired: false, child: None, failure: None }
    }

    /// Called for each wait that reaches the threshold: runs the action once. Returns whether the run has to stop,
    /// because that is the action, or because the action failed: [`Self::finish`] returns the failure.
    pub fn fire(&mut self, wait: &Wait, unix_offset_ns: i64) -> bool {
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
    pub fn fire_with(&mut self, environment: impl FnOnce() -> Vec<(&'static str, String)>) -> bool {
        if !std::mem::replace(&mut self.fired, true) {
            self.failure = self.start(environment).err();
        }
        self.failure.is_some() || self.action == ThresholdAction::Stop
    }

    fn start(&mut self, environment: impl FnOnce() -> Vec<(&'static str, String)>) -> Result<()> {
        match &self.action {
            ThresholdAction::Continue | ThresholdAction::Stop => {}
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
                self.child = Some(child.with_context(|| format!("cannot run `{command}`"))?);
            }
        }
        Ok(())
    }

    /// Waits for the command to end, so that its output is not cut short.
    ///
    /// # Errors
    /// If the signal could not be sent, or the command could not be started or failed.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = child.wait().context("cannot wait for the command of `--on-threshold`")?;
        if !status.success() {
            bail!("the command of `--on-threshold` failed: {status}");
        }
        Ok(())
    }
}
