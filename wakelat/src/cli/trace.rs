//! `wakelat trace`

use clap::Args;

use super::CommonFlags;
use crate::{
    config::{Config, ConfigError},
    kernel::Machine,
};

const EXAMPLES: &str = "\
Examples:
  wakelat trace --threshold 1ms                      every wait of 1 ms or more
  wakelat trace --comm 'postgres*' -d 5s --csv       every wait of some tasks
  wakelat trace --threshold 9ms --on-threshold stop  the first long one; exit 3";

/// One line a wait, as it happens: every one, or those of the threshold or more
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TraceFlags {
    #[command(flatten)]
    common: CommonFlags,
}

impl TraceFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<Config, ConfigError> {
        Config::new(&self.common, machine)
    }
}
