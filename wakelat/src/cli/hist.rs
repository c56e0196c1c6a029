//! `wakelat hist`

use clap::Args;

use super::{CommonFlags, GroupingFlags};
use crate::{
    config::{Config, ConfigError, number, span},
    kernel::Machine,
};

const EXAMPLES: &str = "\
Examples:
  wakelat hist -d 10s                              all tasks, ten seconds
  wakelat hist 1 10                                ten charts of a second
  wakelat hist -p $(pidof -s nginx) --by cpu       one process, CPU by CPU
  wakelat hist --class wakeup,new,preempted        every class by itself
  wakelat hist --threshold 1ms --on-threshold stop exit 3 once a task waits 1 ms";

/// The distribution of waits: chart and percentiles, by any key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct HistFlags {
    /// Show the result and begin anew after this time; a bare number is seconds
    #[arg(value_parser = span::seconds)]
    interval: Option<u64>,

    /// How many intervals
    #[arg(value_parser = number::count)]
    count: Option<u64>,

    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

impl HistFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<Config, ConfigError> {
        let mut config = Config::new(&self.common, machine)?;
        config.set_intervals(self.interval, self.count)?;
        config.set_grouping(&self.grouping, &[], machine)?;
        Ok(config)
    }
}
