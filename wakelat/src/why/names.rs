//! What cgroups and tasks were called when they were seen: some are gone before anybody asks.

use crate::{
    aggregate::key::Names,
    hash::HashMap,
    timeline::{
        event::{Event, EventKind, TaskInfo, WorkItemEvent},
        stack::StackEvent,
    },
    wait::{Comm, Namespace},
};

/// Names of all cgroups and tasks that were seen.
#[derive(Debug, Default)]
pub struct NameCache {
    cgroups: HashMap<u64, String>,
    tasks: HashMap<u32, TaskInfo>,
    /// Of wakers that were never seen to come to a CPU or to leave one.
    wakers: HashMap<u32, Comm>,
    functions: HashMap<u64, Option<String>>,
    /// Of the tasks of the longest waits.
    namespaces: HashMap<u32, Option<Namespace>>,
}

impl NameCache {
    /// Takes note of those in an event.
    pub fn learn(&mut self, event: &Event, names: &dyn Names) {
        if let EventKind::WorkItem(WorkItemEvent { function: Some(address), .. }) = &event.kind {
            self.functions.entry(*address).or_insert_with(|| names.function(*address));
        }
        if let EventKind::Stack(StackEvent { by_tid: tid, .. }) = &event.kind {
            self.learn_waker(*tid, names);
        }
        let EventKind::Switch(turn) = &event.kind else { return };
        for task in [&turn.prev, &turn.next] {
            self.tasks.insert(task.tid, *task);
            if let Some(id) = task.cgroup_id {
                self.cgroups.entry(id).or_insert_with(|| names.cgroup(id));
            }
        }
        if let Some(tid) = turn.ended_wait.and_then(|waited| waited.wait.waker_tid) {
            self.learn_waker(tid, names);
        }
    }

    fn learn_waker(&mut self, tid: u32, names: &dyn Names) {
        if !self.tasks.contains_key(&tid)
            && let Some(comm) = names.comm(tid)
        {
            self.wakers.insert(tid, comm);
        }
    }

    /// Takes note of the namespace of the task whose wait ends in an event, and is one of the longest.
    pub fn learn_namespace(&mut self, event: &Event, names: &dyn Names) {
        if let EventKind::Switch(turn) = &event.kind {
            self.namespaces.insert(turn.next.tid, names.namespace(turn.next.tid));
        }
    }

    /// A task, as it was last seen at a switch.
    pub fn task(&self, tid: u32) -> Option<&TaskInfo> {
        self.tasks.get(&tid)
    }
}

impl Names for NameCache {
    fn cgroup(&self, id: u64) -> String {
        // 0 stands for none: nothing has it as its id.
        self.cgroups
            .get(&id)
            .cloned()
            .unwrap_or_else(|| if id == 0 { "/".to_owned() } else { format!("(cgroup {id})") })
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        self.task(tid).map(|task| task.comm).or_else(|| self.wakers.get(&tid).copied())
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        self.namespaces.get(&tid).copied().flatten()
    }

    fn function(&self, address: u64) -> Option<String> {
        self.functions.get(&address).cloned().flatten()
    }
}
