//! What waits are grouped by. A new key is a variant, a name, and how it is taken from a wait.

use std::collections::{BTreeMap, btree_map::Entry};

use wakelat_common::Class;

use super::container::Container;
use crate::{
    report::{GroupClass, KeyPart, KeyValue},
    timeline::part::Component,
    wait::{Comm, Namespace, Wait, policy_name},
};

/// One grouping key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Thread.
    Tid,
    /// Process.
    Pid,
    /// Name.
    Comm,
    /// Cgroup, v2.
    Cgroup,
    /// Container, as far as the path of the cgroup tells.
    Container,
    /// CPU on which the wait ended.
    Cpu,
    /// Kernel priority.
    Prio,
    /// Scheduling policy.
    Policy,
    /// Class; every report tells classes apart in any case.
    Class,
    /// Thread that did the waking.
    Waker,
    /// What the time of a wait went to: then a group has the time that each wait spent in it.
    Component,
}

impl Key {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 11] = [
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
    ];

    /// Whether the kernel side can count by it without telling one wait from another.
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Cpu | Self::Class)
    }

    /// The word for it, on the command line and in JSON.
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
            Self::Component => "part",
        }
    }
}

/// The keys of one wait: what was not asked for is blank, so that equal means the same group. Plain data, so that
/// finding a wait's group allocates nothing.
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
}

impl GroupKey {
    /// The key without any part asked for.
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
        }
    }

    /// The key of `wait` under `keys`.
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
            }
        }
        group
    }

    /// This key, of the time that such waits spent in a part.
    pub fn with_component(self, part: Component) -> Self {
        Self { component: Some(part), ..self }
    }

    /// The key of waits of which nothing is known but their class and the CPU on which they ended.
    pub fn on_cpu(class: Class, cpu: u32, keys: &[Key], merged: bool) -> Self {
        let cpu = if keys.contains(&Key::Cpu) { cpu } else { 0 };
        Self { cpu, ..Self::of_class(class, merged) }
    }

    /// The class of the group.
    pub fn class(&self) -> GroupClass {
        self.class
    }

    /// The part of the time of waits that the group is of, where groups are by part.
    pub fn part(&self) -> Option<Component> {
        self.component
    }

    /// The key in words, part by part.
    pub fn key_parts(&self, keys: &[Key], names: &dyn Names) -> Vec<KeyPart> {
        let number = |value: u32| KeyValue::Number(value.into());
        let mut parts = Vec::new();
        for key in keys {
            let mut beside = None;
            // A number says little, and a name that is a key is there already.
            let name_of = |id: u32| {
                let comm = names.comm(id).filter(|_| !keys.contains(&Key::Comm));
                comm.map(|comm| KeyPart { name: "comm", value: KeyValue::Text(comm.to_string()) })
            };
            let value = match key {
                Key::Tid => {
                    beside = name_of(self.tid);
                    number(self.tid)
                }
                Key::Pid => {
                    beside = name_of(self.pid).filter(|_| !keys.contains(&Key::Tid));
                    number(self.pid)
                }
                Key::Comm => KeyValue::Text(self.comm.to_string()),
                Key::Cgroup => KeyValue::Text(names.cgroup(self.cgroup_id)),
                Key::Container => {
                    let container = Container::of(&names.cgroup(self.cgroup_id));
                    let pod = container.as_ref().and_then(|container| container.pod.clone());
                    beside = pod.map(|uid| KeyPart { name: "pod", value: KeyValue::Text(uid) });
                    KeyValue::Text(container.and_then(|container| container.id).unwrap_or_else(|| "(none)".to_owned()))
                }
                Key::Cpu => number(self.cpu),
                Key::Prio => KeyValue::Number(self.prio.into()),
                Key::Policy => KeyValue::Text(policy_name(self.policy).to_owned()),
                Key::Class => KeyValue::Text(self.class.name().to_owned()),
                Key::Waker => {
                    let comm = self.waker_tid.and_then(|tid| names.comm(tid));
                    beside = comm.map(|comm| KeyPart { name: "waker_comm", value: KeyValue::Text(comm.to_string()) });
                    self.waker_tid.map_or_else(|| KeyValue::Text("unknown".to_owned()), number)
                }
                Key::Component => KeyValue::Text(self.component.unwrap_or(Component::Unexplained).name().to_owned()),
            };
            parts.push(KeyPart { name: key.name(), value });
            parts.extend(beside);
        }
        parts
    }
}

/// What is called the same is one: a container may have several cgroups, and a path several, one after the other. `add`
/// adds the second of two to the first.
pub fn by_name<N: Ord, T>(named: impl Iterator<Item = (N, T)>, add: impl Fn(&mut T, &T)) -> BTreeMap<N, T> {
    let mut by_name = BTreeMap::new();
    for (name, one) in named {
        match by_name.entry(name) {
            Entry::Occupied(mut same) => add(same.get_mut(), &one),
            Entry::Vacant(none) => _ = none.insert(one),
        }
    }
    by_name
}

/// What numbers are called; asked once per group and report.
pub trait Names {
    /// The path of the cgroup with this id, below the v2 mount; some stand-in where it is gone.
    fn cgroup(&self, id: u64) -> String;
    /// The name of a thread, where it is known.
    fn comm(&self, tid: u32) -> Option<Comm>;
    /// The PID namespace of a thread, if it is not the one that all numbers are of, and it is known.
    fn namespace(&self, _tid: u32) -> Option<Namespace> {
        None
    }
    /// The kernel's function that an address is in, where it is known.
    fn function(&self, _address: u64) -> Option<String> {
        None
    }
}
