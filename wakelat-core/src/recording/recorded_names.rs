//! Names of cgroups, tasks and functions as they were when they were recorded.

use super::Frame;
use crate::{
    aggregate::key::{Names, unnamed_cgroup},
    files::Files,
    hash::{HashMap, recent_map::RecentMap},
    timeline::event::EventKind,
    wait::{Comm, Namespace},
};

/// The names in a recording, up to the frame read last.
#[derive(Clone, Debug, Default)]
pub struct RecordedNames {
    cgroups: HashMap<u64, String>,
    tasks: RecentMap<Comm>,
    namespaces: HashMap<u32, Option<Namespace>>,
    functions: HashMap<u64, Option<String>>,
    files: Files,
}

impl RecordedNames {
    /// No names yet, of these recordings.
    pub fn of(files: Files) -> Self {
        Self { files, ..Self::default() }
    }

    /// Stores the names in a frame, if it has any.
    pub fn learn(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::Cgroup { id, path } => _ = self.cgroups.insert(*id, path.to_string()),
            Frame::Task { tid, comm } => _ = self.tasks.insert(*tid, *comm),
            Frame::Namespace { tid, namespace } => _ = self.namespaces.insert(*tid, *namespace),
            Frame::Function { address, name } => {
                _ = self.functions.insert(*address, name.as_deref().map(str::to_owned))
            }
            Frame::Event(event) => {
                if let EventKind::Switch(switch) = &event.kind {
                    [&switch.prev, &switch.next]
                        .into_iter()
                        .for_each(|task| _ = self.tasks.insert(task.tid, task.comm));
                }
            }
            Frame::Wait(wait) => {
                let tasks = [(wait.tid, wait.comm), (wait.prev_tid, wait.prev_comm)];
                tasks.into_iter().for_each(|(tid, comm)| _ = self.tasks.insert(tid, comm));
            }
            Frame::Group { .. }
            | Frame::Histograms(_)
            | Frame::Stack { .. }
            | Frame::StackCounts(_)
            | Frame::Header(_)
            | Frame::UnixOffset(_)
            | Frame::WarmedUp
            | Frame::Start(_)
            | Frame::Reading(_)
            | Frame::End(_) => {}
        }
    }
}

impl Names for RecordedNames {
    fn cgroup(&self, id: u64) -> String {
        self.cgroups.get(&id).cloned().unwrap_or_else(|| unnamed_cgroup(id))
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        if let Some(idle) = self.files.idle_name(tid) {
            return Some(idle);
        }
        self.tasks.get(tid).copied()
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
