//! `wakelat hist`

use std::path::PathBuf;

use clap::Args;

use super::{CliError, CommonFlags, GroupingFlags, RecordingFlags, collected_events::DEFAULT, grouping::ModeChoice};
use crate::config::{Config, ConfigError, HistConfig, duration, number};
use wakelat_core::recording::MoreEvents;
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat hist -d 10s                               all tasks, ten seconds
  wakelat hist 1 10                                 a chart every second, ten times
  wakelat hist -p $(pidof -s nginx) --by cpu        one process, a chart per CPU
  wakelat hist --class wakeup,new,preempted         a chart per class of waits
  wakelat hist --threshold 1ms --on-threshold stop  stop once a task waits 1 ms; exit 3
  wakelat hist -i file.wakelat --by comm            the waits of a recording, a chart per name
  wakelat hist -d 10s --report report.html          also a page that opens in any browser";

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

    /// Also write the waits and their causes as one HTML file, as `wakelat report` does; collects every switch, at the
    /// cost of `why`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,

    /// Also write the chart as a picture (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
}

impl HistFlags {
    pub(super) fn config(
        mut self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<(Config, HistConfig), CliError> {
        if self.interval.is_some()
            && let Some((flag, _)) =
                [("--report", &self.report), ("--svg", &self.svg)].iter().find(|(_, file)| file.is_some())
        {
            let why = "the file shows the whole run; leave out the interval, or use `-d`";
            return Err(ConfigError::usage(flag, why).into());
        }
        if self.report.is_some() {
            self.require_events()?;
        }
        let (mut config, machine) = self.recording.config(&self.common, None, MoreEvents::default(), given, machine)?;
        config.set_intervals(self.interval, self.count)?;
        self.grouping.apply(&[], machine.as_ref(), &mut config)?;
        config.check_written([("--report", self.report.as_deref()), ("--svg", self.svg.as_deref())])?;
        if self.report.is_some() {
            config.set_breakdown()?;
        }
        Ok((config, HistConfig { report: self.report, svg: self.svg, collect: DEFAULT }))
    }

    /// Has every switch sent, for the causes of waits, which the page shows.
    fn require_events(&mut self) -> Result<(), ConfigError> {
        if self.grouping.mode == ModeChoice::Aggregate {
            let why = "the page shows causes and single waits, and `aggregate` keeps neither; leave out `--mode`";
            return Err(ConfigError::usage("--report", why));
        }
        self.grouping.mode = ModeChoice::Samples;
        Ok(())
    }
}
