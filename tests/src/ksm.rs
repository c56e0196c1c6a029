//! Kernel samepage merging: `ksmd`, a kernel thread that runs for as long as a test wants
//! (Documentation/admin-guide/mm/ksm.rst).

use std::{fs, num::NonZeroUsize, path::PathBuf, ptr::NonNull};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap},
    unistd::Pid,
};

use crate::{machine, procfs, skip::Skip, task, workload::until};

const DIRECTORY: &str = "/sys/kernel/mm/ksm";

/// Memory to scan: bytes.
const MEMORY: NonZeroUsize = NonZeroUsize::new(16 << 20).expect("not 0");

/// The thread name of the kernel thread.
pub const NAME: &str = "ksmd";

/// `ksmd` on one CPU, with memory to scan. Dropping it stops the thread and restores all its settings.
pub struct Ksmd {
    /// Its TID.
    pub tid: u32,
    settings: Vec<(&'static str, String)>,
    cpus: CpuSet,
    nice: i32,
    memory: NonNull<std::ffi::c_void>,
}

impl Ksmd {
    /// Prepares the thread, which stays blocked: it never sleeps by itself while it scans, and has most of `cpu` if
    /// ordinary tasks want it as well. Skips the test if the kernel has no such thread, or if it is in use.
    pub fn on(cpu: usize) -> Result<Self, Skip> {
        let Some(tid) = procfs::pids_named(NAME).first().copied() else {
            return Err(Skip::because("the kernel has no `ksmd`"));
        };
        if read("run").trim() != "0" {
            return Err(Skip::because("the machine merges pages"));
        }
        let pid = Pid::from_raw(tid as i32);
        let cpus = sched_getaffinity(pid).expect("a thread's affinity can be read");
        let names = ["run", "sleep_millisecs", "pages_to_scan"];
        let settings = names.map(|name| (name, read(name))).into();
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let memory = unsafe { mmap_anonymous(None, MEMORY, protection, flags) }.expect("memory to scan");
        let ksmd = Self { tid, settings, cpus, nice: nice(tid), memory };
        for offset in (0..MEMORY.get()).step_by(machine::page_size()) {
            // Pages that differ are scanned again and again, and never merged.
            // SAFETY: within the mapping, which is writable and aligned to pages.
            unsafe { memory.cast::<u8>().add(offset).cast::<u64>().write(offset as u64 + 1) };
        }
        // SAFETY: advice about a mapping of this process, whose contents it does not change.
        unsafe { madvise(memory, MEMORY.get(), MmapAdvise::MADV_MERGEABLE) }.expect("the kernel merges pages");
        write("sleep_millisecs", "0");
        write("pages_to_scan", "1000");
        task::pin(tid, cpu);
        task::set_nice(tid, -10);
        Ok(ksmd)
    }

    /// Lets it scan.
    pub fn begin(&self) {
        write("run", "1");
    }

    /// Stops it, and returns once it is blocked.
    pub fn stop(&self) {
        write("run", "0");
        until("`ksmd` is blocked", || procfs::state(self.tid) == Some('S'));
    }
}

impl Drop for Ksmd {
    fn drop(&mut self) {
        self.stop();
        self.settings.iter().for_each(|(name, value)| write(name, value.trim()));
        sched_setaffinity(Pid::from_raw(self.tid as i32), &self.cpus).expect("its own CPUs are allowed");
        task::set_nice(self.tid, self.nice);
        // SAFETY: the mapping that was made, to which nothing refers any more.
        unsafe { munmap(self.memory, MEMORY.get()) }.expect("the mapping exists");
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(DIRECTORY).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{}: {error}", path(name).display()))
}

fn write(name: &str, value: &str) {
    fs::write(path(name), value).unwrap_or_else(|error| panic!("{} = {value}: {error}", path(name).display()));
}

fn nice(tid: u32) -> i32 {
    // SAFETY: takes numbers. An existing thread's value may be -1, which is no error then.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, tid) }
}
