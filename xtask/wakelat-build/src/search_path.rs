//! Finds programs in `PATH`.

use std::path::PathBuf;

/// The path of a program in `PATH`, if it is there.
pub fn program_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
