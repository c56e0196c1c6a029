//! Kernel settings that a test changes and restores.

use std::{fs, path::PathBuf};

/// A changed setting; dropping it, also in a panic, restores the old value.
pub struct Sysctl {
    path: PathBuf,
    before: String,
}

impl Sysctl {
    /// Sets `name` (as in `kernel/pid_max`) to `value`.
    pub fn set(name: &str, value: u64) -> Self {
        let path = PathBuf::from("/proc/sys").join(name);
        let before = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
        Self { path, before }
    }

    /// The current value of `name`.
    pub fn get(name: &str) -> u64 {
        let text = fs::read_to_string(PathBuf::from("/proc/sys").join(name));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| panic!("no number in sysctl {name}"))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, self.before.trim()) {
            eprintln!("could not restore {}: {error}", self.path.display());
        }
    }
}
