//! `wakelat doctor`

use clap::Args;

use super::{OutputFlags, RenderFlags};
use crate::config::{ConfigError, OutputConfig};

/// Check what works with this kernel and user, and how to get the rest; needs no privileges
#[derive(Clone, Debug, Args)]
#[command(after_help = "Exit codes: 0 if wakelat can measure, 1 if it cannot")]
pub struct DoctorFlags {
    /// Print the checklist as one JSON document
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Where and how the checklist is written.
    #[command(flatten)]
    pub render: RenderFlags,
}

impl DoctorFlags {
    /// How and where the checklist is written.
    pub(super) fn output(self) -> Result<OutputConfig, ConfigError> {
        OutputFlags { json: self.json, render: self.render, ..OutputFlags::default() }.config()
    }
}
