//! How and where the result is shown.

use std::path::{Path, PathBuf};

use super::ConfigError;
use crate::cli::OutputFlags;

use crate::sink::Format;

/// How and where the result is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConfig {
    /// For whom.
    pub format: Format,
    /// The file to write to; none for standard output.
    pub path: Option<PathBuf>,
    /// Nothing but the result: no progress, no notes.
    pub quiet: bool,
    /// The wall-clock time at every interval and line.
    pub timestamps: bool,
    /// Nothing but ASCII, whatever the locale.
    pub ascii: bool,
    /// When to use colour.
    pub colour: Colour,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl OutputConfig {
    pub(crate) fn new(flags: &OutputFlags) -> Result<Self, ConfigError> {
        let path = flags.paper.output.as_deref().filter(|path| *path != Path::new("-"));
        if path.is_some_and(Path::is_dir) {
            let why = format!(
                "`{}` is a directory; expected a file or `-`",
                flags.paper.output.as_deref().unwrap_or(Path::new("")).display()
            );
            return Err(ConfigError::usage("--output", why));
        }
        Ok(Self {
            format: match (flags.json, flags.csv) {
                (true, _) => Format::Json,
                (false, true) => Format::Csv,
                (false, false) => Format::Human,
            },
            path: path.map(Path::to_owned),
            quiet: flags.quiet,
            timestamps: flags.timestamps,
            ascii: flags.paper.ascii,
            colour: flags.paper.color,
        })
    }
}
