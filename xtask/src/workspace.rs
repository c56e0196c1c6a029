//! Locates the workspace and its cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    // The run-time value takes precedence: the checkout may have moved since xtask was compiled.
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// A command for the cargo that runs xtask, in the workspace.
pub fn cargo() -> Command {
    let mut cargo = Command::new(cargo_path());
    cargo.current_dir(root());
    cargo
}

/// A command for the compiler of [`cargo`]: `RUSTC` if it is set, else the one beside cargo, else the one
/// in `PATH`.
pub fn rustc() -> Command {
    let beside = || Some(cargo_path().with_file_name("rustc")).filter(|rustc| rustc.is_file());
    let configured = env::var_os("RUSTC").map(PathBuf::from);
    let mut rustc = Command::new(configured.or_else(beside).unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(root());
    rustc
}

/// The executable that [`cargo`] runs.
pub fn cargo_path() -> PathBuf {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}
