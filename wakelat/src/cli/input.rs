//! A recording instead of a measurement, or of it.

use std::path::PathBuf;

use clap::{Args, Id};

use super::{
    ClassName, CliError, CommonFlags, FromEvent,
    collected_events::{CollectFlags, DEFAULT},
    why::adjust_from,
};
use crate::config::{
    Config, OutputConfig, RecordConfig, RecordedInput, RecordedMeasurement, archive, label, labels, time_point,
    time_range,
};
use wakelat_core::recording::{MoreEvents, TimePoint, TimeRange};
use wakelat_kernel::Machine;

/// A recording instead of a measurement.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Recording")]
pub struct InputFlags {
    /// Read a recording, or text of ftrace, trace-cmd or perf script, instead of measuring; - is standard input; repeatable
    #[arg(short, long, value_name = "FILE")]
    pub input: Vec<PathBuf>,

    /// Refuse a truncated recording
    #[arg(long, requires = "input")]
    pub strict: bool,

    /// Begin at this time of the recording: 10s, 1m30s, or 2026-11-24T10:03:07
    #[arg(long, value_name = "TIME", value_parser = time_point, requires = "input", allow_hyphen_values = true)]
    pub since: Option<TimePoint>,

    /// End at this time of the recording
    #[arg(long, value_name = "TIME", value_parser = time_point, requires = "input", allow_hyphen_values = true)]
    pub until: Option<TimePoint>,
}

/// A recording instead of a measurement, or of it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordingFlags {
    /// The recording that is read.
    #[command(flatten)]
    pub input: InputFlags,

    /// Show what is measured, and also record it for other views
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    pub record: Option<PathBuf>,

    /// Label the recording, such as release=42; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, requires = "record")]
    pub label: Vec<(String, String)>,
}

/// The flags of a measurement: a recording determines them, or does not need them.
pub(super) const OF_MEASUREMENT: [&str; 17] = [
    "attach",
    "btf",
    "collect",
    "command",
    "drain_interval",
    "duration",
    "group_memory",
    "include_self",
    "keep_privileges",
    "max_overhead",
    "max_tasks",
    "mode",
    "on_threshold",
    "ring_size",
    "rt_priority",
    "tree",
    "warm_up",
];

/// The flags of a measurement that is not recorded: it has samples of all tasks.
const UNRECORDED: [&str; 2] = ["max_overhead", "mode"];

/// Makes `--input` conflict with the flags of a measurement, and `--record` with those of one that is not recorded.
pub(super) fn with_input(command: clap::Command) -> clap::Command {
    let ids: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let of = |flags: &[&str]| ids.iter().filter(|id| flags.contains(&id.as_str())).cloned().collect::<Vec<Id>>();
    let command = command.mut_arg("input", |arg| arg.conflicts_with_all(of(&OF_MEASUREMENT)));
    if ids.iter().any(|id| id == "record") {
        command.mut_arg("record", |arg| arg.conflicts_with_all(of(&UNRECORDED)))
    } else {
        command
    }
}

impl RecordingFlags {
    /// The common configuration, and the machine if it is measured without a recording. `given`: as of
    /// [`InputFlags::config`]. `collect` and `more`: what is recorded besides switches.
    pub(super) fn config(
        &self,
        common: &CommonFlags,
        collect: Option<&CollectFlags>,
        more: MoreEvents,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<(Config, Option<Machine>), CliError> {
        let Some(path) = &self.record else { return self.input.config(common, given, machine) };
        let output = common.output.config()?;
        output.check_beside("--record", path)?;
        let mut all = common.clone();
        // As `record` does, unless it is requested otherwise.
        if !given("class") {
            all.filter.class = vec![ClassName::Wakeup, ClassName::New, ClassName::Preempted];
        }
        if !given("from") {
            all.filter.from = FromEvent::Waking;
        }
        adjust_from(&mut all.filter);
        let mut measured = all.config(&machine()?)?;
        measured.output = OutputConfig { path: Some(path.clone()), quiet: output.quiet, ..OutputConfig::default() };
        measured.set_recorded()?;
        let collected = collect.map_or(DEFAULT, CollectFlags::collect);
        let record = RecordConfig { more, ..RecordConfig::of_events(collected, labels(&self.label)?) };
        let measured = RecordedMeasurement { config: measured, record };
        let input = self.input.recorded(std::slice::from_ref(path), common, given, Some(measured));
        Ok((common.recorded_config(input, output)?, None))
    }
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
        if self.input.is_empty() {
            let machine = machine()?;
            return Ok((common.config(&machine)?, Some(machine)));
        }
        let output = common.output.config()?;
        self.input.iter().try_for_each(|path| output.check_input("--input", path))?;
        let mut input = self.recorded(&archive::expand(&self.input)?, common, given, None);
        input.range = time_range(self.since, self.until)?;
        input.check_files()?;
        Ok((common.recorded_config(input, output)?, None))
    }

    fn recorded(
        &self,
        paths: &[PathBuf],
        common: &CommonFlags,
        given: impl Fn(&str) -> bool,
        measured: Option<RecordedMeasurement>,
    ) -> RecordedInput {
        RecordedInput {
            paths: paths.to_owned(),
            measured: measured.map(Box::new),
            is_strict: self.strict,
            range: TimeRange::default(),
            cgroups: common.filter.cgroup.iter().map(|path| RecordedInput::cgroup(path)).collect(),
            has_given_classes: given("class"),
            has_given_from: given("from"),
            has_given_keys: false,
            has_default_interval: false,
        }
    }
}
