//! How and where the result is shown.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValue};

use crate::config::{Colour, ConfigError, OutputConfig};
use wakelat_core::render::OutputFormat;

/// How and where the result is shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Print JSON (one document per report, wait or event), integers in ns
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,

    /// Print CSV, integers in ns
    #[arg(long)]
    pub csv: bool,

    /// Print only the result
    #[arg(short, long)]
    pub quiet: bool,

    /// Show wall-clock times
    #[arg(short = 'T', long)]
    pub timestamps: bool,

    /// Destination and style.
    #[command(flatten)]
    pub render: RenderFlags,
}

/// Where the result is written, and in which style: flags of every command that shows something.
#[derive(Clone, Debug, Default, Args)]
pub struct RenderFlags {
    /// Write to a file; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// The style.
    #[command(flatten)]
    pub style: StyleFlags,
}

/// The style of text.
#[derive(Clone, Debug, Default, Args)]
pub struct StyleFlags {
    /// Use only ASCII; the default if the locale is not UTF-8
    #[arg(long, help_heading = "Output")]
    pub ascii: bool,

    /// When to use colour: auto, always, never
    #[arg(
        long,
        visible_alias = "colour",
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub color: Colour,
}

impl ValueEnum for Colour {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Auto, Self::Always, Self::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let name = match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        };
        Some(name.into())
    }
}

impl OutputFlags {
    /// The configuration of the output.
    ///
    /// # Errors
    /// If the file is a directory.
    pub(super) fn config(&self) -> Result<OutputConfig, ConfigError> {
        let format = match (self.json, self.csv) {
            (true, _) => OutputFormat::Json,
            (false, true) => OutputFormat::Csv,
            (false, false) => OutputFormat::Human,
        };
        Ok(OutputConfig { format, quiet: self.quiet, timestamps: self.timestamps, ..self.render.config()? })
    }
}

impl RenderFlags {
    /// The configuration of the output, as text.
    ///
    /// # Errors
    /// If the file is a directory.
    pub(super) fn config(&self) -> Result<OutputConfig, ConfigError> {
        Ok(OutputConfig {
            ascii: self.style.ascii,
            colour: self.style.color,
            ..OutputConfig::to(self.output.as_deref())?
        })
    }
}
