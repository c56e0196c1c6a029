//! `wakelat top`

use clap::Args;

use super::{CommonFlags, GroupingFlags};
use crate::{
    aggregate::key::Key,
    config::{Config, ConfigError, TableConfig, number, span},
    kernel::Machine,
    sink::table::Sort,
};

const EXAMPLES: &str = "\
Examples:
  wakelat top                        tasks by their longest wait, refreshed every second
  wakelat top --sort p99 -n 20       the twenty with the worst 99th percentile
  wakelat top --last                 only the last second, refreshed every second
  wakelat top --by cgroup            cgroups in place of tasks
  wakelat top -d 5s --json           five seconds, for a program

The figures cover all waits since the start, or with --last those of the last interval, and every
class of wait, preempted tasks included (--class). `run time` is how long a thread ran in that
time, by the kernel's account; `-` where that is not known, no column where rows are not threads.
On a terminal: q quits, i changes between the last interval and all from then on, s sorts by the
next column.";

/// A live table of tasks: runs, mean, percentiles, the longest wait and when it was
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TopFlags {
    /// Order by this column: runs, avg, p50, p99, max, sum, task
    #[arg(long, value_name = "COLUMN", default_value = "max", hide_possible_values = true, help_heading = "Table")]
    sort: Sort,

    /// Show this many rows at most; without it, as many as the terminal has
    #[arg(short = 'n', long, value_name = "N", value_parser = number::rows, allow_hyphen_values = true, help_heading = "Table")]
    limit: Option<usize>,

    /// Refresh after this time; a bare number is seconds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span::seconds, allow_hyphen_values = true, help_heading = "Table")]
    interval: u64,

    /// Show only the last interval, in place of all since the start
    #[arg(long, help_heading = "Table")]
    last: bool,

    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Preempted tasks wait as well, and mostly longer.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    command.mut_arg("class", |class| class.default_value("runqueue"))
}

impl TopFlags {
    pub(super) fn table(&self) -> TableConfig {
        TableConfig { sort: self.sort, limit: self.limit, last_only: self.last }
    }

    pub(super) fn config(self, machine: &Machine) -> Result<Config, ConfigError> {
        let mut config = Config::new(&self.common, machine)?;
        config.set_intervals(Some(self.interval), None)?;
        config.set_grouping(&self.grouping, &[Key::Tid, Key::Comm], machine)?;
        Ok(config)
    }
}
