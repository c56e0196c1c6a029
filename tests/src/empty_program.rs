//! A BPF program that does nothing: what the kernel's accounting of programs shows of it is the cost of the
//! accounting itself.

use std::{
    fs, io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// `bpf(2)` commands and a program type: Linux, include/uapi/linux/bpf.h.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// `r0 = 0; exit`.
static INSTRUCTIONS: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];

/// The program, on `sched_switch` until it is dropped.
pub struct EmptyProgram {
    program: OwnedFd,
    _link: OwnedFd,
}

/// What the kernel has accounted for a program while it did so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountedRuns {
    /// Number of runs.
    pub count: u64,
    /// Their time, with about one reading of the clock each: ns.
    pub ns: u64,
}

impl AccountedRuns {
    /// The runs of all programs whose descriptors the process `pid` has (`bpf_prog_show_fdinfo()`,
    /// kernel/bpf/syscall.c).
    pub fn of_process(pid: u32) -> Self {
        let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process is running");
        let infos = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
        infos.fold(Self::default(), |sum, info| sum.plus(Self::parse(&info)))
    }

    fn parse(info: &str) -> Self {
        let number = |name| {
            info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or_default()
        };
        Self { count: number("run_cnt:"), ns: number("run_time_ns:") }
    }

    fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, ns: self.ns + other.ns }
    }

    /// The runs since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { count: self.count - earlier.count, ns: self.ns - earlier.ns }
    }

    /// Mean time of a run: ns.
    pub fn mean_ns(self) -> f64 {
        self.ns as f64 / self.count.max(1) as f64
    }
}

impl EmptyProgram {
    /// Loads and attaches the program.
    pub fn attach() -> Self {
        #[repr(C)]
        struct Load {
            prog_type: u32,
            insn_cnt: u32,
            insns: u64,
            license: u64,
        }
        #[repr(C)]
        struct Open {
            name: u64,
            prog_fd: u32,
            padding: u32,
        }
        let load = Load {
            prog_type: BPF_PROG_TYPE_RAW_TRACEPOINT,
            insn_cnt: INSTRUCTIONS.len() as u32,
            insns: INSTRUCTIONS.as_ptr().addr() as u64,
            license: c"GPL".as_ptr().addr() as u64,
        };
        let program = bpf(BPF_PROG_LOAD, &load);
        let name = c"sched_switch".as_ptr().addr() as u64;
        let link = bpf(BPF_RAW_TRACEPOINT_OPEN, &Open { name, prog_fd: program.as_raw_fd() as u32, padding: 0 });
        Self { program, _link: link }
    }

    /// What the kernel has accounted for the program so far.
    pub fn runs(&self) -> AccountedRuns {
        let path = format!("/proc/self/fdinfo/{}", self.program.as_raw_fd());
        AccountedRuns::parse(&fs::read_to_string(path).expect("the descriptor is open"))
    }
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> OwnedFd {
    // SAFETY: the attributes have the length given, are only read, and outlive the call with all that they point to.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    assert!(fd >= 0, "bpf command {command}: {}", io::Error::last_os_error());
    // SAFETY: the descriptor was just created and has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}
