//! The cause of a part of a wait, in JSON documents.

use serde::Serialize;

use super::container::ContainerDocument;
use crate::{
    files::{own_cgroup, own_number, own_tid},
    timeline::{
        component::{Actor, Culprit},
        event::InterruptSource,
    },
    why::{
        Summary,
        render::labels::{self, is_own},
    },
};

/// A component and the task, interrupt, softirq or cgroup that caused it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CulpritDocument {
    /// Component that this time belongs to.
    #[cfg_attr(test, schemars(extend("enum" = crate::render::schema_values::component_names())))]
    component: &'static str,
    #[serde(flatten)]
    actor: ActorDocument,
}

impl CulpritDocument {
    pub(super) fn new(culprit: &Culprit, summary: &Summary) -> Self {
        Self { component: culprit.component.name(), actor: ActorDocument::new(&culprit.actor, summary) }
    }
}

/// The task, interrupt, softirq or cgroup of a culprit. Fields that do not apply are null.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ActorDocument {
    /// `task`, `irq`, `vector`, `softirq`, `idle`, `cgroup` or `unknown`; `null` if the component needs no name.
    pub(super) kind: Option<ActorKind>,
    /// Name of the task, device, vector or softirq; the reason for unexplained time; `null` if the component needs
    /// no name.
    pub(super) name: Option<String>,
    /// Thread, for a task.
    pub(super) tid: Option<u32>,
    /// Process, for a task.
    pub(super) pid: Option<u32>,
    /// Whether the task is a thread of wakelat itself.
    pub(super) is_own: bool,
    /// Kernel priority, for a task.
    pub(super) prio: Option<i32>,
    /// Number of the interrupt, the softirq or the C-state.
    pub(super) number: Option<u32>,
    /// Cgroup of the task, or the throttled cgroup.
    pub(super) cgroup_id: Option<u64>,
    /// Path of that cgroup.
    pub(super) cgroup: Option<String>,
    /// Container, as far as the path shows it: `id`, twelve digits or a name, `null` for what belongs to the pod
    /// only; and `pod`, the UID of its Kubernetes pod, or `null`. The whole field is `null` if the path is not a
    /// container's.
    pub(super) container: Option<ContainerDocument>,
    /// Name of the recording of a task, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
}

impl ActorDocument {
    pub(super) fn new(actor: &Actor, summary: &Summary) -> Self {
        let in_cgroup = |id: Option<u64>| Self {
            cgroup_id: id.map(own_cgroup),
            cgroup: id.and_then(|id| summary.cgroups.get(&id).cloned()),
            container: ContainerDocument::of(id, summary),
            ..Self::default()
        };
        match actor {
            Actor::Task(task) => Self {
                kind: Some(ActorKind::Task),
                name: Some(task.comm.to_string()),
                tid: Some(own_tid(task.tid)),
                pid: Some(own_tid(task.pid)),
                is_own: is_own(actor, &summary.own_pids),
                file: summary.files.of_tid(task.tid).map(str::to_owned),
                prio: Some(task.prio),
                ..in_cgroup(task.cgroup_id)
            },
            Actor::Idle(state) => Self { kind: Some(ActorKind::Idle), number: state.map(u32::from), ..Self::default() },
            Actor::Interrupt(source) => Self::noise(source),
            Actor::Cgroup(id) => Self { kind: Some(ActorKind::Cgroup), ..in_cgroup(*id) },
            Actor::NoActor => Self::default(),
            Actor::Unknown(why) => {
                Self { kind: Some(ActorKind::Unknown), name: Some(why.name().to_owned()), ..Self::default() }
            }
        }
    }

    pub(super) fn noise(source: &InterruptSource) -> Self {
        let (kind, name, number) = match source {
            InterruptSource::Irq { number, name } => {
                (ActorKind::Irq, Some(name.to_string()), Some(own_number(*number)))
            }
            // The numbers of vectors are wakelat's own, so they are not written.
            InterruptSource::Vector(number) => {
                (ActorKind::Vector, labels::vector_name(*number).map(str::to_owned), None)
            }
            InterruptSource::Softirq(number) => {
                (ActorKind::Softirq, Some(labels::softirq(*number).to_owned()), Some(*number))
            }
        };
        Self { kind: Some(kind), name, number, ..Self::default() }
    }
}

/// What kind of thing a cause is.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum ActorKind {
    /// A task.
    Task,
    /// The interrupt of a device.
    Irq,
    /// An interrupt of the CPU itself, such as its timer.
    Vector,
    /// A softirq.
    Softirq,
    /// The idle state that the CPU had to leave.
    Idle,
    /// A cgroup that had used up its quota.
    Cgroup,
    /// Not known; the name is the reason.
    Unknown,
}
