//! BPF programs, links and maps in the kernel.

use std::{
    fs, io,
    os::fd::{FromRawFd as _, OwnedFd},
};

/// An ID of a program, a link or a map. The kernel gives a freed one to another object only after all others
/// (`idr_alloc_cyclic()`, kernel/bpf/syscall.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfObject {
    /// The command of `bpf(2)` that opens the object: Linux, include/uapi/linux/bpf.h.
    open: libc::c_long,
    id: u32,
}

/// The fields of /proc/PID/fdinfo/FD with an ID, and the commands that open these objects.
const KINDS: [(&str, libc::c_long); 3] = [("prog_id:", 13), ("map_id:", 14), ("link_id:", 30)];

/// The programs, links and maps whose descriptors the process `pid` has.
pub fn of_process(pid: u32) -> Vec<BpfObject> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process is running");
    let infos = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let objects = infos.flat_map(|info| {
        let of = |(name, open)| {
            let id = info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())?;
            Some(BpfObject { open, id })
        };
        KINDS.into_iter().filter_map(of).collect::<Vec<_>>()
    });
    objects.collect()
}

impl BpfObject {
    /// Whether the kernel still has the object.
    pub fn exists(self) -> bool {
        let attributes = [self.id, 0, 0, 0];
        // SAFETY: the kernel reads the attributes, which outlive the call, and no more of them than there are.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, self.open, &attributes, size_of_val(&attributes)) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{self:?}: {error}");
            return false;
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        true
    }
}
