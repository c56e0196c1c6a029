//! `wakelat trace`

use std::path::PathBuf;

use clap::Args;

use super::{CliError, CommonFlags, RecordingFlags};
use crate::config::{Config, ConfigError, CpuMap, TraceAllConfig, TraceRows};
use wakelat_core::{recording::MoreEvents, timeline::timehist::SchedLineOptions};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat trace --threshold 1ms                      each wait of 1 ms or more
  wakelat trace --comm 'postgres*' -d 5s --csv       each wait of some tasks, as CSV
  wakelat trace --threshold 9ms --on-threshold stop  stop at the first long wait; exit 3
  wakelat trace --breakdown --from waking -d 1s      with a column per component of the wait
  wakelat trace --all -MVw -d 1s                     every switch, migration and wakeup
  wakelat trace -i file.wakelat --threshold 1ms      the long waits of a recording

On a terminal, lines are cut to its width; in a pipe or a file, they are complete.";

/// Print each wait as it ends (`--threshold`: only long ones)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TraceFlags {
    /// Print a column per component of the latency; the columns add up to it
    #[arg(long, conflicts_with = "all", help_heading = "Breakdown")]
    breakdown: bool,

    /// Also write the timeline of the longest wait as a picture (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Breakdown")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    all: TraceAllFlags,
    #[command(flatten)]
    recording: RecordingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Flags for a line per switch instead of per wait.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Every switch")]
struct TraceAllFlags {
    /// Print a line per switch: how long the outgoing task was off CPU, waited and ran
    #[arg(long, conflicts_with_all = ["class", "threshold", "on_threshold"])]
    all: bool,

    /// Also print migrations
    #[arg(short = 'M', long)]
    migrations: bool,

    /// Also print wakeups
    #[arg(short = 'w', long)]
    wakeups: bool,

    /// Show a column per CPU: s is a task switching out, i the idle task, m a migration, w a wakeup
    #[arg(short = 'V', long)]
    cpu_map: bool,
}

impl TraceFlags {
    pub(super) fn config(
        self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<(Config, TraceRows), CliError> {
        let all = self.all;
        let of_all = [("--migrations", all.migrations), ("--wakeups", all.wakeups), ("--cpu-map", all.cpu_map)];
        if let (false, Some((flag, _))) = (all.all, of_all.iter().find(|(_, given)| *given)) {
            return Err(ConfigError::usage(flag, "only applies to `--all`; add it").into());
        }
        if self.svg.is_some() && !self.breakdown {
            return Err(ConfigError::Usage("`--svg` needs `--breakdown`".to_owned()).into());
        }
        let more = MoreEvents { wakeups: all.wakeups, migrations: all.migrations, ..MoreEvents::default() };
        let (mut config, machine) = self.recording.config(&self.common, None, more, given, machine)?;
        if !all.all {
            if self.breakdown {
                config.set_breakdown()?;
                config.check_written([("--svg", self.svg.as_deref())])?;
                return Ok((config, TraceRows::Breakdowns(self.svg)));
            }
            return Ok((config, TraceRows::Waits));
        }
        config.set_all_classes()?;
        if all.wakeups {
            config.check_sees_wakeups("--wakeups", "each of them")?;
        }
        let shown =
            SchedLineOptions { idle: config.filter.wants_any_task(), migrations: all.migrations, wakeups: all.wakeups };
        if all.cpu_map && config.shows_several_files() {
            let why = "shows the CPUs of one machine; leave it out, or give one recording";
            return Err(ConfigError::usage("--cpu-map", why).into());
        }
        let cpu_map = match machine {
            _ if !all.cpu_map => CpuMap::None,
            Some(machine) => CpuMap::Of(machine.cpus.iter().filter(|cpu| config.filter.wants_cpu(*cpu)).collect()),
            None => CpuMap::OfRecording,
        };
        Ok((config, TraceRows::Switches(TraceAllConfig { shown, cpu_map })))
    }
}
