//! Names of cgroups, tasks and functions, saved as they are seen: some are gone by the end of the window.

use crate::{
    aggregate::key::{Names, unnamed_cgroup},
    files::Files,
    hash::{HashMap, recent_map::RecentMap},
    timeline::{
        event::{Event, EventKind, TaskInfo, WorkItemEvent},
        stack_event::StackEvent,
    },
    wait::{Comm, Namespace},
};

/// The names of all cgroups, tasks and functions that were seen.
#[derive(Debug, Default)]
pub struct NameCache {
    cgroups: HashMap<u64, String>,
    tasks: RecentMap<TaskInfo>,
    /// Names of wakers that no switch has shown.
    wakers: HashMap<u32, Comm>,
    functions: HashMap<u64, Option<String>>,
    /// Namespaces of the tasks of the longest waits.
    namespaces: HashMap<u32, Option<Namespace>>,
    files: Files,
}

impl NameCache {
    /// No names yet, of these recordings.
    pub fn of(files: Files) -> Self {
        Self { files, ..Self::default() }
    }

    /// Saves the names that belong to an event.
    pub fn learn(&mut self, event: &Event, names: &dyn Names) {
        if let EventKind::WorkItem(WorkItemEvent { function: Some(address), .. }) = &event.kind {
            self.functions.entry(*address).or_insert_with(|| names.function(*address));
        }
        if let EventKind::Stack(StackEvent { by_tid: tid, .. }) = &event.kind {
            self.learn_waker(*tid, names);
        }
        let EventKind::Switch(switch) = &event.kind else { return };
        for task in [&switch.prev, &switch.next] {
            if self.tasks.insert(task.tid, *task)
                && let Some(id) = task.cgroup_id
            {
                self.cgroups.entry(id).or_insert_with(|| names.cgroup(id));
            }
        }
        if let Some(tid) = switch.ended_wait.and_then(|waited| waited.wait.waker_tid) {
            self.learn_waker(tid, names);
        }
    }

    fn learn_waker(&mut self, tid: u32, names: &dyn Names) {
        if self.tasks.get(tid).is_none()
            && let Some(comm) = names.comm(tid)
        {
            self.wakers.insert(tid, comm);
        }
    }

    /// Saves the namespace of the incoming task of a switch, which ends one of the longest waits.
    pub fn learn_namespace(&mut self, event: &Event, names: &dyn Names) {
        if let EventKind::Switch(switch) = &event.kind {
            self.namespaces.insert(switch.next.tid, names.namespace(switch.next.tid));
        }
    }

    /// The task with this TID, as last seen at a switch.
    pub fn task(&self, tid: u32) -> Option<&TaskInfo> {
        self.tasks.get(tid)
    }
}

impl Names for NameCache {
    fn cgroup(&self, id: u64) -> String {
        // No cgroup has ID 0: it means that there is none.
        self.cgroups.get(&id).cloned().unwrap_or_else(|| if id == 0 { "/".to_owned() } else { unnamed_cgroup(id) })
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        if let Some(idle) = self.files.idle_name(tid) {
            return Some(idle);
        }
        self.task(tid).map(|task| task.comm).or_else(|| self.wakers.get(&tid).copied())
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        self.namespaces.get(&tid).copied().flatten()
    }

    fn function(&self, address: u64) -> Option<String> {
        self.functions.get(&address).cloned().flatten()
    }

    fn files(&self) -> Files {
        self.files.clone()
    }
}
