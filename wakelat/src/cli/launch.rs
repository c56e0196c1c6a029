//! `wakelat launch`, which is not for users.

use std::{ffi::OsString, os::fd::RawFd};

use clap::Args;

use crate::config::LaunchConfig;

/// Become the command that a run measures, started by wakelat itself; see [`crate::commands::launch`]
#[derive(Clone, Debug, Args)]
pub(super) struct LaunchFlags {
    /// The process that starts it
    #[arg(long)]
    parent: u32,

    /// The descriptor of the pipe to which it writes the error if the command cannot be executed
    #[arg(long, value_parser = clap::value_parser!(RawFd).range(3..))]
    failure_fd: RawFd,

    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl From<LaunchFlags> for LaunchConfig {
    fn from(flags: LaunchFlags) -> Self {
        let LaunchFlags { parent, failure_fd, command } = flags;
        Self { parent, failure_fd, command }
    }
}
