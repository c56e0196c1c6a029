//! `wakelat record`

use clap::Args;

use super::{
    CommonFlags,
    collected_events::CollectFlags,
    flight_recorder::FlightRecorderFlags,
    why::{adjust_from, with_all_waits},
};
use crate::config::{Config, ConfigError, RecordConfig, label, labels};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat record -d 1m -o file.wakelat         record one minute
  wakelat why -i file.wakelat                  explain the waits in it
  wakelat top -i file.wakelat                  show the tasks that waited
  wakelat why -i file.wakelat --by cgroup      the same, grouped by cgroup
  wakelat record --last 30s --threshold 50ms -o incident.wakelat
                                               keep 30 s, and write them after a wait of 50 ms
  ssh HOST wakelat record -d 10s -o - | wakelat why -i -   record there, explain here";

/// Record scheduling events to a file; hist, top, trace and why show it with -i, on any machine
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RecordFlags {
    #[command(flatten)]
    collect: CollectFlags,

    /// Label the recording, such as release=42; repeatable
    #[arg(short = 'M', long, value_name = "KEY=VALUE", value_parser = label, help_heading = "Output")]
    label: Vec<(String, String)>,

    /// Why the recording is made
    #[arg(long, value_name = "TEXT", hide = true)]
    trigger: Option<String>,

    #[command(flatten)]
    flight_recorder: FlightRecorderFlags,

    #[command(flatten)]
    common: CommonFlags,
}

/// Changes the common flags: the defaults of `why`, no flags for other formats, and a required file.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    let hide = |command: clap::Command, id: &'static str| command.mut_arg(id, |arg| arg.hide(true));
    let command = ["json", "csv", "timestamps", "ascii", "color"].into_iter().fold(with_all_waits(command), hide);
    command.mut_arg("output", |arg| arg.required(true))
}

impl RecordFlags {
    pub(super) fn config(mut self, machine: &Machine) -> Result<(Config, RecordConfig), ConfigError> {
        adjust_from(&mut self.common.filter);
        let mut config = self.common.config(machine)?;
        config.set_recorded()?;
        let collected = self.collect.collect();
        let threshold_ns = config.threshold.as_ref().map(|threshold| threshold.threshold_ns);
        let flight_recorder = self.flight_recorder.config(threshold_ns)?;
        if flight_recorder.is_some() {
            config.set_flight_recorder()?;
        }
        Ok((config, RecordConfig { collected, labels: labels(&self.label)?, trigger: self.trigger, flight_recorder }))
    }
}
