//! The commands of `bpf(2)` that aya does not offer.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{bpf_attr, bpf_attr__bindgen_ty_1, bpf_cmd, bpf_map_type};

/// Attributes without any value.
pub fn empty() -> bpf_attr {
    // SAFETY: a union of plain numbers, for which zeros are a valid value.
    unsafe { std::mem::zeroed() }
}

/// Calls `bpf(2)`. Returns its result, which is not negative.
///
/// # Safety
/// Everything that `attr` points to must outlive the call and be as long as the kernel expects of the
/// command.
///
/// # Errors
/// If the kernel refuses.
pub unsafe fn syscall(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i64> {
    // SAFETY: the kernel accesses no more of `attr` than the given length, and the caller vouches for the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as u32, &raw mut *attr, size_of::<bpf_attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Creates a map with one element of `bytes` bytes; `more` sets further attributes.
///
/// # Errors
/// If the kernel refuses the map.
pub fn create_map(
    map_type: bpf_map_type,
    bytes: u32,
    more: impl FnOnce(&mut bpf_attr__bindgen_ty_1),
) -> io::Result<OwnedFd> {
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let create = unsafe { &mut attr.__bindgen_anon_1 };
    create.map_type = map_type as u32;
    (create.key_size, create.value_size, create.max_entries) = (4, bytes, 1);
    more(create);
    // SAFETY: the attributes of a map point to nothing.
    let fd = unsafe { syscall(bpf_cmd::BPF_MAP_CREATE, &mut attr) }?;
    // SAFETY: the kernel has just opened the descriptor for this process, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
