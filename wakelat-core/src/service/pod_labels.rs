//! The names of pods and containers, for the labels of the cgroups that have series.

use std::collections::BTreeMap;

use super::node_pods::{NodePods, PodNames};
use crate::aggregate::container_id::Container;

/// The labels of namespaces, pods and containers.
pub const POD_NAME_LABELS: [&str; 3] = ["namespace", "pod_name", "container_name"];

/// What became of a request to the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletResult {
    /// It answered with its pods.
    Success,
    /// No connection, no answer in time, or no token to send.
    Failed,
    /// It answered with an error.
    Refused,
    /// Its answer is too long, or no list of pods.
    Invalid,
}

impl KubeletResult {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Success, Self::Failed, Self::Refused, Self::Invalid];

    /// The value of the label `result`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
        }
    }
}

/// The names of all cgroups that have series, as far as the kubelet has listed their pods. A cgroup keeps its names after
/// its pod has ended.
#[derive(Clone, Debug, Default)]
pub struct PodLabelTable {
    /// The last list.
    pods: NodePods,
    by_cgroup: BTreeMap<String, CgroupNames>,
    requests: [u64; KubeletResult::ALL.len()],
    has_new_unnamed: bool,
}

/// A cgroup with series.
#[derive(Clone, Debug)]
struct CgroupNames {
    /// `None` for a cgroup outside of pods.
    container: Option<Container>,
    names: Option<PodNames>,
}

impl CgroupNames {
    fn is_complete(&self) -> bool {
        let is_named = |container: &Container| match &self.names {
            Some(names) => container.id.is_none() || names.container.is_some(),
            None => false,
        };
        self.container.as_ref().is_none_or(is_named)
    }

    fn look_up(&mut self, pods: &NodePods) {
        if let Some(container) = self.container.as_ref().filter(|_| !self.is_complete()) {
            self.names = pods.names(container).or_else(|| self.names.take());
        }
    }
}

impl PodLabelTable {
    /// Counts a request, and takes the list of a successful one.
    pub fn answered(&mut self, result: KubeletResult, pods: Option<NodePods>) {
        self.requests[result as usize] += 1;
        let Some(pods) = pods else { return };
        self.by_cgroup.values_mut().for_each(|cgroup| cgroup.look_up(&pods));
        self.pods = pods;
    }

    /// Looks up the names of those `cgroups` that are new.
    pub fn add<'a>(&mut self, cgroups: impl IntoIterator<Item = &'a str>) {
        for cgroup in cgroups {
            if !self.by_cgroup.contains_key(cgroup) {
                let container = Container::of(cgroup).filter(|container| container.pod.is_some());
                let mut new = CgroupNames { container, names: None };
                new.look_up(&self.pods);
                self.has_new_unnamed |= !new.is_complete();
                self.by_cgroup.insert(cgroup.to_owned(), new);
            }
        }
    }

    /// Whether a cgroup without a name has been added since the last call: another request may find it. A cgroup counts
    /// once, because the sandbox of a pod never has the name of a container.
    pub fn take_new_unnamed(&mut self) -> bool {
        std::mem::take(&mut self.has_new_unnamed)
    }

    /// Forgets the cgroups that have no series any more.
    pub fn retain(&mut self, has_series: impl Fn(&str) -> bool) {
        self.by_cgroup.retain(|cgroup, _| has_series(cgroup));
    }

    /// The labels of a cgroup ([`POD_NAME_LABELS`]) that are known, and their values.
    pub fn labels(&self, cgroup: &str) -> impl Iterator<Item = (&'static str, &str)> {
        let names = self.by_cgroup.get(cgroup).and_then(|cgroup| cgroup.names.as_ref());
        let values = names.map(|names| [Some(&names.namespace), Some(&names.pod), names.container.as_ref()]);
        let labels = POD_NAME_LABELS.into_iter().zip(values.into_iter().flatten());
        labels.filter_map(|(label, value)| Some((label, value?.as_str())))
    }

    /// The number of pods in the last list.
    pub fn pods(&self) -> u64 {
        self.pods.len() as u64
    }

    /// The requests so far, by the value of the label `result`.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KubeletResult::ALL.map(KubeletResult::name).into_iter().zip(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::node_pods::testing::{UID, path, pods},
        *,
    };

    fn labels(table: &PodLabelTable, cgroup: &str) -> String {
        table.labels(cgroup).map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn a_new_cgroup_without_a_name_asks_once_and_gets_it_with_the_next_list() {
        let (web, sandbox) = (path(UID, 'a'), path(UID, 'f'));
        let mut table = PodLabelTable::default();
        table.add([web.as_str(), "/system.slice/a.service"]);
        assert!(table.take_new_unnamed());
        table.add([web.as_str()]);
        assert!(!table.take_new_unnamed());
        assert_eq!(labels(&table, &web), "");
        table.answered(KubeletResult::Success, Some(pods()));
        assert_eq!(labels(&table, &web), "namespace=shop pod_name=web-0 container_name=web ");
        assert_eq!(labels(&table, "/system.slice/a.service"), "");
        // The list is known: names are there at once.
        let proxy = path(UID, 'b');
        table.add([proxy.as_str()]);
        assert!(!table.take_new_unnamed());
        assert_eq!(labels(&table, &proxy), "namespace=shop pod_name=web-0 container_name=proxy ");
        table.add([sandbox.as_str()]);
        assert!(table.take_new_unnamed());
        assert_eq!(labels(&table, &sandbox), "namespace=shop pod_name=web-0 ");
    }

    #[test]
    fn names_last_as_long_as_the_series() {
        let web = path(UID, 'a');
        let mut table = PodLabelTable::default();
        table.add([web.as_str()]);
        table.answered(KubeletResult::Success, Some(pods()));
        table.answered(KubeletResult::Success, Some(NodePods::default()));
        table.answered(KubeletResult::Refused, None);
        assert_eq!(labels(&table, &web), "namespace=shop pod_name=web-0 container_name=web ");
        assert_eq!(table.pods(), 0);
        let requests: Vec<_> = table.requests().collect();
        assert_eq!(requests, [("success", 2), ("failed", 0), ("refused", 1), ("invalid", 0)]);
        table.retain(|_| false);
        assert_eq!((labels(&table, &web).as_str(), table.by_cgroup.len()), ("", 0));
    }
}
