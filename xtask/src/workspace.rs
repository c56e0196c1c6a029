//! Where the workspace is, and its cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    // What cargo says now, not what it said when it compiled us: the checkout may have moved since.
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// The cargo that runs us, in the workspace.
pub fn cargo() -> Command {
    let mut cargo = Command::new(cargo_path());
    cargo.current_dir(root());
    cargo
}

/// The compiler of [`cargo`]: the one that it is told to use, else the one beside it, else the one on the path.
pub fn rustc() -> Command {
    let beside = || Some(cargo_path().with_file_name("rustc")).filter(|rustc| rustc.is_file());
    let told = env::var_os("RUSTC").map(PathBuf::from);
    let mut rustc = Command::new(told.or_else(beside).unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(root());
    rustc
}

/// The program of [`cargo`].
pub fn cargo_path() -> PathBuf {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}
