//! `cargo xtask run -- ARGS`: builds wakelat and replaces this process with it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use wakelat_build::cargo_build;

use crate::setup::Purpose;
use crate::{privilege, setup};

#[derive(clap::Args)]
pub struct RunArgs {
    /// Arguments for wakelat
    #[arg(last = true)]
    wakelat: Vec<std::ffi::OsString>,
}

/// Builds wakelat and replaces this process with it, so that wakelat gets every signal and its exit code is
/// the command's. Returns only on error.
pub fn main(args: &RunArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Build)?;
    let binary = cargo_build::release()?.binary;
    let mut wakelat = if privilege::is_root() {
        Command::new(&binary)
    } else if let Some(sudo) = privilege::sudo() {
        let mut sudo = Command::new(sudo);
        sudo.arg("--").arg(&binary);
        sudo
    } else {
        bail!("wakelat needs root, and there is no `sudo`; run `{}` as root", binary.display());
    };
    Err(wakelat.args(&args.wakelat).exec()).with_context(|| format!("cannot run `{}`", binary.display()))
}
