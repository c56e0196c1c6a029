//! The container of a task.

use serde::Serialize;

use crate::{aggregate::container_id::Container, why::Summary};

/// The container of a cgroup, as far as the path of the cgroup identifies it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ContainerDocument {
    /// ID, cut to twelve digits, or a name; `null` for what belongs to the pod only.
    id: Option<String>,
    /// UID of its Kubernetes pod, or `null`.
    pod: Option<String>,
}

impl ContainerDocument {
    /// The container of the cgroup `id`, if the summary has its path and the path is that of a container.
    pub(super) fn of(id: Option<u64>, summary: &Summary) -> Option<Self> {
        let Container { id, pod } = Container::of(summary.cgroups.get(&id?)?)?;
        Some(Self { id, pod })
    }
}
