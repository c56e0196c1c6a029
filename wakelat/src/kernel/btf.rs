//! What the kernel says of its own types.

use std::{collections::HashSet, path::Path};

use aya_obj::btf::{Btf, BtfKind};
use bytes::Buf as _;

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
        let Some(strings) = strings(&bytes) else {
            return Self::Unusable(format!(
                "cannot understand `{}`: it is no BTF of this machine's kind",
                path.display()
            ));
        };
        // Only the names are looked at: what stands behind them takes the loader a third of a start to read.
        let names: HashSet<&[u8]> = strings.split(|byte| *byte == 0).filter(|name| name.starts_with(b"b")).collect();
        Self::Present {
            // The kernel declares one typedef per tracepoint for typed programs (include/trace/bpf_probe.h).
            missing_tracepoints: TRACEPOINTS
                .into_iter()
                .filter(|name| !names.contains(format!("btf_trace_{name}").as_bytes()))
                .collect(),
            // kernel/bpf/ringbuf.c. The type rather than the version: distributions bring it to older kernels.
            ring_buffer: names.contains(&b"bpf_ringbuf"[..]),
        }
    }
}

/// The names in a BTF, each with a NUL behind it (`struct btf_header`, include/uapi/linux/btf.h); none where it is not one.
fn strings(btf: &[u8]) -> Option<&[u8]> {
    const MAGIC: u16 = 0xeb9f;
    const VERSION: u8 = 1;
    const HEADER: usize = 24;
    let mut header = btf.get(..HEADER)?;
    let (magic, version, _flags) = (header.get_u16_ne(), header.get_u8(), header.get_u8());
    let length = usize::try_from(header.get_u32_ne()).ok()?;
    let (_types_at, _types_length) = (header.get_u32_ne(), header.get_u32_ne());
    let (at, strings) = (usize::try_from(header.get_u32_ne()).ok()?, usize::try_from(header.get_u32_ne()).ok()?);
    if magic != MAGIC || version != VERSION {
        return None;
    }
    btf.get(length.checked_add(at)?..)?.get(..strings)
}

/// Whether the kernel has the tracepoint `name`: it declares one typedef for each, for typed programs
/// (include/trace/bpf_probe.h).
pub fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    btf.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_ok()
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

    #[test]
    fn a_name_counts_only_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinux");
        let mut btf = Btf::new();
        for name in ["btf_trace_sched_switch", "btf_trace_sched_wakeup_new", "bpf_ringbuf_area"] {
            btf.add_string(name);
        }
        std::fs::write(&path, btf.to_bytes()).unwrap();
        let missing_tracepoints = vec!["sched_waking", "sched_wakeup"];
        assert_eq!(KernelBtf::read(&path), KernelBtf::Present { missing_tracepoints, ring_buffer: false });
    }
}
