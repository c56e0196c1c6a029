//! `wakelat dump`

use clap::Args;

use crate::config::{DumpConfig, number};

const EXAMPLES: &str = "\
Examples:
  wakelat dump $(pidof -s wakelat)        write the events so far to a file";

/// Make a running flight recorder (record --last) write its events to a file
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DumpFlags {
    /// The PID of the flight recorder
    #[arg(value_parser = number::id)]
    pid: u32,
}

impl From<DumpFlags> for DumpConfig {
    fn from(flags: DumpFlags) -> Self {
        Self { pid: flags.pid }
    }
}
