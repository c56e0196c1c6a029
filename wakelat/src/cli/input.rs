//! A recording instead of a measurement.

use std::path::PathBuf;

use clap::{Args, Id};

use super::{CliError, CommonFlags};
use crate::config::{Config, ConfigError, RecordedInput};
use wakelat_kernel::Machine;

/// A recording instead of a measurement.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Recording")]
pub struct InputFlags {
    /// Read a recording of `wakelat record` instead of measuring; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Refuse a recording whose end is missing
    #[arg(long, requires = "input")]
    pub strict: bool,
}

/// The flags of a measurement: a recording determines them, or does not need them.
pub(super) const OF_MEASUREMENT: [&str; 18] = [
    "attach",
    "btf",
    "collect",
    "command",
    "drain_interval",
    "duration",
    "folded",
    "group_memory",
    "include_self",
    "keep_privileges",
    "max_overhead",
    "max_tasks",
    "mode",
    "on_threshold",
    "ring_size",
    "rt_priority",
    "stacks",
    "warm_up",
];

/// Makes `--input` conflict with the flags of a measurement.
pub(super) fn with_input(command: clap::Command) -> clap::Command {
    let ids: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let conflicts: Vec<Id> = ids.into_iter().filter(|id| OF_MEASUREMENT.contains(&id.as_str())).collect();
    command.mut_arg("input", |arg| arg.conflicts_with_all(conflicts))
}

impl InputFlags {
    /// The common configuration, and the machine if it is measured. `given`: whether a flag was given, and has not only
    /// its default.
    pub(super) fn config(
        &self,
        common: &CommonFlags,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<(Config, Option<Machine>), CliError> {
        let Some(path) = &self.input else {
            let machine = machine()?;
            return Ok((common.config(&machine)?, Some(machine)));
        };
        let input = RecordedInput {
            path: path.clone(),
            is_strict: self.strict,
            cgroups: common.filter.cgroup.iter().map(|path| RecordedInput::cgroup(path)).collect(),
            has_given_classes: given("class"),
            has_given_from: given("from"),
        };
        Ok((recorded(common, input)?, None))
    }
}

/// The configuration of a view of a recording.
fn recorded(common: &CommonFlags, input: RecordedInput) -> Result<Config, ConfigError> {
    let output = common.output.config()?;
    output.check_input("--input", &input.path)?;
    common.recorded_config(input, output)
}
