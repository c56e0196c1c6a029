//! Captures of `wakelat serve`, and `wakelat capture-process`, which is not for users.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use crate::config::{CaptureProcessConfig, CaptureRule, CaptureSettings, ConfigError, duration, recordings_size};

/// Captures.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Captures")]
pub(super) struct CaptureFlags {
    /// Record events when the waits of a cgroup meet this condition, such as 'p99>20ms for 30s'; repeatable
    #[arg(long, value_name = "CONDITION", requires = "capture_dir")]
    capture: Vec<CaptureRule>,

    /// Keep the recordings in this directory, created if it does not exist
    #[arg(long, value_name = "DIR", requires = "capture")]
    capture_dir: Option<PathBuf>,

    /// Record for this long
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, allow_hyphen_values = true, default_value = "10s", requires = "capture")]
    capture_duration: u64,

    /// Leave at least this much time between two recordings of one condition
    #[arg(long, value_name = "TIME", value_parser = duration::seconds_or_zero, allow_hyphen_values = true, default_value = "10m", requires = "capture")]
    capture_interval: u64,

    /// Keep at most this much in the directory: remove the oldest recordings
    #[arg(long, value_name = "SIZE", value_parser = recordings_size, allow_hyphen_values = true, default_value = "200M", requires = "capture")]
    capture_size: u64,
}

impl CaptureFlags {
    /// The settings, if there is a condition.
    ///
    /// # Errors
    /// Errors of [`CaptureSettings::new`].
    pub(super) fn settings(self) -> Result<Option<CaptureSettings>, ConfigError> {
        let Some(dir) = self.capture_dir.filter(|_| !self.capture.is_empty()) else { return Ok(None) };
        let settings = CaptureSettings::new(self.capture, dir);
        Ok(Some(CaptureSettings {
            duration_ns: self.capture_duration,
            interval_ns: self.capture_interval,
            max_bytes: self.capture_size,
            ..settings.map_err(|why| ConfigError::usage("--capture", why))?
        }))
    }
}

/// Record when the service asks for it, started by wakelat itself; see [`crate::commands::capture_process`]
#[derive(Clone, Debug, Args)]
pub(super) struct CaptureProcessFlags {
    #[command(flatten)]
    captures: CaptureFlags,

    /// Keep all privileges
    #[arg(long)]
    keep_privileges: bool,

    /// Arguments of `wakelat record`
    #[arg(last = true)]
    record_arguments: Vec<OsString>,
}

impl CaptureProcessFlags {
    pub(super) fn config(self) -> Result<CaptureProcessConfig, ConfigError> {
        let Self { captures, record_arguments, keep_privileges } = self;
        let settings = captures.settings()?;
        let settings = settings.ok_or_else(|| ConfigError::usage("--capture", "expected a condition"))?;
        Ok(CaptureProcessConfig { settings, record_arguments, keep_privileges })
    }
}
