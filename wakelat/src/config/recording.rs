//! What `why` shows of a recording, and where a recording is written.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use super::{ConfigError, GroupingConfig, OutputConfig, check_why};
use wakelat_core::{aggregate::key::Key, recording::CollectedEvents};

/// What `record` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordConfig {
    /// The events that are collected besides switches.
    pub collected: CollectedEvents,
    /// The labels of the recording.
    pub labels: BTreeMap<String, String>,
}

/// What `why` shows of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyRecordedConfig {
    /// The file; `-` is standard input.
    pub input: PathBuf,
    /// Refuse a recording whose end is missing.
    pub is_strict: bool,
    /// Grouping keys.
    pub by: Vec<Key>,
    /// Number of groups that are kept before further ones are merged into one.
    pub max_groups: usize,
    /// Number of the longest waits whose timelines are shown.
    pub worst: usize,
    /// Show every table, with more culprits.
    pub details: bool,
    /// How and where the result is shown.
    pub output: OutputConfig,
}

impl WhyRecordedConfig {
    /// Checks that the recording can be read, and shown in this form. Shows no timelines and no details.
    pub(crate) fn new(
        input: &Path,
        is_strict: bool,
        grouping: GroupingConfig,
        output: OutputConfig,
    ) -> Result<Self, ConfigError> {
        output.check_input("--input", input)?;
        check_why(&grouping, &output)?;
        let GroupingConfig { by, max_groups, .. } = grouping;
        Ok(Self { input: input.to_owned(), is_strict, by, max_groups, worst: 0, details: false, output })
    }
}

/// Parses a label, `KEY=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a label; expected KEY=VALUE")),
    }
}

/// The labels by key.
///
/// # Errors
/// If a key is given more than once.
pub(crate) fn labels(given: &[(String, String)]) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut labels = BTreeMap::new();
    for (key, value) in given {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(ConfigError::usage("--label", format!("`{key}` is given more than once; give it once")));
        }
    }
    Ok(labels)
}

/// Checks that a recording can be written to `output`.
pub(super) fn check_output(output: &OutputConfig) -> Result<(), ConfigError> {
    if output.path.is_none() && io::stdout().is_terminal() {
        let why = "cannot write a recording to a terminal; give a file, or redirect standard output to a file or pipe";
        return Err(ConfigError::usage("--output", why));
    }
    Ok(())
}
