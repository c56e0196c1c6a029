//! `wakelat export`

use clap::{Args, ValueEnum};

use super::{CliError, CommonFlags, InputFlags, with_input};
use crate::config::{Config, ExportConfig, ExportFormat, check_recording_output};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat export -i file.wakelat --to perfetto -o file.pftrace     open it in https://ui.perfetto.dev
  wakelat export -i file.wakelat --to perfetto --threshold 1ms -o file.pftrace
                                                                   slices only for waits of 1 ms or more

For CSV and JSON, use `trace --csv` and `trace --all --json` with `-i`.";

/// Convert a recording for another tool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportFlags {
    /// The format: perfetto (switches, wakeups and interrupts, and the components of each wait as slices)
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    to: ExportChoice,

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
}

/// Changes the common flags: all waits, a required input and output, and no flags of a measurement or of other formats.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    let command = with_input(super::why::with_all_waits(command))
        .mut_arg("input", |arg| arg.required(true).help("Read this recording of `wakelat record`; - is standard input"))
        .mut_arg("output", |arg| arg.required(true))
        .mut_arg("threshold", |arg| arg.help("Slices only for waits of at least this length [default: all waits]"));
    let ids: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let is_hidden = |id: &str| {
        super::input::OF_MEASUREMENT.contains(&id) || ["json", "csv", "timestamps", "ascii", "color"].contains(&id)
    };
    ids.into_iter()
        .filter(|id| is_hidden(id.as_str()))
        .fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)))
}

impl ExportFlags {
    pub(super) fn config(
        self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<(Config, ExportConfig), CliError> {
        let (mut config, _) = self.input.config(&self.common, given, machine)?;
        check_recording_output(&config.output, "export")?;
        let ExportChoice::Perfetto = self.to;
        // Shorter waits are a part of the trace, too, only without slices.
        let threshold = config.threshold.take();
        let threshold_ns = threshold.map_or(0, |threshold| threshold.threshold_ns);
        Ok((config, ExportConfig { format: ExportFormat::Perfetto, threshold_ns }))
    }
}
