//! How long to measure.

use clap::Args;

use crate::config::{WindowConfig, duration};

/// How long to measure.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Time (30s, 5m, 1h30m, 500ms; a bare number is seconds)")]
pub struct WindowFlags {
    /// Measure for this long [default: until Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = duration::seconds, allow_hyphen_values = true)]
    pub duration: Option<u64>,

    /// Warm up for this long before the window begins, without counting
    #[arg(long, value_name = "TIME", default_value = "0", hide_default_value = true, value_parser = duration::seconds_or_zero, allow_hyphen_values = true)]
    pub warm_up: u64,
}

impl WindowFlags {
    /// How long to measure, with one report at the end.
    pub(super) fn config(&self) -> WindowConfig {
        WindowConfig { duration_ns: self.duration, warm_up_ns: self.warm_up, ..WindowConfig::default() }
    }
}
