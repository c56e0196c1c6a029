//! `wakelat trace`

use clap::Args;

use super::CommonFlags;
use crate::{
    config::{Config, ConfigError, TraceAllConfig, TraceRows},
    kernel::Machine,
    timeline::stay::SchedLineOptions,
};

const EXAMPLES: &str = "\
Examples:
  wakelat trace --threshold 1ms                      every wait of 1 ms or more
  wakelat trace --comm 'postgres*' -d 5s --csv       every wait of some tasks
  wakelat trace --threshold 9ms --on-threshold stop  the first long one; exit 3
  wakelat trace --parts --from waking -d 1s          and where the time of each went
  wakelat trace --all -MVw -d 1s                     every switch, with all that leads to it

Lines fit the terminal; in a pipe or a file they have their full width.";

/// One line a wait, as it happens: every one, or those of the threshold or more
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TraceFlags {
    /// A column for each part of the wait: what it went to. They add up to the latency
    #[arg(long, conflicts_with = "all", help_heading = "Parts")]
    parts: bool,

    #[command(flatten)]
    all: TraceAllFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Each switch in place of each wait.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Every switch")]
struct TraceAllFlags {
    /// A line each time a task leaves a CPU: how long it had been off, had waited, and ran
    #[arg(long, conflicts_with_all = ["class", "threshold", "on_threshold"])]
    all: bool,

    /// Show moves to another CPU as well
    #[arg(short = 'M', long)]
    migrations: bool,

    /// Show wakeups as well
    #[arg(short = 'w', long)]
    wakeups: bool,

    /// Show a column for each CPU: s where a task leaves it, i where idle does, m a move, w a wakeup
    #[arg(short = 'V', long)]
    cpu_map: bool,
}

impl TraceFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<(Config, TraceRows), ConfigError> {
        let all = self.all;
        let of_all = [("--migrations", all.migrations), ("--wakeups", all.wakeups), ("--cpu-map", all.cpu_map)];
        if let (false, Some((flag, _))) = (all.all, of_all.iter().find(|(_, given)| *given)) {
            return Err(ConfigError::usage(flag, "only the view of every switch shows this; add `--all`"));
        }
        let mut config = Config::new(&self.common, machine)?;
        if !all.all {
            if self.parts {
                config.set_breakdown()?;
                return Ok((config, TraceRows::Breakdowns));
            }
            return Ok((config, TraceRows::Waits));
        }
        config.set_all_classes()?;
        let shown =
            SchedLineOptions { idle: config.filter.wants_any_task(), migrations: all.migrations, wakeups: all.wakeups };
        let cpus = machine.cpus.iter().filter(|cpu| all.cpu_map && config.filter.wants_cpu(*cpu));
        let map = cpus.collect();
        Ok((config, TraceRows::Switches(TraceAllConfig { shown, cpu_map: map })))
    }
}
