//! System calls that no library offers.

use std::io;

use libc::{SECCOMP_FILTER_FLAG_LOG, SECCOMP_FILTER_FLAG_SPEC_ALLOW, SECCOMP_FILTER_FLAG_TSYNC, c_ulong, sock_fprog};
use seccompiler::BpfProgram;

/// Whether the kernel refuses to look up an element of a map with the capabilities in effect. Tries it with a
/// descriptor that is not open: the kernel checks the capability first (`__sys_bpf()`, kernel/bpf/syscall.c).
pub fn refuses_map_lookups() -> bool {
    /// `BPF_MAP_LOOKUP_ELEM` (include/uapi/linux/bpf.h).
    const LOOKUP: libc::c_long = 1;
    /// The map's descriptor, the key, the value and the flags, each in a word of its own.
    #[repr(C, align(8))]
    struct Attributes {
        map_fd: i32,
        unused: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let attributes = Attributes { map_fd: -1, unused: 0, key: 0, value: 0, flags: 0 };
    // SAFETY: the kernel reads as many bytes as it is given, and the null pointers in them are never used, because no map
    // has this descriptor.
    let result = unsafe { libc::syscall(libc::SYS_bpf, LOOKUP, &raw const attributes, size_of::<Attributes>()) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The version of Landlock's interface; `None` if the kernel does not have Landlock or did not enable it at boot
/// (landlock_create_ruleset(2)).
pub fn landlock_abi() -> Option<i32> {
    /// `LANDLOCK_CREATE_RULESET_VERSION` (include/uapi/linux/landlock.h).
    const VERSION: libc::c_long = 1;
    // SAFETY: the kernel is given no attributes, and returns a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION) };
    i32::try_from(version).ok().filter(|version| *version > 0)
}

/// Installs a seccomp filter for all threads. With `logs`, the kernel logs the calls that it refuses
/// (`SECCOMP_FILTER_FLAG_LOG`). It does not switch on mitigations of speculative execution, which before 5.16 it does for
/// every process with a filter, at a cost for each context switch (`SECCOMP_FILTER_FLAG_SPEC_ALLOW`): wakelat runs no code
/// of others.
pub fn install_filter(filter: &BpfProgram, logs: bool) -> io::Result<()> {
    let program = sock_fprog {
        len: filter.len().try_into().map_err(io::Error::other)?,
        // The kernel only reads it.
        filter: filter.as_ptr().cast_mut().cast(),
    };
    let logging: c_ulong = if logs { SECCOMP_FILTER_FLAG_LOG } else { 0 };
    let flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW | logging;
    // SAFETY: the program points to `len` instructions of the layout of `sock_filter`, which outlive the call.
    match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) } {
        0 => Ok(()),
        result if result < 0 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread `{thread}` has another filter"))),
    }
}
