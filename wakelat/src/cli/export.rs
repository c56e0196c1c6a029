//! `wakelat export`

use clap::{Args, ValueEnum};

use super::{CliError, CommonFlags, InputFlags, with_input};
use crate::config::{
    Command, Config, ConfigError, ExportConfig, ExportFormat, OutputFormat, RECORDED_INTERVAL_NS, TraceRows,
    check_recording_output, duration,
};
#[cfg(feature = "parquet")]
use wakelat_core::aggregate::key::Key;
use wakelat_core::perfetto::MAX_FILES;
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat export -i file.wakelat --to perfetto -o file.pftrace     open it in https://ui.perfetto.dev
  wakelat export -i file.wakelat --to perfetto --threshold 1ms -o file.pftrace
                                                                   slices only for waits of 1 ms or more
  wakelat export -i a.wakelat -i b.wakelat --to perfetto -o both.pftrace
                                                                   two recordings by wall-clock time
  wakelat export -i file.wakelat --to csv -o waits.csv             a row per wait, with its components
  wakelat export -i file.wakelat --to hdr -o waits.hlog            a histogram per second, for HdrHistogram
  wakelat export -i file.wakelat --to parquet -o file              tables for DuckDB: file-waits.parquet, …
  wakelat export -i file.wakelat --to folded -o - | flamegraph.pl > waits.svg
";

/// Convert a recording for another tool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportFlags {
    /// The format: perfetto (every event, waits as slices), csv or json (each wait with its components), folded (a flame graph whose frames are cgroup, task, component and culprit), hdr (HdrHistogram's interval log), parquet (tables of waits, components, switches and intervals, a file each)
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    to: ExportChoice,

    /// Length of an interval of `--to hdr` and `--to parquet` [default: 1s, or that of `record --keep hist` if it is longer]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, allow_hyphen_values = true)]
    interval: Option<u64>,

    #[command(flatten)]
    input: InputFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// A format of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportChoice {
    /// A trace for Perfetto
    Perfetto,
    /// A row per wait
    Csv,
    /// A document per wait
    Json,
    /// Folded stacks
    Folded,
    /// A log of HdrHistogram
    Hdr,
    /// Tables
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Changes the common flags: as of any command that writes a recording in another format.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    of_a_recording(command).mut_arg("threshold", |arg| {
        arg.help("Only waits of at least this length; with perfetto, slices only for these [default: all waits]")
    })
}

/// Changes the common flags for a command that writes a recording in another format: all waits, a required input and
/// output, and no flags of a measurement or of other formats.
pub(super) fn of_a_recording(command: clap::Command) -> clap::Command {
    let command = with_input(super::why::with_all_waits(command))
        .mut_arg("input", |arg| {
            let help =
                "Read this recording, or text of ftrace, trace-cmd or perf script; - is standard input; repeatable";
            arg.required(true).help(help)
        })
        .mut_arg("output", |arg| arg.required(true));
    let ids: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let is_hidden = |id: &str| {
        super::input::OF_MEASUREMENT.contains(&id) || ["json", "csv", "timestamps", "ascii", "color"].contains(&id)
    };
    ids.into_iter()
        .filter(|id| is_hidden(id.as_str()))
        .fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)))
}

impl ExportChoice {
    /// Whether the format has histograms per interval.
    fn has_intervals(self) -> bool {
        match self {
            Self::Hdr => true,
            #[cfg(feature = "parquet")]
            Self::Parquet => true,
            _ => false,
        }
    }
}

impl ExportFlags {
    pub(super) fn command(
        mut self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<Command, CliError> {
        if !given("from") {
            super::why::adjust_from(&mut self.common.filter);
        }
        if self.interval.is_some() && !self.to.has_intervals() {
            let why = "only applies to `--to hdr` and `--to parquet`; leave it out";
            return Err(ConfigError::usage("--interval", why).into());
        }
        let (mut config, _) = self.input.config(&self.common, given, machine)?;
        if config.output.format != OutputFormat::Human {
            let flag = if self.common.output.json { "--json" } else { "--csv" };
            return Err(ConfigError::usage(flag, "`--to` determines the format; leave it out").into());
        }
        let format = match self.to {
            ExportChoice::Perfetto if config.input.as_ref().is_some_and(|input| input.paths.len() > MAX_FILES) => {
                let why = format!("a trace for Perfetto has at most {MAX_FILES} recordings; export fewer at a time");
                return Err(ConfigError::usage("--input", why).into());
            }
            ExportChoice::Perfetto => {
                check_recording_output(&config.output, "export")?;
                ExportFormat::Perfetto
            }
            ExportChoice::Folded => ExportFormat::Folded,
            ExportChoice::Hdr => {
                set_intervals(&mut config, self.interval)?;
                ExportFormat::IntervalLog
            }
            #[cfg(feature = "parquet")]
            ExportChoice::Parquet => {
                set_intervals(&mut config, self.interval)?;
                config.by = vec![Key::Cgroup, Key::Comm];
                config.by.extend(config.shows_several_files().then_some(Key::Recording));
                ExportFormat::Parquet { prefix: config.set_several_files("`--to parquet`")? }
            }
            ExportChoice::Csv | ExportChoice::Json => {
                let is_csv = self.to == ExportChoice::Csv;
                config.output.format = if is_csv { OutputFormat::Csv } else { OutputFormat::Json };
                config.set_breakdown()?;
                return Ok(Command::Trace(config, TraceRows::Breakdowns(None)));
            }
        };
        let threshold_ns = match format {
            // Shorter waits are a part of the trace, too, only without slices.
            ExportFormat::Perfetto => config.threshold.take().map_or(0, |threshold| threshold.threshold_ns),
            _ => 0,
        };
        Ok(Command::Export(config, ExportConfig { format, threshold_ns }))
    }
}

/// A histogram per interval, of the given length if there is one.
fn set_intervals(config: &mut Config, given_ns: Option<u64>) -> Result<(), ConfigError> {
    match given_ns {
        Some(interval_ns) => config.set_intervals(Some(interval_ns), None),
        None => config.set_default_intervals(RECORDED_INTERVAL_NS),
    }
}
