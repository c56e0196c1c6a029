//! `wakelat hist`

use clap::Args;

use super::{CliError, CommonFlags, GroupingFlags, RecordingFlags};
use crate::config::{Config, duration, number};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat hist -d 10s                               all tasks, ten seconds
  wakelat hist 1 10                                 a chart every second, ten times
  wakelat hist -p $(pidof -s nginx) --by cpu        one process, a chart per CPU
  wakelat hist --class wakeup,new,preempted         a chart per class of waits
  wakelat hist --threshold 1ms --on-threshold stop  stop once a task waits 1 ms; exit 3
  wakelat hist -i file.wakelat --by comm            the waits of a recording, a chart per name";

/// Show the distribution of latency: chart and percentiles, grouped by any key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct HistFlags {
    /// Print a report and reset at this interval; a bare number is seconds
    #[arg(value_parser = duration::seconds)]
    interval: Option<u64>,

    /// Number of intervals
    #[arg(value_parser = number::count)]
    count: Option<u64>,

    #[command(flatten)]
    recording: RecordingFlags,
    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

impl HistFlags {
    pub(super) fn config(
        self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<Config, CliError> {
        let (mut config, machine) = self.recording.config(&self.common, None, given, machine)?;
        config.set_intervals(self.interval, self.count)?;
        self.grouping.apply(&[], machine.as_ref(), &mut config)?;
        Ok(config)
    }
}
