//! Which tasks are measured.

use std::{ffi::OsString, os::unix::ffi::OsStrExt as _};

use wakelat_common::{
    filter::{Filter, MAX_PRIO, MIN_PRIO, part},
    sample::COMM_LEN,
};

use super::{ConfigError, ranges::Ranges};
use crate::{
    cli::FilterFlags,
    kernel::{
        Machine,
        cgroup::{Cgroup, CgroupError},
        machine::TaskKind,
    },
};
use wakelat_core::wait::{Comm, Wait};

/// The filter, as the BPF programs take it. A task must match every part in force, and one value of each
/// part.
#[derive(Clone)]
pub struct FilterConfig {
    /// Which parts are in force: bits of [`wakelat_common::filter::part`].
    pub parts: u32,
    /// Processes, each once; empty if not in force.
    pub tgids: Vec<u32>,
    /// Threads, each once; empty if not in force.
    pub pids: Vec<u32>,
    /// Cgroups, which include their descendants; empty if not in force.
    pub cgroups: Vec<Cgroup>,
    /// Names, CPUs, priorities and policies.
    pub filter: Box<Filter>,
    /// Whether wakelat's own threads are measured too.
    pub include_self: bool,
}

impl FilterConfig {
    /// Validates the flags against the tasks, cgroups and CPUs of this machine now.
    ///
    /// # Errors
    /// If a flag names something that does not exist, or cannot match anything.
    pub(super) fn new(flags: &FilterFlags, machine: &Machine) -> Result<Self, ConfigError> {
        let mut config = Self {
            parts: 0,
            tgids: each_once(&flags.tasks.pid),
            pids: each_once(&flags.tasks.tid),
            cgroups: cgroups(flags, machine)?,
            filter: Box::new(Filter::new()),
            include_self: flags.include_self,
        };
        tasks(&config.tgids, &config.pids, machine)?;
        config.require(part::TGID, !config.tgids.is_empty());
        config.require(part::PID, !config.pids.is_empty());
        config.require(part::CGROUP, !config.cgroups.is_empty());
        config.require(part::OTHERS, !flags.include_self);
        config.comms(&flags.tasks.comm)?;
        for cpus in &flags.tasks.cpus {
            config.cpus(cpus, machine)?;
        }
        for prios in &flags.tasks.prio {
            config.prios(prios)?;
        }
        for policy in &flags.policy {
            config.filter.policies |= 1 << policy;
        }
        config.require(part::POLICY, !flags.policy.is_empty());
        Ok(config)
    }

    /// Whether the filter accepts the task of `wait` as it is when the wait ends: name, priority and
    /// CPU, the parts that the kernel's own records show too.
    pub fn wants_at_end(&self, wait: &Wait) -> bool {
        let in_force = |part| self.parts & part != 0;
        (!in_force(part::COMM) || self.wants_comm(&wait.comm))
            && (!in_force(part::PRIO) || self.filter.wants_prio(wait.prio))
            && self.wants_cpu(wait.cpu)
    }

    /// Whether the filter accepts a task of this name.
    pub fn wants_comm(&self, comm: &Comm) -> bool {
        let mut bytes = [0; COMM_LEN];
        bytes[..comm.as_bytes().len()].copy_from_slice(comm.as_bytes());
        self.parts & part::COMM == 0 || self.filter.comm.matches(&bytes)
    }

    /// Whether the filter accepts waits that end on `cpu`.
    pub fn wants_cpu(&self, cpu: u32) -> bool {
        self.parts & part::CPU == 0 || self.filter.wants_cpu(cpu)
    }

    /// Whether the filter accepts every task except wakelat's own, on the CPUs that it accepts.
    pub fn wants_any_task(&self) -> bool {
        self.parts & !(part::OTHERS | part::CPU) == 0
    }

    /// Restricts the filter to these threads, instead of whole processes.
    pub(super) fn only_threads(&mut self, tids: Vec<u32>) {
        self.parts = self.parts & !part::TGID | part::PID;
        self.tgids.clear();
        self.pids = tids;
    }

    fn require(&mut self, part: u32, required: bool) {
        if required {
            self.parts |= part;
        }
    }

    fn comms(&mut self, patterns: &[OsString]) -> Result<(), ConfigError> {
        for pattern in patterns {
            let shown = pattern.display();
            let bits =
                |glob: &wakelat_common::glob::Glob| 64 - (glob.initial | glob.stays | glob.matched).leading_zeros();
            let before = bits(&self.filter.comm);
            self.filter
                .comm
                .add(pattern.as_bytes())
                .map_err(|error| ConfigError::usage("--comm", format!("`{shown}`: {error}")))?;
            // One bit per required character, and one for the match.
            let shortest = bits(&self.filter.comm) - before - 1;
            if shortest as usize >= COMM_LEN {
                return Err(ConfigError::usage(
                    "--comm",
                    format!(
                        "`{shown}` matches no task: the kernel keeps only {} characters of a name; shorten it and end it with `*`",
                        COMM_LEN - 1
                    ),
                ));
            }
        }
        self.require(part::COMM, !patterns.is_empty());
        Ok(())
    }

    fn cpus(&mut self, wanted: &Ranges, machine: &Machine) -> Result<(), ConfigError> {
        for range in wanted.iter() {
            for cpu in range.clone() {
                // Checked one by one, so that a huge range ends at the first CPU that does not exist.
                let known = u32::try_from(cpu).is_ok_and(|cpu| machine.cpus.contains(cpu) && self.filter.want_cpu(cpu));
                if !known {
                    let why = format!("there is no CPU `{cpu}`; this machine has {}", machine.cpus);
                    return Err(ConfigError::usage("--cpus", why));
                }
            }
        }
        self.require(part::CPU, true);
        Ok(())
    }

    fn prios(&mut self, wanted: &Ranges) -> Result<(), ConfigError> {
        if let Some(prio) = wanted.outside(&(MIN_PRIO.into()..=MAX_PRIO.into())) {
            return Err(ConfigError::usage(
                "--prio",
                format!("there is no priority `{prio}`; expected -1 (deadline), 0-99 (real-time) or 100-139 (fair)"),
            ));
        }
        for prio in wanted.iter().cloned().flatten() {
            self.filter.want_prio(prio as i32);
        }
        self.require(part::PRIO, true);
        Ok(())
    }
}

impl std::fmt::Debug for FilterConfig {
    /// Omits the 3 KB of masks.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterConfig")
            .field("parts", &self.parts)
            .field("tgids", &self.tgids)
            .field("pids", &self.pids)
            .field("cgroups", &self.cgroups)
            .field("include_self", &self.include_self)
            .finish_non_exhaustive()
    }
}

fn each_once(ids: &[u32]) -> Vec<u32> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn tasks(tgids: &[u32], pids: &[u32], machine: &Machine) -> Result<(), ConfigError> {
    for (flag, _) in [("--pid", tgids), ("--tid", pids)].iter().filter(|(_, ids)| !ids.is_empty()) {
        if !machine.first_pid_namespace {
            return Err(ConfigError::unmet(
                flag,
                "IDs inside this container differ from those that BPF programs see; run wakelat outside it or with \
                 `--pid=host`, or select by `--cgroup` or `--comm`",
            ));
        }
    }
    for pid in tgids {
        match machine.task(*pid) {
            Some(TaskKind::Process) => {}
            Some(TaskKind::ThreadOf(tgid)) => {
                let why = format!("`{pid}` is a thread of process `{tgid}`; use `--tid {pid}` or `--pid {tgid}`");
                return Err(ConfigError::usage("--pid", why));
            }
            None => return Err(ConfigError::unmet("--pid", format!("there is no process `{pid}`"))),
        }
    }
    let mut belongs = tgids.is_empty() || pids.is_empty();
    for tid in pids {
        let tgid = match machine.task(*tid) {
            Some(TaskKind::Process) => *tid,
            Some(TaskKind::ThreadOf(tgid)) => tgid,
            None => return Err(ConfigError::unmet("--tid", format!("there is no thread `{tid}`"))),
        };
        belongs |= tgids.contains(&tgid);
    }
    if !belongs {
        let why = "no thread belongs to a process given with `--pid`, so nothing matches; leave out `--pid` or `--tid`";
        return Err(ConfigError::usage("--tid", why));
    }
    Ok(())
}

fn cgroups(flags: &FilterFlags, machine: &Machine) -> Result<Vec<Cgroup>, ConfigError> {
    let mut found: Vec<Cgroup> = Vec::new();
    for path in &flags.cgroup {
        let cgroup = machine.cgroup(path).map_err(|error| match error {
            CgroupError::NotMounted => ConfigError::unmet("--cgroup", error),
            _ => ConfigError::usage("--cgroup", error),
        })?;
        if !found.contains(&cgroup) {
            found.push(cgroup);
        }
    }
    Ok(found)
}
