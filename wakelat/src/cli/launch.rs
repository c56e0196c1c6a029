//! `wakelat launch`, which is not for users.

use std::ffi::OsString;

use clap::Args;

use crate::config::LaunchConfig;

/// Become the command that a run measures, started by wakelat itself; see [`crate::commands::launch`]
#[derive(Clone, Debug, Args)]
pub(super) struct LaunchFlags {
    /// The process that starts it
    #[arg(long)]
    parent: u32,

    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl From<LaunchFlags> for LaunchConfig {
    fn from(flags: LaunchFlags) -> Self {
        let LaunchFlags { parent, command } = flags;
        Self { parent, command }
    }
}
