//! Becomes the command that a run measures, when the run begins: `wakelat hist -- COMMAND` starts this process before it
//! drops its privileges, and continues it when its window begins.

use std::{os::unix::process::CommandExt as _, process};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use crate::{config::LaunchConfig, session::exec_failure::ExecFailure};

/// Stops, and becomes the command when it is continued. Returns only if the command cannot be executed: the parent reports
/// that error.
///
/// # Errors
/// If the parent has exited, or does not receive the error of the command.
pub fn launch(launch: &LaunchConfig) -> Result<()> {
    let LaunchConfig { parent, failure_fd, command } = launch;
    let failure = ExecFailure::inherited(*failure_fd).context("`--failure-fd`")?;
    // Until the command begins: without its parent, this process would stay stopped.
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot set the parent-death signal")?;
    // A parent that has already exited sends no signal (PR_SET_PDEATHSIG(2const)), but then this process has another
    // parent now.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().cast_unsigned() != *parent) {
        bail!("process `{parent}`, which started this process, has exited");
    }
    kill_process(getpid(), Signal::STOP).context("cannot stop this process")?;
    set_parent_process_death_signal(None).context("cannot reset the parent-death signal")?;
    let [program, arguments @ ..] = &command[..] else { bail!("no command is given") };
    let error = process::Command::new(program).args(arguments).exec();
    failure.report(&error).with_context(|| format!("cannot run `{}`: {error}", program.display()))
}
