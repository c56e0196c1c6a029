//! What `why` is to show of a recording, and where one is to be written.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use super::{ConfigError, OutputConfig, check_why, grouping};
use crate::{
    aggregate::key::Key,
    cli::{GroupingFlags, OutputFlags},
};

/// What `why` is to show of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyRecordedConfig {
    /// The file; `-` is standard input.
    pub input: PathBuf,
    /// By what waits are grouped.
    pub by: Vec<Key>,
    /// Groups that are kept apart.
    pub max_groups: usize,
    /// How many of the longest waits are drawn.
    pub worst: usize,
    /// How and where the result is shown.
    pub output: OutputConfig,
}

impl WhyRecordedConfig {
    pub(crate) fn new(
        input: &Path,
        grouping: &GroupingFlags,
        worst: usize,
        output: &OutputFlags,
    ) -> Result<Self, ConfigError> {
        let (by, output) = (grouping::keys_anywhere(grouping, &[])?, OutputConfig::new(output)?);
        output.check_input("--input", input)?;
        check_why(&by, grouping, &output)?;
        Ok(Self { input: input.to_owned(), by, max_groups: grouping.max_groups, worst, output })
    }
}

/// Whether a recording can be written there.
pub(super) fn check_output(output: &OutputConfig) -> Result<(), ConfigError> {
    if output.path.is_none() && io::stdout().is_terminal() {
        let why =
            "a recording is nothing for a terminal; expected a file, or `-` where standard output is one or a pipe";
        return Err(ConfigError::usage("--output", why));
    }
    Ok(())
}
