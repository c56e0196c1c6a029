//! The privileges of this process, and how to become root.

use std::path::PathBuf;

use wakelat_build::program_in_path;

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The path of `sudo`, if it is installed.
pub fn sudo() -> Option<PathBuf> {
    program_in_path("sudo")
}
