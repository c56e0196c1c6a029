//! The flags that every measurement takes.

use clap::Args;

use super::{FilterFlags, OutputFlags, ResourceFlags, ThresholdFlags, WindowFlags};
use crate::config::number;

/// The flags that every measurement takes.
#[derive(Clone, Debug, Args)]
pub struct CommonFlags {
    /// How long to measure.
    #[command(flatten)]
    pub window: WindowFlags,
    /// Which tasks are measured.
    #[command(flatten)]
    pub filter: FilterFlags,
    /// The threshold.
    #[command(flatten)]
    pub threshold: ThresholdFlags,
    /// How and where the result is shown.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Resources of the machine that the measurement uses.
    #[command(flatten)]
    pub resources: ResourceFlags,
    /// Limit of the overhead: millionths of the time of all CPUs.
    #[arg(long, value_name = "PERCENT", value_parser = number::percent_as_ppm, allow_hyphen_values = true)]
    #[arg(
        help = "Keep overhead below this share of all CPU time, such as 0.5%, by sampling tasks at random and pausing"
    )]
    #[arg(help_heading = "Resources")]
    pub max_overhead: Option<u32>,
}
