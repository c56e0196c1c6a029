//! The mount points of procfs and sysfs, which tests can replace.

use std::path::PathBuf;

/// The mount points of procfs and sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Mount point of procfs.
    pub proc: PathBuf,
    /// Mount point of sysfs.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Roots {
    /// Path of the kernel's own BTF.
    pub fn btf(&self) -> PathBuf {
        self.sys.join("kernel/btf/vmlinux")
    }
}
