//! The commands of `bpf(2)` that aya does not offer.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
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

/// Puts the map `inner` into the array of maps `outer`. Returns once no program uses the former map.
///
/// # Errors
/// If the kernel refuses the update.
pub fn put_inner_map(outer: BorrowedFd<'_>, index: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    let value = inner.as_raw_fd();
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let update = unsafe { &mut attr.__bindgen_anon_2 };
    update.map_fd = outer.as_raw_fd() as u32;
    update.key = (&raw const index).addr() as u64;
    update.__bindgen_anon_1.value = (&raw const value).addr() as u64;
    // SAFETY: the key and the value have the sizes that an array of maps has, and outlive the call.
    unsafe { syscall(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }.map(|_| ())
}
