//! `wakelat ab`

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{CliError, compare::CompareFlags};
use crate::config::{AbConfig, commands, number};

const EXAMPLES: &str = "\
Examples:
  wakelat ab -- ./old --- ./new                      six runs of each, alternately
  wakelat ab --runs 10 -o runs -- make -j4 --- make -j8
  wakelat ab --setup-b 'sysctl -w kernel.sched_autogroup_enabled=0' \\
             --cleanup 'sysctl -w kernel.sched_autogroup_enabled=1' \\
             -- perf bench sched messaging --- perf bench sched messaging

Runs alternate as A B B A A B B A, so that a drift of the machine affects both arms alike.
The output of the commands goes to standard error.";

/// Record two commands alternately, and compare them as diff does
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct AbFlags {
    /// Two commands, base and new, with --- between them
    #[arg(value_name = "COMMAND_A --- COMMAND_B", required = true, last = true, num_args = 1..)]
    commands: Vec<OsString>,

    /// Number of runs of each command
    #[arg(long, value_name = "N", default_value = "6", value_parser = number::runs, allow_hyphen_values = true, help_heading = "Runs")]
    runs: usize,

    /// Directory of the recordings; it is created if it does not exist
    #[arg(short, long, value_name = "DIR", default_value = "wakelat-ab", help_heading = "Runs")]
    output: PathBuf,

    /// Run this shell command before each run of A
    #[arg(long, value_name = "COMMAND", help_heading = "Runs")]
    setup_a: Option<String>,

    /// Run this shell command before each run of B
    #[arg(long, value_name = "COMMAND", help_heading = "Runs")]
    setup_b: Option<String>,

    /// Run this shell command after each run
    #[arg(long, value_name = "COMMAND", help_heading = "Runs")]
    cleanup: Option<String>,

    #[command(flatten)]
    compare: CompareFlags,
}

impl AbFlags {
    pub(super) fn config(self, given: impl Fn(&str) -> bool) -> Result<AbConfig, CliError> {
        Ok(AbConfig {
            commands: commands(&self.commands)?,
            setups: [self.setup_a, self.setup_b],
            cleanup: self.cleanup,
            runs: self.runs,
            directory: self.output,
            compare: self.compare.config(None, given)?,
        })
    }
}
