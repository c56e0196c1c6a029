//! How and where the result is shown.

use std::path::PathBuf;

use clap::Args;

use crate::config::Colour;

/// How and where the result is shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Print JSON: one document per interval, integers in ns
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
