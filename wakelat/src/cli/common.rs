//! The flags that every measurement takes.

use std::ffi::OsString;

use clap::Args;

use super::{FilterFlags, OutputFlags, ResourceFlags, ThresholdFlags, WindowFlags};
use crate::config::{Config, ConfigError, MAX_GROUPS, OutputConfig, RecordedInput, number};
use wakelat_core::report::Mode;
use wakelat_kernel::Machine;

/// The flags that every measurement takes.
#[derive(Clone, Debug, Args)]
pub struct CommonFlags {
    /// How long to measure.
    #[command(flatten)]
    pub window: WindowFlags,
    /// The command that is measured.
    #[arg(last = true, value_name = "COMMAND")]
    #[arg(help = "Measure while this command runs, and exit with its exit code")]
    pub command: Vec<OsString>,
    /// Which tasks are measured.
    #[command(flatten)]
    pub filter: FilterFlags,
    /// The threshold.
    #[command(flatten)]
    pub threshold: ThresholdFlags,
    /// How and where the result is shown.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Resources of the machine that the measurement uses.
    #[command(flatten)]
    pub resources: ResourceFlags,
    /// Limit of the overhead: millionths of the time of all CPUs.
    #[arg(long, value_name = "PERCENT", value_parser = number::percent_as_ppm, allow_hyphen_values = true)]
    #[arg(
        help = "Keep overhead below this share of all CPU time, such as 0.5%, by sampling tasks at random and pausing"
    )]
    #[arg(help_heading = "Resources")]
    pub max_overhead: Option<u32>,
    /// Keep capabilities, file access and system calls that the measurement no longer needs, for debugging
    #[arg(long, help_heading = "Resources")]
    pub keep_privileges: bool,
}

impl CommonFlags {
    /// The configuration of a measurement on this machine: one result at the end, one group per class.
    pub(super) fn config(&self, machine: &Machine) -> Result<Config, ConfigError> {
        let (classes, merged) = self.filter.classes()?;
        let (resources, notes) = self.resources.config(machine)?;
        let mut filter = self.filter.config(machine)?;
        if self.filter.tree {
            filter.set_tree(!self.command.is_empty(), machine)?;
        }
        Ok(Config {
            input: None,
            command: self.command.clone(),
            window: self.window.config(),
            filter,
            classes,
            merged,
            from: self.filter.from(classes)?,
            by: Vec::new(),
            max_groups: MAX_GROUPS,
            mode: Mode::Samples,
            with_causes: false,
            traces_interrupts: false,
            max_overhead_ppm: self.max_overhead,
            keep_privileges: self.keep_privileges,
            threshold: self.threshold.config(machine)?,
            output: self.output.config()?,
            resources,
            notes,
        })
    }

    /// The configuration of a view of a recording: one result at the end, one group per class.
    pub(super) fn recorded_config(&self, input: RecordedInput, output: OutputConfig) -> Result<Config, ConfigError> {
        let (classes, merged) = self.filter.classes()?;
        Ok(Config {
            window: self.window.config(),
            classes,
            merged,
            from: self.filter.from(classes)?,
            threshold: self.threshold.recorded_config(),
            ..Config::recorded(input, self.filter.recorded_config()?, output)
        })
    }
}
