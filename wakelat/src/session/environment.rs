//! What a run uses of this machine.

use std::path::PathBuf;

use wakelat_kernel::{Features, btf::KernelBtf, tracefs_access::TracefsAccess};

/// The machine that the run measures.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// Mount point of the cgroup v2 hierarchy, if it is mounted.
    pub cgroup_mount: Option<PathBuf>,
    /// The file with the kernel's BTF, if there is one.
    pub btf: Option<PathBuf>,
    /// Mount point of tracefs, if it is mounted.
    pub tracefs: Option<PathBuf>,
}

impl Environment {
    /// What a run uses of a machine with these features.
    pub fn new(features: Features) -> Self {
        Self {
            kernel: features.release.to_string(),
            cgroup_mount: features.cgroup_v2,
            btf: matches!(features.btf, KernelBtf::Present { .. }).then_some(features.btf_path),
            tracefs: match features.tracefs {
                TracefsAccess::Open { path, .. } => Some(path),
                TracefsAccess::Denied(_) | TracefsAccess::NotMounted => None,
            },
        }
    }
}
