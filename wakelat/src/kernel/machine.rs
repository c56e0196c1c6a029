//! What validation has to know of this machine.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::{
    Roots,
    cgroup::{self, Cgroup, CgroupError},
    cpus::Cpus,
    mounts::{self, Mount},
    privilege,
};

/// What validation has to know of this machine. Only questions about one task or one path go to the file system later.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where procfs and sysfs are.
    pub roots: Roots,
    /// CPUs that are there, online or not; those a virtual machine may get one day are not.
    pub cpus: Cpus,
    /// Highest number of ids (`kernel.pid_max`).
    pub pid_max: u32,
    /// Threads there are now, on the whole machine.
    pub threads: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// What is mounted.
    pub mounts: Vec<Mount>,
    /// Ids are what the kernel side sees: this process is not in a pid namespace below the first.
    pub first_pid_namespace: bool,
}

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// A process (its first thread has the same id).
    Process,
    /// Another thread of the process.
    ThreadOf(u32),
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    /// Where procfs or sysfs is not mounted or not as expected.
    pub fn detect() -> Result<Self> {
        let roots = Roots::default();
        let mountinfo = read(&roots.proc.join("self/mountinfo"))?;
        Ok(Self {
            cpus: Cpus::read(&roots.sys, "present")?,
            pid_max: read(&roots.proc.join("sys/kernel/pid_max"))?.trim().parse().context("cannot read pid_max")?,
            threads: threads(&read(&roots.proc.join("loadavg"))?).context("cannot understand `/proc/loadavg`")?,
            page_bytes: u32::try_from(rustix::param::page_size()).context("the page size is out of range")?,
            mounts: mounts::parse(&mountinfo),
            first_pid_namespace: privilege::first_pid_namespace(&roots),
            roots,
        })
    }

    /// What the id stands for now; none where it stands for nothing.
    pub fn task(&self, id: u32) -> Option<TaskKind> {
        let status = fs::read_to_string(self.roots.proc.join(id.to_string()).join("status")).ok()?;
        let tgid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        Some(if tgid == id { TaskKind::Process } else { TaskKind::ThreadOf(tgid) })
    }

    /// The cgroup that a path names.
    ///
    /// # Errors
    /// Where it names none.
    pub fn cgroup(&self, path: &Path) -> Result<Cgroup, CgroupError> {
        cgroup::find(&self.mounts, path)
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The number of threads, from the text of `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206`.
fn threads(loadavg: &str) -> Option<u32> {
    loadavg.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine of four CPUs, in a directory of its own: process 100 with thread 101, process
    /// 200, and the cgroup `/kubepods` of a v2 hierarchy beside a v1 one.
    pub(crate) fn arbitrary() -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for (id, tgid) in [(100, 100), (101, 100), (200, 200)] {
            fs::create_dir_all(root.join(format!("proc/{id}"))).unwrap();
            let status = format!("Name:\tx\nUmask:\t0022\nTgid:\t{tgid}\nPid:\t{id}\n");
            fs::write(root.join(format!("proc/{id}/status")), status).unwrap();
        }
        for path in ["v2/kubepods", "v1/kubepods", "plain"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let mountinfo = format!(
            "1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {0}/v1 rw - cgroup b rw,cpu\n3 1 0:3 / {0}/v2 rw - cgroup2 c rw\n",
            root.display()
        );
        let machine = Machine {
            roots: Roots { proc: root.join("proc"), sys: root.join("sys") },
            cpus: Cpus::parse("0-3").unwrap(),
            pid_max: 32768,
            threads: 300,
            page_bytes: 4096,
            mounts: mounts::parse(&mountinfo),
            first_pid_namespace: true,
        };
        (directory, machine)
    }

    #[test]
    fn the_number_of_threads_is_the_one_behind_the_slash() {
        assert_eq!(threads("0.20 0.18 0.12 1/80 11206\n"), Some(80));
        assert_eq!(threads("0.20 0.18"), None);
    }

    #[test]
    fn this_machine_is_understood() {
        let machine = Machine::detect().unwrap();
        assert!(machine.cpus.contains(0) && machine.threads > 0 && machine.page_bytes.is_power_of_two());
        assert_eq!(machine.task(std::process::id()), Some(TaskKind::Process));
        assert_eq!(machine.task(0), None);
    }
}
