//! Grouping keys. A new key needs a variant, a name, and a way to read it from a wait.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::{Deserialize, Serialize};
use wakelat_common::{Class, group::part};

use super::container_id::Container;
use crate::{
    files::{Files, number_of_cpu, own_cgroup, own_number, own_tid},
    report::{GroupClass, KeyPart, KeyValue},
    timeline::{component::Component, event::TaskInfo},
    wait::{Comm, Namespace, ThreadNamespace, Wait, policy_name},
};

/// One grouping key. Recordings name keys by their position: new ones follow at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    /// Thread.
    Tid,
    /// Process.
    Pid,
    /// Name.
    Comm,
    /// Cgroup, v2.
    Cgroup,
    /// Container, as identified by the path of its cgroup.
    Container,
    /// CPU on which the wait ended.
    Cpu,
    /// Kernel priority.
    Prio,
    /// Scheduling policy.
    Policy,
    /// Class; every report separates classes anyway.
    Class,
    /// The waker's thread.
    Waker,
    /// Component of the latency: a group has the time that each wait spent in that component.
    Component,
    /// File, if recordings are shown.
    Recording,
    /// Host name of the recorded machine, if recordings are shown.
    Host,
}

impl Key {
    /// All keys, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Tid,
        Self::Pid,
        Self::Comm,
        Self::Cgroup,
        Self::Container,
        Self::Cpu,
        Self::Prio,
        Self::Policy,
        Self::Class,
        Self::Waker,
        Self::Component,
        Self::Recording,
        Self::Host,
    ];

    /// Whether the values of this key are only unique on one machine: IDs, not names.
    pub const fn is_of_one_machine(self) -> bool {
        matches!(self, Self::Tid | Self::Pid | Self::Cpu | Self::Waker)
    }

    /// Whether only recordings have this key.
    pub const fn is_of_recordings(self) -> bool {
        matches!(self, Self::Recording | Self::Host)
    }

    /// Whether the BPF programs can aggregate by this key, without a sample of each wait.
    pub const fn is_counted(self) -> bool {
        self.group_part().is_some()
    }

    /// What the programs' groups have to differ in for this key: a bit of [`part`], or 0 if the class and the
    /// CPU are enough. `None` if the programs cannot aggregate by this key.
    const fn group_part(self) -> Option<u32> {
        match self {
            Self::Cpu | Self::Class => Some(0),
            Self::Tid => Some(part::PID),
            Self::Pid => Some(part::TGID),
            Self::Comm => Some(part::COMM),
            Self::Cgroup | Self::Container => Some(part::CGROUP),
            Self::Prio | Self::Policy | Self::Waker | Self::Component | Self::Recording | Self::Host => None,
        }
    }

    /// The name of the key, on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tid => "tid",
            Self::Pid => "pid",
            Self::Comm => "comm",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Cpu => "cpu",
            Self::Prio => "prio",
            Self::Policy => "policy",
            Self::Class => "class",
            Self::Waker => "waker",
            Self::Component => "component",
            Self::Recording => "file",
            Self::Host => "host",
        }
    }
}

/// What groups have to differ in if the BPF programs aggregate waits by `keys`, each of which
/// [`Key::is_counted`]: bits of [`part`]; 0 if a histogram per class and CPU is enough.
pub fn group_parts(keys: &[Key]) -> u32 {
    keys.iter().filter_map(|key| key.group_part()).fold(0, |parts, part| parts | part)
}

/// The key of one group. Fields that are not grouped by are blank, so that equal keys mean the same
/// group. Plain data: finding a wait's group allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    class: GroupClass,
    tid: u32,
    pid: u32,
    comm: Comm,
    cgroup_id: u64,
    cpu: u32,
    prio: i32,
    policy: u32,
    waker_tid: Option<u32>,
    component: Option<Component>,
    /// The number of its file.
    file: u32,
}

/// The values of the keys by which the kernel can aggregate waits. What is not grouped by is blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyValues {
    /// Class.
    pub class: Class,
    /// Thread.
    pub tid: u32,
    /// Process.
    pub pid: u32,
    /// Name.
    pub comm: Comm,
    /// Cgroup, v2.
    pub cgroup_id: u64,
    /// CPU on which the waits ended.
    pub cpu: u32,
    /// The number of the file, if several recordings are shown.
    pub file: u32,
}

impl GroupKey {
    /// The key of a class, with all other fields blank.
    pub fn of_class(class: Class, merged: bool) -> Self {
        Self {
            class: if merged { GroupClass::RunQueue } else { GroupClass::One(class) },
            tid: 0,
            pid: 0,
            comm: Comm::default(),
            cgroup_id: 0,
            cpu: 0,
            prio: 0,
            policy: 0,
            waker_tid: None,
            component: None,
            file: 0,
        }
    }

    /// The key of the group of `wait` when grouping by `keys`; `merged` puts all classes into one.
    pub fn new(wait: &Wait, keys: &[Key], merged: bool) -> Self {
        let mut group = Self::of_class(wait.class, merged);
        for key in keys {
            match key {
                Key::Tid => group.tid = wait.tid,
                Key::Pid => group.pid = wait.pid,
                Key::Comm => group.comm = wait.comm,
                Key::Cgroup | Key::Container => group.cgroup_id = wait.cgroup_id.unwrap_or(0),
                Key::Cpu => group.cpu = wait.cpu,
                Key::Prio => group.prio = wait.prio,
                Key::Policy => group.policy = wait.policy,
                Key::Class | Key::Component => {}
                Key::Waker => group.waker_tid = wait.waker_tid,
                Key::Recording | Key::Host => group.file = number_of_cpu(wait.cpu),
            }
        }
        group
    }

    /// The key of the group of a task that runs on `cpu`, when grouping by `keys`, which must be properties of
    /// a running task. All classes are one.
    pub fn of_task(task: &TaskInfo, cpu: u32, keys: &[Key]) -> Self {
        let mut group = Self::of_class(Class::Wakeup, true);
        for key in keys {
            match key {
                Key::Tid => group.tid = task.tid,
                Key::Pid => group.pid = task.pid,
                Key::Comm => group.comm = task.comm,
                Key::Cgroup | Key::Container => group.cgroup_id = task.cgroup_id.unwrap_or(0),
                Key::Cpu => group.cpu = cpu,
                Key::Prio => group.prio = task.prio,
                Key::Policy => group.policy = task.policy,
                Key::Recording | Key::Host => group.file = number_of_cpu(cpu),
                Key::Class | Key::Waker | Key::Component => {}
            }
        }
        group
    }

    /// The key of a group whose waits the kernel aggregated, with these values, when grouping by `keys`; `merged` puts all
    /// classes into one.
    pub fn of_values(values: &KeyValues, keys: &[Key], merged: bool) -> Self {
        let mut group = Self::of_class(values.class, merged);
        for key in keys {
            match key {
                Key::Tid => group.tid = values.tid,
                Key::Pid => group.pid = values.pid,
                Key::Comm => group.comm = values.comm,
                Key::Cgroup | Key::Container => group.cgroup_id = values.cgroup_id,
                Key::Cpu => group.cpu = values.cpu,
                Key::Recording | Key::Host => group.file = values.file,
                Key::Prio | Key::Policy | Key::Class | Key::Waker | Key::Component => {}
            }
        }
        group
    }

    /// The values of this key, if all classes are separate and all of its keys satisfy [`Key::is_counted`].
    pub fn values(&self) -> Option<KeyValues> {
        let GroupClass::One(class) = self.class else { return None };
        let Self { tid, pid, comm, cgroup_id, cpu, file, .. } = *self;
        Some(KeyValues { class, tid, pid, comm, cgroup_id, cpu, file })
    }

    /// This key, for the time that its waits spent in `component`.
    pub fn with_component(self, component: Component) -> Self {
        Self { component: Some(component), ..self }
    }

    /// The key of waits aggregated in the kernel, which keeps only their class and the CPU on which they
    /// ended.
    pub fn on_cpu(class: Class, cpu: u32, keys: &[Key], merged: bool) -> Self {
        let cpu = if keys.contains(&Key::Cpu) { cpu } else { 0 };
        Self { cpu, ..Self::of_class(class, merged) }
    }

    /// The class of the group.
    pub fn class(&self) -> GroupClass {
        self.class
    }

    /// The component that the group is for, when grouping by component.
    pub fn component(&self) -> Option<Component> {
        self.component
    }

    /// The key as reports show it: one part per grouping key, followed by a related name or pod, if
    /// there is one.
    pub fn key_parts(&self, keys: &[Key], names: &dyn Names) -> Vec<KeyPart> {
        let number = |value: u32| KeyValue::Number(value.into());
        let mut parts = Vec::new();
        for key in keys {
            let mut beside = None;
            // An id says little without the name, unless the name is a key of its own.
            let name_of = |id: u32| {
                let comm = names.comm(id).filter(|_| !keys.contains(&Key::Comm));
                comm.map(|comm| KeyPart { name: "comm", value: KeyValue::Text(comm.to_string()) })
            };
            let value = match key {
                Key::Tid => {
                    beside = name_of(self.tid);
                    number(own_tid(self.tid))
                }
                Key::Pid => {
                    beside = name_of(self.pid).filter(|_| !keys.contains(&Key::Tid));
                    number(own_tid(self.pid))
                }
                Key::Comm => KeyValue::Text(self.comm.to_string()),
                Key::Cgroup => KeyValue::Text(names.cgroup(self.cgroup_id)),
                Key::Container => {
                    let container = Container::of(&names.cgroup(self.cgroup_id));
                    let pod = container.as_ref().and_then(|container| container.pod.clone());
                    beside = pod.map(|uid| KeyPart { name: "pod", value: KeyValue::Text(uid) });
                    KeyValue::Text(container.and_then(|container| container.id).unwrap_or_else(|| "(none)".to_owned()))
                }
                Key::Cpu => number(own_number(self.cpu)),
                Key::Prio => KeyValue::Number(self.prio.into()),
                Key::Policy => KeyValue::Text(policy_name(self.policy).to_owned()),
                Key::Class => KeyValue::Text(self.class.name().to_owned()),
                Key::Waker => {
                    let comm = self.waker_tid.and_then(|tid| names.comm(tid));
                    beside = comm.map(|comm| KeyPart { name: "waker_comm", value: KeyValue::Text(comm.to_string()) });
                    self.waker_tid.map_or_else(|| KeyValue::Text("unknown".to_owned()), |tid| number(own_tid(tid)))
                }
                Key::Component => KeyValue::Text(self.component.unwrap_or(Component::Unexplained).name().to_owned()),
                Key::Recording | Key::Host => {
                    let name = names.files().get(self.file).cloned().unwrap_or_default();
                    KeyValue::Text(if *key == Key::Recording { name.file } else { name.host })
                }
            };
            parts.push(KeyPart { name: key.name(), value });
            parts.extend(beside);
        }
        parts
    }
}

/// Merges values of the same name: a container can have several cgroups, and a path can belong to
/// several cgroups, one after the other. `add` adds its second argument to its first.
pub fn by_name<N: Ord, T>(named: impl Iterator<Item = (N, T)>, add: impl Fn(&mut T, &T)) -> BTreeMap<N, T> {
    let mut by_name = BTreeMap::new();
    for (name, value) in named {
        match by_name.entry(name) {
            Entry::Occupied(mut entry) => add(entry.get_mut(), &value),
            Entry::Vacant(entry) => _ = entry.insert(value),
        }
    }
    by_name
}

/// Resolves ids and addresses to names. A report asks once per group.
pub trait Names {
    /// The path of the cgroup with this id, below the v2 mount; a placeholder if the cgroup is gone.
    fn cgroup(&self, id: u64) -> String {
        unnamed_cgroup(id)
    }
    /// The name of a thread, if known.
    fn comm(&self, tid: u32) -> Option<Comm>;
    /// The PID namespace of a thread, if it is known and is not the one that all ids refer to.
    fn namespace(&self, _tid: u32) -> Option<Namespace> {
        None
    }
    /// The threads in other PID namespaces that were read in one pass before the run. Some may have exited since.
    fn namespaces_before_run(&self) -> &[ThreadNamespace] {
        &[]
    }
    /// The name of the kernel function that contains an address, if known.
    fn function(&self, _address: u64) -> Option<String> {
        None
    }
    /// The recordings that are shown.
    fn files(&self) -> Files {
        Files::default()
    }
}

/// The placeholder for the path of a cgroup that is not known.
pub fn unnamed_cgroup(id: u64) -> String {
    format!("(cgroup {})", own_cgroup(id))
}

/// The names of threads by TID; nothing else is known.
impl Names for BTreeMap<u32, Comm> {
    fn comm(&self, tid: u32) -> Option<Comm> {
        self.get(&tid).copied()
    }
}
