//! Sets the CPUs, the priority and the cgroup of the measuring threads, and limits the exit latency of idle
//! CPUs.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::thread::CpuSet;

use crate::osnoise_tracers::{CgroupChoice, Tracer, TracerSetup};
use wakelat_kernel::thread_priority::Priority;
use wakelat_kernel::{cpus::Cpus, task_stat::TaskStat, thread_priority};

/// A process requests a maximum exit latency of idle CPUs by writing it to this file, for as long as it
/// keeps the file open (Documentation/admin-guide/pm/cpuidle.rst).
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// The flag of a thread that is bound to the CPUs that the kernel chose, and to the cgroup in which it was
/// created (`PF_NO_SETAFFINITY`, include/linux/sched.h; `cgroup_procs_write_start`, kernel/cgroup/cgroup.c,
/// 5.14 to 7.2).
const IS_BOUND: u32 = 0x0400_0000;

/// How long to wait for a thread of the tracer to run for the first time.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A request for a maximum exit latency of idle CPUs. Dropping it withdraws the request.
#[derive(Debug)]
pub struct DmaLatency {
    _file: File,
}

impl DmaLatency {
    /// Requests a maximum exit latency of `us` µs.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no such file, or rejects the value.
    pub fn request(us: i32) -> Result<Self> {
        let open = fs::OpenOptions::new().write(true).open(DMA_LATENCY);
        let mut file = open.with_context(|| format!("`--dma-latency`: cannot open `{DMA_LATENCY}`"))?;
        let written = file.write_all(&us.to_ne_bytes());
        written.with_context(|| format!("`--dma-latency`: the kernel rejects `{us}` in `{DMA_LATENCY}`"))?;
        Ok(Self { _file: file })
    }
}

/// Binds this thread, and all threads and processes that it starts from now on, to `cpus`.
///
/// # Errors
///
/// Fails if the number of a CPU is too large for a CPU set, or if the kernel refuses.
pub fn pin(cpus: impl IntoIterator<Item = u32>) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            let why = format!("CPU `{cpu}` is beyond the {} CPUs that a thread can be bound to", CpuSet::MAX_CPU);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
        }
        set.set(cpu as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Binds wakelat itself to `cpus`.
pub fn pin_housekeeping(cpus: &Cpus) -> Result<()> {
    pin(cpus.iter()).with_context(|| {
        format!("`--house-keeping`: the kernel rejects CPUs `{cpus}`; expected online CPUs that this process may use")
    })
}

/// Sets the requested priority and cgroup of the kernel's measuring threads.
///
/// Waits until they have run: a thread of timerlat begins by setting its own priority, and then allows
/// itself to be moved (`timerlat_main`, kernel/trace/trace_osnoise.c, 5.14 to 7.2; the latter from 6.5 on).
///
/// # Errors
///
/// Fails if there are no such threads, if one does not run, or if the kernel refuses.
pub fn place_kernel_threads(setup: &TracerSetup, proc: &Path, cgroup_v2: Option<&Path>) -> Result<()> {
    if setup.priority.is_none() && setup.cgroup.is_none() {
        return Ok(());
    }
    let tids = kernel_threads(proc, &format!("{}/", setup.tracer.name()));
    if tids.is_empty() {
        bail!(
            "the tracer `{}` is running, but `{}` shows none of its threads; run wakelat in the initial PID namespace",
            setup.tracer.name(),
            proc.display()
        );
    }
    for tid in tids {
        if let Some(priority) = setup.priority {
            if setup.tracer == Tracer::Timerlat
                && !wait_for_thread(proc, tid, |stat| stat.policy().is_some_and(|policy| policy != 0))
            {
                bail!(
                    "`--priority`: thread `{tid}` of the tracer has not run within a second, and would reset its priority when it does"
                );
            }
            set_priority(tid, priority)?;
        }
        if let Some(cgroup) = &setup.cgroup {
            let may_move = wait_for_thread(proc, tid, |stat| stat.flags().is_some_and(|flags| flags & IS_BOUND == 0));
            let joined = join(tid, cgroup, proc, cgroup_v2);
            if may_move {
                joined
            } else {
                joined
                    .context("before Linux 6.5 the tracer's threads cannot be moved to a cgroup; leave out `--cgroup`")
            }?;
        }
    }
    Ok(())
}

/// Waits up to [`TIMEOUT`] until a thread satisfies `is`. Returns whether it does.
fn wait_for_thread(proc: &Path, tid: u32, is: impl Fn(&TaskStat) -> bool) -> bool {
    let started = Instant::now();
    loop {
        if TaskStat::read(proc, tid).is_some_and(|stat| is(&stat)) {
            return true;
        }
        if started.elapsed() >= TIMEOUT {
            return false;
        }
        // Only its file in procfs shows what a kernel thread does to itself, and files in procfs cannot be
        // polled.
        sleep(Duration::from_millis(1));
    }
}

/// Sets the priority of a thread; a TID of 0 is the caller.
pub fn set_priority(tid: u32, priority: Priority) -> Result<()> {
    thread_priority::set_priority(tid, priority).with_context(|| {
        let remedy = match priority {
            Priority::Deadline { .. } => {
                "; a SCHED_DEADLINE thread must be allowed on all CPUs of its root domain, and needs free bandwidth"
            }
            _ => "; it needs CAP_SYS_NICE",
        };
        format!("`--priority`: the kernel rejects `{priority}` for thread `{tid}`{remedy}")
    })
}

/// Moves a thread to a cgroup.
///
/// # Errors
///
/// Fails if the cgroup does not exist, or if the kernel refuses.
pub fn join(tid: u32, cgroup: &CgroupChoice, proc: &Path, cgroup_v2: Option<&Path>) -> Result<()> {
    let mount = cgroup_v2.context(
        "`--cgroup`: the cgroup v2 hierarchy is not mounted; mount it with `mount -t cgroup2 none DIRECTORY`",
    )?;
    let path = match cgroup {
        CgroupChoice::Named(name) => name.trim_start_matches('/').to_owned(),
        CgroupChoice::Own => {
            let own = fs::read_to_string(proc.join("self/cgroup")).context("cannot read `/proc/self/cgroup`")?;
            // `0::/PATH` is the line of the v2 hierarchy (cgroups(7)).
            let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
            own.context("`--cgroup`: this process has no cgroup in the v2 hierarchy")?.to_owned()
        }
    };
    let file = mount.join(path).join("cgroup.procs");
    let written = fs::OpenOptions::new().append(true).open(&file).and_then(|mut open| write!(open, "{tid}"));
    written.with_context(|| format!("`--cgroup`: cannot write thread `{tid}` to `{}`", file.display()))
}

/// The TIDs of the kernel threads whose names begin with `prefix`.
fn kernel_threads(proc: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    tids.filter(|tid| {
        let directory = proc.join(tid.to_string());
        let is_named = fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.starts_with(prefix));
        // Only a kernel thread has neither a command line nor memory of its own.
        is_named && fs::read(directory.join("statm")).is_ok_and(|statm| statm.starts_with(b"0 0 "))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_beyond_the_set_is_an_error() {
        for cpu in [CpuSet::MAX_CPU as u32, u32::MAX] {
            let error = pin([0, cpu]).unwrap_err().to_string();
            assert!(error.contains(&cpu.to_string()), "{error}");
        }
    }

    #[test]
    fn only_kernel_threads_are_found_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for (tid, comm, statm) in [("7", "timerlat/0", "0 0 0 0 0 0 0"), ("8", "timerlat/1", "90 8 0 1 0 1 0")] {
            fs::create_dir(directory.path().join(tid)).unwrap();
            fs::write(directory.path().join(tid).join("comm"), comm).unwrap();
            fs::write(directory.path().join(tid).join("statm"), statm).unwrap();
        }
        assert_eq!(kernel_threads(directory.path(), "timerlat/"), [7]);
    }
}
