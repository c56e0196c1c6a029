//! The flags that every measurement takes.

use clap::Args;

use super::{FilterFlags, OutputFlags, ResourceFlags, ThresholdFlags, WindowFlags};
use crate::config::number;

/// The flags that every measurement takes.
#[derive(Clone, Debug, Args)]
pub struct CommonFlags {
    /// For how long.
    #[command(flatten)]
    pub window: WindowFlags,
    /// Who is measured.
    #[command(flatten)]
    pub filter: FilterFlags,
    /// The threshold.
    #[command(flatten)]
    pub threshold: ThresholdFlags,
    /// How and where the result is shown.
    #[command(flatten)]
    pub output: OutputFlags,
    /// What the measurement may take from the machine.
    #[command(flatten)]
    pub resources: ResourceFlags,
    /// What measuring may take from the machine.
    #[arg(long, value_name = "PERCENT", value_parser = number::percent_as_ppm, allow_hyphen_values = true)]
    #[arg(
        help = "Keep below this part of the time of all CPUs, such as 0.5%, by watching a random part of the tasks and of the time"
    )]
    #[arg(help_heading = "Resources")]
    pub max_overhead: Option<u32>,
}
