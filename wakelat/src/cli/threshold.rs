//! The threshold.

use clap::Args;

use crate::config::{ThresholdAction, span};

/// The threshold.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Threshold")]
pub struct ThresholdFlags {
    /// Count only waits of at least this length, such as 500us [default: all waits]
    #[arg(long, value_name = "TIME", value_parser = span::with_unit, allow_hyphen_values = true)]
    pub threshold: Option<u64>,

    /// Action at the first such wait: continue, stop, signal:NAME:PID or exec:COMMAND [default: continue]
    #[arg(long, value_name = "ACTION", value_parser = ThresholdAction::parse, allow_hyphen_values = true)]
    pub on_threshold: Option<ThresholdAction>,
}
