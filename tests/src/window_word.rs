//! The word by which the programs of a running `wakelat` decide whether events count. A test that
//! writes it knows exactly which events no program sees.

use std::{
    fs, io, mem,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr,
};

/// The name of the word's map: the section of the object that the word is in.
const MAP: &[u8] = b".data.open\0";

/// Commands of bpf(2) (`enum bpf_cmd`, include/uapi/linux/bpf.h).
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;

/// The map that contains the word.
pub struct ProgramGate(OwnedFd);

/// The beginning of `struct bpf_map_info` (include/uapi/linux/bpf.h), as long as it was in Linux 4.15.
#[repr(C)]
#[derive(Default)]
struct Info {
    numbers: [u32; 6],
    name: [u8; 16],
}

impl ProgramGate {
    /// Opens the map of process `pid`, which has its programs loaded.
    pub fn of(pid: u32) -> Self {
        let mut maps = map_ids(pid).map(open).filter(|map| name(map).starts_with(MAP));
        Self(maps.next().unwrap_or_else(|| panic!("process {pid} has no map `.data.open`")))
    }

    /// Stops counting: immediately for events on this CPU; on other CPUs for events that begin after this call.
    pub fn close(&self) {
        self.set(0);
    }

    /// Makes events count again.
    pub fn open(&self) {
        self.set(1);
    }

    fn set(&self, value: u32) {
        let key = 0u32;
        // `map_fd` with its padding, the addresses of the key and of the value, and `flags`.
        let address = |word: &u32| ptr::from_ref(word) as u64;
        let attributes = [self.0.as_raw_fd() as u64, address(&key), address(&value), 0];
        bpf(BPF_MAP_UPDATE_ELEM, &attributes);
    }
}

fn map_ids(pid: u32) -> impl Iterator<Item = u32> {
    let open = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("wakelat is running");
    let infos = open.flatten().filter_map(|fd| fs::read_to_string(fd.path()).ok());
    infos.filter_map(|info| info.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok()))
}

fn open(id: u32) -> OwnedFd {
    // `map_id`, `next_id` and `open_flags`.
    let fd = bpf(BPF_MAP_GET_FD_BY_ID, &[id, 0, 0]);
    // SAFETY: the kernel has just created the descriptor for this process.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn name(map: &OwnedFd) -> [u8; 16] {
    let mut info = Info::default();
    // `bpf_fd` and `info_len`, then the address.
    let of_32_bits = u64::from(map.as_raw_fd() as u32) | (mem::size_of::<Info>() as u64) << 32;
    bpf(BPF_OBJ_GET_INFO_BY_FD, &[of_32_bits, ptr::from_mut(&mut info) as u64]);
    info.name
}

fn bpf<T>(command: libc::c_int, attributes: &[T]) -> libc::c_int {
    // SAFETY: the attributes are those of the command, and the memory that they point to outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), mem::size_of_val(attributes)) };
    assert!(result >= 0, "bpf command {command}: {}", io::Error::last_os_error());
    result as libc::c_int
}
