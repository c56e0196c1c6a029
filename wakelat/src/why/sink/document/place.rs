//! Where a task belongs.

use serde::Serialize;

use crate::{aggregate::container::Container, why::Summary};

/// The container of a cgroup, as far as its path tells.
#[derive(Serialize)]
pub(super) struct ContainerDocument {
    id: Option<String>,
    pod: Option<String>,
}

impl ContainerDocument {
    /// That of a cgroup which the summary names.
    pub(super) fn of(id: Option<u64>, summary: &Summary) -> Option<Self> {
        let Container { id, pod } = Container::of(summary.cgroups.get(&id?)?)?;
        Some(Self { id, pod })
    }
}
