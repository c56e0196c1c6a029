//! The flags that every measurement takes.

use clap::Args;

use super::{FilterFlags, OutputFlags, ResourceFlags, ThresholdFlags, WindowFlags};

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
}
