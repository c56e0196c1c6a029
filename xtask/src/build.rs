//! `cargo xtask build`: builds the release of wakelat for this machine.

use std::process::ExitCode;

use wakelat_build::cargo_build;

use crate::setup::{self, Purpose};

#[derive(clap::Args)]
pub struct BuildArgs {}

/// Builds wakelat and prints the path of the program.
pub fn main(_: &BuildArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Build)?;
    println!("{}", cargo_build::release()?.binary.display());
    Ok(ExitCode::SUCCESS)
}
