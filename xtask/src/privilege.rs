//! The privileges of this process, and how to become root.

use std::path::PathBuf;

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The path of `sudo`, if it is installed.
pub fn sudo() -> Option<PathBuf> {
    program("sudo")
}

/// The path of a program in `PATH`, if it is there.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
