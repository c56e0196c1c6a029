//! Who we are, and how to become root.

use std::path::PathBuf;

/// Whether this process is root.
pub fn is_root() -> bool {
    // SAFETY: geteuid(2) takes nothing, changes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// `sudo`, where it is installed.
pub fn sudo() -> Option<PathBuf> {
    program("sudo")
}

/// A program on the search path.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
