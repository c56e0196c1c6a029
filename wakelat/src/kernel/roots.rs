//! Where procfs and sysfs are, so that a test can put others in their place.

use std::path::PathBuf;

/// Where procfs and sysfs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Roots {
    /// The kernel's own BTF.
    pub fn btf(&self) -> PathBuf {
        self.sys.join("kernel/btf/vmlinux")
    }
}
