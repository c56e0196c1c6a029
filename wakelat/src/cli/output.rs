//! How and where the result is shown.

use std::path::PathBuf;

use clap::Args;

use crate::config::Colour;

/// How and where the result is shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// JSON, one document per interval, integers in ns
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,

    /// CSV, integers in ns
    #[arg(long)]
    pub csv: bool,

    /// Nothing but the result
    #[arg(short, long)]
    pub quiet: bool,

    /// Show the wall-clock time
    #[arg(short = 'T', long)]
    pub timestamps: bool,

    /// Where, and how it is to look.
    #[command(flatten)]
    pub render: RenderFlags,
}

/// Where the result is written, and how it is to look there: what every command that shows something takes.
#[derive(Clone, Debug, Default, Args)]
pub struct RenderFlags {
    /// Write to a file; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Nothing but ASCII, as where the locale is not UTF-8
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
