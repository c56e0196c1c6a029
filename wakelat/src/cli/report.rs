//! `wakelat report`

use clap::Args;

use super::{CliError, CommonFlags, GroupingFlags, InputFlags, export::of_a_recording, why::adjust_from};
use crate::config::{Command, ConfigError, OutputFormat, check_recording_output};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat report -i file.wakelat -o report.html            open it in a browser
  wakelat report -i file.wakelat --comm 'nginx*' -o nginx.html
                                                           only the waits of nginx
  wakelat report -i file.wakelat --by container -o r.html  groups by container
  wakelat why -d 1m --report report.html                   measure, and write the same";

/// Write a recording as one HTML file that opens in any browser
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportFlags {
    #[command(flatten)]
    input: InputFlags,
    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Changes the common flags: all waits, a required input and output, and no flags of a measurement or of other formats.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    of_a_recording(command)
}

impl ReportFlags {
    pub(super) fn command(
        mut self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<Command, CliError> {
        adjust_from(&mut self.common.filter);
        let (mut config, machine) = self.input.config(&self.common, given, machine)?;
        if config.output.format == OutputFormat::Csv {
            return Err(
                ConfigError::usage("--csv", "`report` writes HTML; leave it out, or use `wakelat export`").into()
            );
        }
        check_recording_output(&config.output, "report")?;
        config.set_why(self.grouping.config(&[])?, machine.as_ref())?;
        Ok(Command::Report(config))
    }
}
