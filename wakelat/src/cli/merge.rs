//! `wakelat merge`

use std::path::PathBuf;

use clap::Args;

use crate::config::{Command, Config, ConfigError, FilterConfig, OutputConfig, RecordedInput, archive};

const EXAMPLES: &str = "\
Examples:
  wakelat merge -i web-1.wakelat -i web-2.wakelat -o web.wakelat
  wakelat why -i web.wakelat --by host          the recordings in it, as with -i for each
  wakelat top -i web.wakelat/web-2.wakelat      one of them
  tar xf web.wakelat                            get them back";

/// Combine recordings into one file; -i with that file reads all of them
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MergeFlags {
    /// A recording, or a merged file; repeatable
    #[arg(short, long, value_name = "FILE", required = true)]
    input: Vec<PathBuf>,

    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

impl MergeFlags {
    pub(super) fn command(self) -> Result<Command, ConfigError> {
        let output = OutputConfig { quiet: self.quiet, ..OutputConfig::to(Some(&self.output))? };
        for path in &self.input {
            if path.as_os_str() == "-" {
                return Err(ConfigError::usage("--input", "`-` has no file name to keep; expected files"));
            }
            output.check_input("--input", path)?;
        }
        let input = RecordedInput { paths: archive::expand(&self.input)?, ..RecordedInput::default() };
        input.check_files()?;
        Ok(Command::Merge(Config::recorded(input, FilterConfig::new(true), output)))
    }
}
