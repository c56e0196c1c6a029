//! Where the measuring threads run and with which priority, and how deep the CPUs may sleep.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use rustix::thread::CpuSet;

use crate::{
    config::{CgroupChoice, Priority, TracerConfig},
    kernel::cpus::Cpus,
    session::scheduling,
};

/// Where a process asks for a short way out of idle, for as long as it has the file open
/// (Documentation/admin-guide/pm/cpuidle.rst).
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// The wish for a short way out of idle. Dropped, it is gone.
#[derive(Debug)]
pub struct DmaLatency {
    _file: File,
}

impl DmaLatency {
    /// Asks for it: µs.
    ///
    /// # Errors
    /// Where the kernel has no such file, or refuses.
    pub fn ask(us: i32) -> Result<Self> {
        let open = fs::OpenOptions::new().write(true).open(DMA_LATENCY);
        let mut file = open.with_context(|| format!("`--dma-latency`: cannot open `{DMA_LATENCY}`"))?;
        let written = file.write_all(&us.to_ne_bytes());
        written.with_context(|| format!("`--dma-latency`: the kernel refuses `{us}` in `{DMA_LATENCY}`"))?;
        Ok(Self { _file: file })
    }
}

/// Has this thread, and whatever it starts from now on, run on `cpus` alone.
///
/// # Errors
/// Where the kernel refuses.
pub fn pin(cpus: impl IntoIterator<Item = u32>) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(cpu as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Has wakelat itself run on these CPUs.
///
/// # Errors
/// Where the kernel refuses.
pub fn keep_house(cpus: &Cpus) -> Result<()> {
    pin(cpus.iter()).with_context(|| format!("`--house-keeping`: the kernel refuses CPUs `{cpus}`"))
}

/// Gives the kernel's measuring threads the priority and the cgroup asked for.
///
/// # Errors
/// Where there are no such threads, or the kernel refuses.
pub fn place_kernel_threads(config: &TracerConfig, proc: &Path, cgroup_v2: Option<&Path>) -> Result<()> {
    if config.priority.is_none() && config.cgroup.is_none() {
        return Ok(());
    }
    let tids = kernel_threads(proc, &format!("{}/", config.tracer.name()));
    if tids.is_empty() {
        bail!("the tracer `{}` runs, and none of its threads is in `{}`", config.tracer.name(), proc.display());
    }
    for tid in tids {
        if let Some(priority) = config.priority {
            set_priority(tid, priority)?;
        }
        if let Some(cgroup) = &config.cgroup {
            join(tid, cgroup, proc, cgroup_v2)?;
        }
    }
    Ok(())
}

/// Gives a thread a priority; 0 is the caller.
///
/// # Errors
/// Where the kernel refuses, with what it takes.
pub fn set_priority(tid: u32, priority: Priority) -> Result<()> {
    scheduling::set_priority(tid, priority).with_context(|| {
        let remedy = match priority {
            Priority::Deadline { .. } => "; a deadline thread takes all CPUs of its domain, and bandwidth that is free",
            _ => "; it takes CAP_SYS_NICE",
        };
        format!("`--priority`: the kernel refuses `{priority}` for thread `{tid}`{remedy}")
    })
}

/// Puts a thread into a cgroup.
///
/// # Errors
/// Where there is no such cgroup, or the kernel refuses.
pub fn join(tid: u32, cgroup: &CgroupChoice, proc: &Path, cgroup_v2: Option<&Path>) -> Result<()> {
    let mount = cgroup_v2.context("`--cgroup`: the cgroup v2 hierarchy is not mounted")?;
    let path = match cgroup {
        CgroupChoice::Named(name) => name.trim_start_matches('/').to_owned(),
        CgroupChoice::Own => {
            let own = fs::read_to_string(proc.join("self/cgroup")).context("cannot read `/proc/self/cgroup`")?;
            // `0::/PATH` is the v2 hierarchy's line (cgroups(7)).
            let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
            own.context("`--cgroup`: this process has no cgroup in the v2 hierarchy")?.to_owned()
        }
    };
    let file = mount.join(path).join("cgroup.procs");
    let written = fs::OpenOptions::new().append(true).open(&file).and_then(|mut open| write!(open, "{tid}"));
    written.with_context(|| format!("`--cgroup`: cannot put thread `{tid}` into `{}`", file.display()))
}

/// Threads of the kernel whose names begin so.
fn kernel_threads(proc: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    tids.filter(|tid| {
        let directory = proc.join(tid.to_string());
        let is_named = fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.starts_with(prefix));
        // Only a thread of the kernel has no command line and no memory of its own.
        is_named && fs::read(directory.join("statm")).is_ok_and(|statm| statm.starts_with(b"0 0 "))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_threads_bear_the_name_in_earnest() {
        let directory = tempfile::tempdir().unwrap();
        for (tid, comm, statm) in [("7", "timerlat/0", "0 0 0 0 0 0 0"), ("8", "timerlat/1", "90 8 0 1 0 1 0")] {
            fs::create_dir(directory.path().join(tid)).unwrap();
            fs::write(directory.path().join(tid).join("comm"), comm).unwrap();
            fs::write(directory.path().join(tid).join("statm"), statm).unwrap();
        }
        assert_eq!(kernel_threads(directory.path(), "timerlat/"), [7]);
    }
}
