//! Captures of `wakelat serve`, and `wakelat capture-process`, which is not for users.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use crate::config::{CaptureProcessConfig, CaptureRule, ConfigError, GivenCapture, duration, recordings_size};

/// Captures.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Captures")]
pub(super) struct CaptureFlags {
    /// Record events when the waits of a cgroup meet this condition, such as 'p99>20ms for 30s'; repeatable
    #[arg(long, value_name = "CONDITION")]
    capture: Vec<CaptureRule>,

    /// Keep the recordings in this directory, created if it does not exist
    #[arg(long, value_name = "DIR")]
    capture_dir: Option<PathBuf>,

    /// Record for this long [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, allow_hyphen_values = true)]
    capture_duration: Option<u64>,

    /// Leave at least this much time between two recordings of one condition [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds_or_zero, allow_hyphen_values = true)]
    capture_interval: Option<u64>,

    /// Keep at most this much in the directory: remove the oldest recordings [default: 200M]
    #[arg(long, value_name = "SIZE", value_parser = recordings_size, allow_hyphen_values = true)]
    capture_size: Option<u64>,
}

impl CaptureFlags {
    /// The settings that are given.
    pub(super) fn given(self) -> GivenCapture {
        GivenCapture {
            conditions: Some(self.capture).filter(|conditions| !conditions.is_empty()),
            dir: self.capture_dir,
            duration_ns: self.capture_duration,
            interval_ns: self.capture_interval,
            max_bytes: self.capture_size,
        }
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
        let settings = captures.given().settings().map_err(|why| ConfigError::usage("--capture", why))?;
        Ok(CaptureProcessConfig { settings, record_arguments, keep_privileges })
    }
}
