//! The labels of the series of a cgroup.

use std::borrow::Cow;

use super::pod_labels::PodLabelTable;
use crate::aggregate::container_id::Container;

/// Names and values of labels.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// The labels of a cgroup: its path, the container and the pod that the path contains, and their names as far as `pods` has
/// them.
pub(super) fn labels(cgroup: &str, pods: Option<&PodLabelTable>) -> Labels {
    let container = Container::of(cgroup);
    let (id, pod) = container.map_or((None, None), |container| (container.id, container.pod));
    let ids = [("container", id), ("pod", pod)].into_iter().filter_map(|(name, value)| Some((name, value?)));
    let names = pods.into_iter().flat_map(|pods| pods.labels(cgroup)).map(|(name, value)| (name, value.to_owned()));
    let all = [("cgroup", cgroup.to_owned())].into_iter().chain(ids).chain(names);
    all.map(|(name, value)| (name, Cow::Owned(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            node_pods::testing::{UID, path, pods},
            pod_labels::KubeletResult,
        },
        *,
    };

    #[test]
    fn a_container_has_its_ids_and_its_names() {
        let id = "0123456789abcdef".repeat(4);
        let docker = format!("/system.slice/docker-{id}.scope");
        let found = labels(&docker, None);
        assert_eq!(found, [("cgroup", Cow::Owned(docker)), ("container", Cow::Borrowed("0123456789ab"))]);
        let web = path(UID, 'a');
        let mut table = PodLabelTable::default();
        table.answered(KubeletResult::Success, Some(pods()));
        table.add([web.as_str()]);
        let expected = [
            ("cgroup", web.as_str()),
            ("container", "aaaaaaaaaaaa"),
            ("pod", UID),
            ("namespace", "shop"),
            ("pod_name", "web-0"),
            ("container_name", "web"),
        ];
        assert_eq!(labels(&web, Some(&table)), expected.map(|(name, value)| (name, Cow::Borrowed(value))));
        assert_eq!(labels(&web, None), expected[..3].iter().map(|(n, v)| (*n, Cow::Borrowed(*v))).collect::<Vec<_>>());
    }
}
