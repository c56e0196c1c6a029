//! The flight recorder.

use clap::Args;

use crate::config::{ConfigError, FlightRecorderConfig, duration, number, size};

/// The flight recorder.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Flight recorder")]
pub(super) struct FlightRecorderFlags {
    /// Keep only the events of the last TIME, in memory; write them to a file when a wait reaches --threshold, --check fails, or on SIGUSR1 or `wakelat dump`
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, allow_hyphen_values = true, conflicts_with_all = ["warm_up", "on_threshold"])]
    last: Option<u64>,

    /// Use at most this much memory for the events, which are compressed
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true, default_value = "200M", requires = "last")]
    max_size: u64,

    /// Record for this long after the trigger before writing the file
    #[arg(long, value_name = "TIME", value_parser = duration::seconds_or_zero, allow_hyphen_values = true, default_value = "1s", requires = "last")]
    after: u64,

    /// Ignore triggers for this long after writing a file [default: the time of --last]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds_or_zero, allow_hyphen_values = true, requires = "last")]
    file_interval: Option<u64>,

    /// Keep at most this many files FILE-1, FILE-2, …: remove the oldest
    #[arg(long, value_name = "N", value_parser = number::rows, allow_hyphen_values = true, default_value = "10", requires = "last")]
    max_files: usize,

    /// Run this command with `sh -c` every second, and write a file when it fails; a command that does not end is not a failure
    #[arg(long, value_name = "COMMAND", requires = "last")]
    check: Option<String>,
}

impl FlightRecorderFlags {
    /// The flight recorder, if there is one; `threshold_ns`: the length of a wait that is a trigger.
    ///
    /// # Errors
    /// If the check has no command.
    pub(super) fn config(&self, threshold_ns: Option<u64>) -> Result<Option<FlightRecorderConfig>, ConfigError> {
        let Some(length_ns) = self.last else { return Ok(None) };
        if self.check.as_ref().is_some_and(|command| command.trim().is_empty()) {
            return Err(ConfigError::usage("--check", "the command is empty"));
        }
        Ok(Some(FlightRecorderConfig {
            length_ns,
            max_bytes: usize::try_from(self.max_size).unwrap_or(usize::MAX),
            after_ns: self.after,
            file_interval_ns: self.file_interval.unwrap_or(length_ns),
            max_files: self.max_files,
            threshold_ns,
            check: self.check.clone(),
        }))
    }
}
