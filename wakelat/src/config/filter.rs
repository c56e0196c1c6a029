//! Which tasks are measured.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use wakelat_common::{
    filter::{Filter, MAX_PRIO, MIN_PRIO, part},
    sample::COMM_LEN,
};

use super::ConfigError;
use wakelat_core::{
    files::{own_number, own_tid},
    wait::{Comm, Wait},
};
use wakelat_kernel::ranges::Ranges;
use wakelat_kernel::{
    Machine,
    cgroup::{Cgroup, CgroupError},
    machine::TaskKind,
};

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
    /// Accepts every task, except for wakelat's own threads unless `include_self` is set.
    pub(crate) fn new(include_self: bool) -> Self {
        let mut config = Self {
            parts: 0,
            tgids: Vec::new(),
            pids: Vec::new(),
            cgroups: Vec::new(),
            filter: Box::new(Filter::new()),
            include_self,
        };
        config.require(part::OTHERS, !include_self);
        config
    }

    /// Restricts the filter to these cgroups, if any are given.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub(crate) fn set_cgroups(&mut self, paths: &[PathBuf], machine: &Machine) -> Result<(), ConfigError> {
        self.cgroups = cgroups(paths, machine)?;
        self.require(part::CGROUP, !self.cgroups.is_empty());
        Ok(())
    }

    /// Restricts the filter to these processes and these threads, if any are given.
    ///
    /// # Errors
    /// If one of them does not exist, or none of the threads belongs to one of the processes.
    pub(crate) fn set_tasks(&mut self, tgids: &[u32], pids: &[u32], machine: &Machine) -> Result<(), ConfigError> {
        (self.tgids, self.pids) = (each_once(tgids), each_once(pids));
        tasks(&self.tgids, &self.pids, machine)?;
        self.require(part::TGID, !self.tgids.is_empty());
        self.require(part::PID, !self.pids.is_empty());
        Ok(())
    }

    /// Adds the descendants of the processes; with `is_of_command`, the only process is that of the measured command,
    /// which does not exist yet.
    ///
    /// # Errors
    /// If the first process is missing or ambiguous, or process IDs differ from the kernel's.
    pub(crate) fn set_tree(&mut self, is_of_command: bool, machine: &Machine) -> Result<(), ConfigError> {
        match (is_of_command, self.tgids.is_empty()) {
            (true, true) | (false, false) => {}
            (true, false) => {
                let why = "the tree is that of the command; leave out `--pid`, or measure without a command";
                return Err(ConfigError::usage("--tree", why));
            }
            (false, true) => {
                let why = "there is no process to start from; give a command after `--`, or `--pid`";
                return Err(ConfigError::usage("--tree", why));
            }
        }
        check_ids("--tree", machine)?;
        self.require(part::TGID | part::DESCENDANTS, true);
        Ok(())
    }

    /// Whether the filter accepts the descendants of the processes, too.
    pub(crate) fn follows_descendants(&self) -> bool {
        self.parts & part::DESCENDANTS != 0
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
        if self.parts & part::COMM == 0 {
            return true;
        }
        let mut bytes = [0; COMM_LEN];
        bytes[..comm.as_bytes().len()].copy_from_slice(comm.as_bytes());
        self.filter.comm.matches(&bytes)
    }

    /// Whether the filter accepts waits that end on `cpu`.
    pub fn wants_cpu(&self, cpu: u32) -> bool {
        self.parts & part::CPU == 0 || self.filter.wants_cpu(own_number(cpu))
    }

    /// Whether the filter accepts every task except wakelat's own, on the CPUs that it accepts.
    pub fn wants_any_task(&self) -> bool {
        self.parts & !(part::OTHERS | part::CPU) == 0
    }

    /// Whether the filter accepts a thread, by its ID and name; false if the filter also depends on something else. CPUs apart.
    pub fn wants_by_name(&self, tid: u32, comm: &Comm) -> bool {
        self.parts & !(part::OTHERS | part::CPU | part::PID | part::COMM) == 0
            && (self.parts & part::PID == 0 || self.pids.contains(&own_tid(tid)))
            && self.wants_comm(comm)
    }

    /// Whether the filter accepts only some of the tasks and CPUs of a recording.
    pub fn selects_recorded(&self) -> bool {
        self.parts & !part::OTHERS != 0
    }

    /// Whether the filter accepts a task with these properties; cgroups and CPUs apart.
    pub fn wants_recorded(&self, tid: u32, pid: u32, comm: &Comm, prio: i32, policy: u32) -> bool {
        if self.wants_any_task() {
            return true;
        }
        let accepts = |part, accepted: bool| self.parts & part == 0 || accepted;
        accepts(part::TGID, self.tgids.contains(&own_tid(pid)))
            && accepts(part::PID, self.pids.contains(&own_tid(tid)))
            && self.wants_comm(comm)
            && accepts(part::PRIO, self.filter.wants_prio(prio))
            && accepts(part::POLICY, self.filter.wants_policy(policy))
    }

    /// Restricts the filter to these processes, threads and CPUs of a recording, if any are given: whether they exist on
    /// this machine does not matter.
    ///
    /// # Errors
    /// If no kernel has one of the CPUs.
    pub(crate) fn set_recorded(&mut self, tgids: &[u32], pids: &[u32], cpus: &[Ranges]) -> Result<(), ConfigError> {
        (self.tgids, self.pids) = (each_once(tgids), each_once(pids));
        self.require(part::TGID, !tgids.is_empty());
        self.require(part::PID, !pids.is_empty());
        for cpu in cpus.iter().flat_map(Ranges::iter).cloned().flatten() {
            if !u32::try_from(cpu).is_ok_and(|cpu| self.filter.want_cpu(cpu)) {
                return Err(ConfigError::usage("--cpus", format!("no kernel has a CPU `{cpu}`")));
            }
        }
        self.require(part::CPU, !cpus.is_empty());
        Ok(())
    }

    /// Replaces the processes, if any are given, by the threads that they have now.
    ///
    /// # Errors
    /// If no thread is left.
    pub(crate) fn replace_processes(&mut self, machine: &Machine) -> Result<(), ConfigError> {
        if self.tgids.is_empty() {
            return Ok(());
        }
        let tids = threads_of(&machine.roots.proc, &self.tgids, &self.pids);
        if tids.is_empty() {
            return Err(ConfigError::unmet("--pid", "the processes have exited"));
        }
        self.parts = self.parts & !part::TGID | part::PID;
        self.tgids.clear();
        self.pids = tids;
        Ok(())
    }

    fn require(&mut self, part: u32, required: bool) {
        if required {
            self.parts |= part;
        }
    }

    /// Restricts the filter to tasks with these names, if any are given.
    ///
    /// # Errors
    /// If a pattern is invalid, or longer than any name.
    pub(crate) fn set_comms(&mut self, patterns: &[OsString]) -> Result<(), ConfigError> {
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

    /// Restricts the filter to these CPUs, and those of earlier calls.
    ///
    /// # Errors
    /// If this machine does not have one of them.
    pub(crate) fn add_cpus(&mut self, wanted: &Ranges, machine: &Machine) -> Result<(), ConfigError> {
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

    /// Restricts the filter to these kernel priorities, and those of earlier calls.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub(crate) fn add_prios(&mut self, wanted: &Ranges) -> Result<(), ConfigError> {
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

    /// Restricts the filter to these scheduling policies, if any are given.
    pub(crate) fn set_policies(&mut self, policies: &[u32]) {
        self.filter.policies = policies.iter().fold(0, |mask, policy| mask | 1 << policy);
        self.require(part::POLICY, !policies.is_empty());
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

/// Checks that the BPF programs see the IDs that this machine shows.
fn check_ids(flag: &'static str, machine: &Machine) -> Result<(), ConfigError> {
    if machine.first_pid_namespace {
        return Ok(());
    }
    Err(ConfigError::unmet(
        flag,
        "IDs inside this container differ from those that BPF programs see; run wakelat on the host or in a container \
         started with `--pid=host`, or select by `--cgroup` or `--comm`",
    ))
}

fn tasks(tgids: &[u32], pids: &[u32], machine: &Machine) -> Result<(), ConfigError> {
    for (flag, _) in [("--pid", tgids), ("--tid", pids)].iter().filter(|(_, ids)| !ids.is_empty()) {
        check_ids(flag, machine)?;
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

fn cgroups(paths: &[PathBuf], machine: &Machine) -> Result<Vec<Cgroup>, ConfigError> {
    let mut found: Vec<Cgroup> = Vec::new();
    for path in paths {
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

/// The threads of these processes; only those in `selected`, unless that is empty.
fn threads_of(proc: &Path, tgids: &[u32], selected: &[u32]) -> Vec<u32> {
    let tasks = tgids.iter().filter_map(|tgid| fs::read_dir(proc.join(format!("{tgid}/task"))).ok());
    let mut tids: Vec<u32> = tasks
        .flat_map(|tasks| tasks.flatten())
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .filter(|tid| selected.is_empty() || selected.contains(tid))
        .collect();
    tids.sort_unstable();
    tids
}
