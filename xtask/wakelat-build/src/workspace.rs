//! Locates the workspace and its cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    // The run-time value takes precedence: the checkout may have moved since this crate was compiled.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    above(Path::new(&manifest)).map_or_else(PathBuf::new, Path::to_owned)
}

/// The workspace of a member's directory: members may be nested, and only the workspace has a `Cargo.lock`.
fn above(member: &Path) -> Option<&Path> {
    member.ancestors().find(|directory| directory.join("Cargo.lock").is_file())
}

/// A command for the cargo that runs this program, in the workspace.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_above_members_at_every_depth() {
        let root = root();
        assert!(root.join("ARCHITECTURE.md").is_file(), "{}", root.display());
        for member in ["xtask", "xtask/wakelat-build", "."] {
            assert_eq!(above(&root.join(member)), Some(&*root), "{member}");
        }
    }
}
