//! The container of a task.

use serde::Serialize;

use crate::{aggregate::container::Container, why::Summary};

/// The container of a cgroup, as far as the path of the cgroup identifies it.
#[derive(Serialize)]
pub(super) struct ContainerDocument {
    id: Option<String>,
    pod: Option<String>,
}

impl ContainerDocument {
    /// The container of the cgroup `id`, if the summary has its path and the path is that of a container.
    pub(super) fn of(id: Option<u64>, summary: &Summary) -> Option<Self> {
        let Container { id, pod } = Container::of(summary.cgroups.get(&id?)?)?;
        Some(Self { id, pod })
    }
}
