//! `cargo xtask run -- ARGS`: builds wakelat and becomes it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::setup::Purpose;
use crate::{build, privilege, setup};

#[derive(clap::Args)]
pub struct RunArgs {
    /// The arguments of wakelat
    #[arg(last = true)]
    wakelat: Vec<std::ffi::OsString>,
}

/// Ends only in an error: a process that replaces this one has its own exit code and gets every signal.
pub fn main(args: &RunArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Build)?;
    let binary = build::release()?.binary;
    let mut wakelat = if privilege::is_root() {
        Command::new(&binary)
    } else if let Some(sudo) = privilege::sudo() {
        let mut sudo = Command::new(sudo);
        sudo.arg("--").arg(&binary);
        sudo
    } else {
        bail!("wakelat reads the kernel and needs root, and there is no `sudo`; run `{}` as root", binary.display());
    };
    Err(wakelat.args(&args.wakelat).exec()).with_context(|| format!("cannot run `{}`", binary.display()))
}
