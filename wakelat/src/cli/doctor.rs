//! `wakelat doctor`

use clap::Args;

use crate::config::Doctor;

/// What this kernel and this user can do, and what to do about the rest; needs no privilege
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 where measuring is possible, 1 where it is not")]
pub(super) struct DoctorFlags {
    /// The checklist as JSON
    #[arg(long)]
    json: bool,
}

impl DoctorFlags {
    pub(super) fn doctor(&self) -> Doctor {
        Doctor { json: self.json }
    }
}
