//! The properties of this machine that validation needs.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::{
    Roots,
    cgroup::{self, Cgroup, CgroupError},
    cpus::Cpus,
    mounts::{self, Mount},
    privilege,
};

/// The properties of this machine that validation needs. Later only lookups of a task or a path access the
/// file system.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The mount points of procfs and sysfs.
    pub roots: Roots,
    /// The present CPUs, online or not, without those that may be added to a virtual machine later.
    pub cpus: Cpus,
    /// The kernel's limit of task IDs (`kernel.pid_max`).
    pub pid_max: u32,
    /// Current number of threads on the whole machine.
    pub threads: u32,
    /// Size of a page in bytes.
    pub page_bytes: u32,
    /// The mounts that this process sees.
    pub mounts: Vec<Mount>,
    /// Whether the kernel publishes its BTF.
    pub publishes_btf: bool,
    /// Whether this process is in the initial PID namespace, and so sees the same IDs as the BPF programs.
    pub first_pid_namespace: bool,
}

/// What a task ID refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// A process; its first thread has the same ID.
    Process,
    /// A thread of this process, other than its first.
    ThreadOf(u32),
}

impl Machine {
    /// Reads the properties of this machine.
    ///
    /// # Errors
    /// If procfs or sysfs is not mounted or not as expected.
    pub fn detect() -> Result<Self> {
        let roots = Roots::default();
        let mountinfo = read(&roots.proc.join("self/mountinfo"))?;
        Ok(Self {
            cpus: Cpus::read(&roots.sys, "present")?,
            pid_max: read(&roots.proc.join("sys/kernel/pid_max"))?.trim().parse().context("cannot read pid_max")?,
            threads: threads(&read(&roots.proc.join("loadavg"))?).context("cannot parse `/proc/loadavg`")?,
            page_bytes: u32::try_from(rustix::param::page_size()).context("the page size is out of range")?,
            mounts: mounts::parse(&mountinfo),
            publishes_btf: roots.sys.join("kernel/btf/vmlinux").exists(),
            first_pid_namespace: privilege::first_pid_namespace(&roots),
            roots,
        })
    }

    /// What the ID currently refers to; none if there is no such task.
    pub fn task(&self, id: u32) -> Option<TaskKind> {
        let status = fs::read_to_string(self.roots.proc.join(id.to_string()).join("status")).ok()?;
        let tgid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        Some(if tgid == id { TaskKind::Process } else { TaskKind::ThreadOf(tgid) })
    }

    /// Finds the cgroup at a path, as in [`cgroup::find`].
    ///
    /// # Errors
    /// If there is no cgroup at the path.
    pub fn cgroup(&self, path: &Path) -> Result<Cgroup, CgroupError> {
        cgroup::find(&self.mounts, path)
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Parses the number of threads in `/proc/loadavg`: the 80 in `0.20 0.18 0.12 1/80 11206`.
fn threads(loadavg: &str) -> Option<u32> {
    loadavg.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_follows_the_slash() {
        assert_eq!(threads("0.20 0.18 0.12 1/80 11206\n"), Some(80));
        assert_eq!(threads("0.20 0.18"), None);
    }

    #[test]
    fn this_machine_is_detected() {
        let machine = Machine::detect().unwrap();
        assert!(machine.cpus.contains(0) && machine.threads > 0 && machine.page_bytes.is_power_of_two());
        assert_eq!(machine.task(std::process::id()), Some(TaskKind::Process));
        assert_eq!(machine.task(0), None);
    }
}
