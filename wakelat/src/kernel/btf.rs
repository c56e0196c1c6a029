//! What the kernel says of its own types.

use std::path::Path;

use aya_obj::btf::{Btf, BtfKind};

/// The tracepoints that wakelat's programs sit on.
pub const TRACEPOINTS: [&str; 4] = ["sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_switch"];

/// What the kernel says of its own types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelBtf {
    /// Nothing: there is no such file.
    Missing,
    /// The file is there, but cannot be used; why.
    Unusable(String),
    /// It can be used.
    Present {
        /// Those of [`TRACEPOINTS`] that the kernel lacks.
        missing_tracepoints: Vec<&'static str>,
        /// The kernel has the BPF ring buffer (mainline from 5.8 on).
        ring_buffer: bool,
    },
}

impl KernelBtf {
    /// Reads the file, which is `/sys/kernel/btf/vmlinux` on a kernel with `CONFIG_DEBUG_INFO_BTF`.
    pub fn read(path: &Path) -> Self {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::Missing,
            Err(error) => return Self::Unusable(format!("cannot read `{}`: {error}", path.display())),
        };
        match Btf::parse(&bytes, Default::default()) {
            Ok(btf) => Self::Present {
                missing_tracepoints: TRACEPOINTS.into_iter().filter(|name| !has_tracepoint(&btf, name)).collect(),
                // kernel/bpf/ringbuf.c. The type rather than the version: distributions bring it to older kernels.
                ring_buffer: has(&btf, "bpf_ringbuf", BtfKind::Struct),
            },
            Err(error) => Self::Unusable(format!("cannot understand `{}`: {error}", path.display())),
        }
    }
}

/// Whether the kernel has the tracepoint `name`: it declares one typedef for each, for typed programs
/// (include/trace/bpf_probe.h).
pub fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    has(btf, &format!("btf_trace_{name}"), BtfKind::Typedef)
}

fn has(btf: &Btf, name: &str, kind: BtfKind) -> bool {
    btf.id_by_type_name_kind(name, kind).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_and_one_that_is_no_btf_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(KernelBtf::read(&directory.path().join("vmlinux")), KernelBtf::Missing);
        std::fs::write(directory.path().join("garbage"), [0xff; 64]).unwrap();
        assert!(matches!(KernelBtf::read(&directory.path().join("garbage")), KernelBtf::Unusable(_)));
        std::fs::write(directory.path().join("short"), b"x").unwrap();
        assert!(matches!(KernelBtf::read(&directory.path().join("short")), KernelBtf::Unusable(_)));
    }

    #[test]
    fn a_btf_without_the_types_lacks_the_features() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinux");
        std::fs::write(&path, Btf::new().to_bytes()).unwrap();
        let expected = KernelBtf::Present { missing_tracepoints: TRACEPOINTS.to_vec(), ring_buffer: false };
        assert_eq!(KernelBtf::read(&path), expected);
    }
}
