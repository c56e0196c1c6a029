//! `wakelat doctor`

use clap::Args;

use super::RenderFlags;

/// What this kernel and this user can do, and what to do about the rest; needs no privilege
#[derive(Clone, Debug, Args)]
#[command(after_help = "Exit codes: 0 if measuring is possible, 1 if it is not")]
pub struct DoctorFlags {
    /// The checklist as one JSON document
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Where and how the checklist is written.
    #[command(flatten)]
    pub render: RenderFlags,
}
