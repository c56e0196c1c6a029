//! Names of cgroups and processes, saved as they are seen: some are gone by the time that they are shown.

use crate::{
    aggregate::key::{Names, unnamed_cgroup},
    hash::HashMap,
    timeline::event::{Event, EventKind},
    wait::Comm,
};

/// Most names of each kind; the others are shown by ID.
const MAX_NAMES: usize = 1 << 16;

/// Names of cgroups and processes.
#[derive(Debug, Default)]
pub struct TaskNames {
    cgroups: HashMap<u64, String>,
    /// None if the name is not known: it is looked up once.
    processes: HashMap<u32, Option<Comm>>,
}

impl TaskNames {
    /// Saves the names of the incoming task of a switch.
    pub fn learn(&mut self, event: &Event, names: &dyn Names) {
        let EventKind::Switch(switch) = &event.kind else { return };
        for task in [&switch.prev, &switch.next].into_iter().filter(|task| task.tid != 0) {
            if let Some(id) = task.cgroup_id
                && !self.cgroups.contains_key(&id)
                && self.cgroups.len() < MAX_NAMES
            {
                self.cgroups.insert(id, names.cgroup(id));
            }
            if task.tid == task.pid {
                if self.processes.len() < MAX_NAMES || self.processes.contains_key(&task.pid) {
                    self.processes.insert(task.pid, Some(task.comm));
                }
            } else if !self.processes.contains_key(&task.pid) && self.processes.len() < MAX_NAMES {
                self.processes.insert(task.pid, names.comm(task.pid));
            }
        }
    }

    /// The path of a cgroup.
    pub fn cgroup(&self, id: u64) -> String {
        // No cgroup has ID 0: it means that there is none, or that it is not known.
        self.cgroups.get(&id).cloned().unwrap_or_else(|| if id == 0 { "/".to_owned() } else { unnamed_cgroup(id) })
    }

    /// The name of a process: that of its first thread.
    pub fn process(&self, pid: u32) -> Option<Comm> {
        self.processes.get(&pid).copied().flatten()
    }
}

impl Names for TaskNames {
    fn cgroup(&self, id: u64) -> String {
        self.cgroup(id)
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        self.process(tid)
    }
}
