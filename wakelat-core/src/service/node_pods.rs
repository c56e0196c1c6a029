//! The pods of a node, as the kubelet lists them (`/pods`, a `PodList` of the Kubernetes API).

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

use crate::aggregate::container_id::Container;

/// Maximum number of pods of a list. By default, a node runs at most 110.
const MAX_PODS: usize = 4_096;

/// Maximum number of containers of a list.
const MAX_CONTAINERS: usize = 32_768;

/// The longest names that Kubernetes allows: bytes. A pod has the name of a DNS subdomain, the others are DNS labels.
const MAX_POD_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// The longest UID: bytes.
const MAX_UID: usize = 36;

/// What Kubernetes calls a container and its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNames {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container in the pod, if it is known.
    pub container: Option<String>,
}

/// The pods of a node, by the UID that the paths of their cgroups contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePods {
    pods: BTreeMap<String, NodePod>,
    /// The UID of a static pod by the hash of its manifest, which its cgroup has in place of the UID.
    hashes: BTreeMap<String, String>,
    containers: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NodePod {
    namespace: String,
    name: String,
    /// Names of the containers, by ID as in [`Container::id`].
    containers: BTreeMap<String, String>,
}

impl NodePods {
    /// Parses a `PodList` in JSON. Pods and containers without valid names are left out.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let list: PodListBody = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if list.kind != "PodList" {
            return Err("it is not a PodList".to_owned());
        }
        Ok(list.items)
    }

    /// The number of pods.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether the node has no pod.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The names of a container of a pod; `None` if the list does not have its pod.
    pub fn names(&self, container: &Container) -> Option<PodNames> {
        let uid = container.pod.as_ref()?;
        let pod = self.pods.get(self.hashes.get(uid).unwrap_or(uid))?;
        let container = container.id.as_ref().and_then(|id| pod.containers.get(id)).cloned();
        Some(PodNames { namespace: pod.namespace.clone(), pod: pod.name.clone(), container })
    }

    fn add(&mut self, PodBody { metadata, status }: PodBody) -> Result<(), &'static str> {
        let is_name = |name: &str, longest| !name.is_empty() && name.len() <= longest;
        let PodMetadata { uid, namespace, name, annotations } = metadata;
        let hash = annotations.and_then(|annotations| annotations.hash);
        if !is_name(&uid, MAX_UID) || !is_name(&namespace, MAX_LABEL) || !is_name(&name, MAX_POD_NAME) {
            return Ok(());
        }
        let mut containers = BTreeMap::new();
        for ContainerStatus { name, container_id, last_state } in status.into_iter().flat_map(PodStatus::containers) {
            let previous = last_state.and_then(|state| state.terminated?.container_id);
            let ids = [container_id, previous].into_iter().flatten();
            let ids = ids.filter_map(|id| Container::of(id.split_once("://")?.1)?.id);
            containers.extend(ids.filter(|_| is_name(&name, MAX_LABEL)).map(|id| (id, name.clone())));
        }
        self.containers += containers.len();
        if self.pods.len() >= MAX_PODS || self.containers > MAX_CONTAINERS {
            return Err("the list has too many pods or containers");
        }
        if let Some(hash) = hash.filter(|hash| *hash != uid && is_name(hash, MAX_UID)) {
            self.hashes.insert(hash, uid.clone());
        }
        self.pods.insert(uid, NodePod { namespace, name, containers });
        Ok(())
    }
}

/// Reads a pod at a time, so that only what is kept needs memory.
impl<'de> Deserialize<'de> for NodePods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = NodePods;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of pods")
            }

            fn visit_unit<E>(self) -> Result<NodePods, E> {
                Ok(NodePods::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NodePods, A::Error> {
                let mut pods = NodePods::default();
                while let Some(pod) = list.next_element()? {
                    pods.add(pod).map_err(A::Error::custom)?;
                }
                Ok(pods)
            }
        }
        deserializer.deserialize_any(Items)
    }
}

#[derive(Deserialize)]
struct PodListBody {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: NodePods,
}

#[derive(Deserialize)]
struct PodBody {
    metadata: PodMetadata,
    status: Option<PodStatus>,
}

#[derive(Deserialize)]
struct PodMetadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    annotations: Option<PodAnnotations>,
}

#[derive(Deserialize)]
struct PodAnnotations {
    /// The hash of a static pod's manifest.
    #[serde(rename = "kubernetes.io/config.hash")]
    hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

impl PodStatus {
    fn containers(self) -> impl Iterator<Item = ContainerStatus> {
        let all = [self.container_statuses, self.init_container_statuses, self.ephemeral_container_statuses];
        all.into_iter().flatten().flatten()
    }
}

#[derive(Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    name: String,
    /// `RUNTIME://ID`; absent until the container is created.
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    /// The container before the last restart: its cgroup may still have a series.
    #[serde(rename = "lastState")]
    last_state: Option<LastState>,
}

#[derive(Deserialize)]
struct LastState {
    terminated: Option<TerminatedState>,
}

#[derive(Deserialize)]
struct TerminatedState {
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

/// A list of pods, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::NodePods;

    /// The UID of the pod `web-0`.
    pub const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

    /// A list with ordinary and static pods, several containers, hostile names and pods that are left out.
    pub const POD_LIST: &str = include_str!("testdata/pods.json");

    /// The pods of [`POD_LIST`].
    pub fn pods() -> NodePods {
        NodePods::parse(POD_LIST.as_bytes()).unwrap()
    }

    /// The path of the cgroup of a container, whose ID is `digit` 64 times.
    pub fn path(uid: &str, digit: char) -> String {
        let slice = uid.replace('-', "_");
        format!("/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{}.scope", digit.to_string().repeat(64))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        testing::{UID, path, pods},
        *,
    };

    fn found(uid: &str, digit: char) -> Option<(String, String, Option<String>)> {
        let names = pods().names(&Container::of(&path(uid, digit)).unwrap())?;
        Some((names.namespace, names.pod, names.container))
    }

    fn expected(namespace: &str, pod: &str, container: Option<&str>) -> Option<(String, String, Option<String>)> {
        Some((namespace.to_owned(), pod.to_owned(), container.map(str::to_owned)))
    }

    #[test]
    fn each_container_has_the_names_of_its_status_and_its_pod() {
        for (digit, name) in [('a', "web"), ('b', "proxy"), ('c', "proxy"), ('d', "migrate"), ('e', "debugger")] {
            assert_eq!(found(UID, digit), expected("shop", "web-0", Some(name)), "{digit}");
        }
        // The sandbox of a pod has no status.
        assert_eq!(found(UID, 'f'), expected("shop", "web-0", None));
        // The same ID in another pod is another container.
        assert_eq!(found("11111111-2222-3333-4444-555555555555", 'a'), expected("shop", "pending-0", None));
    }

    #[test]
    fn a_static_pod_is_found_by_the_hash_of_its_manifest_and_by_its_uid() {
        let names = expected("kube-system", "etcd-node1", Some("etcd"));
        assert_eq!(found("0123456789abcdef0123456789abcdef", '1'), names);
        assert_eq!(found("aaaaaaaa-0000-0000-0000-000000000001", '1'), names);
        // The kubelet's own list has the hash as UID.
        assert_eq!(found("fedcba9876543210fedcba9876543210", '2').unwrap().1, "kube-proxy-node1");
    }

    #[test]
    fn hostile_names_are_kept_as_they_are_and_endless_ones_left_out() {
        assert_eq!(found("22222222-2222-3333-4444-555555555555", '3').unwrap().1, "a\"} 1\nb\\");
        assert_eq!(found("33333333-2222-3333-4444-555555555555", '4'), None);
        assert_eq!(pods().len(), 6);
    }

    #[test]
    fn only_a_list_of_a_bounded_number_of_pods_is_accepted() {
        for (json, part) in [
            ("", "EOF"),
            ("{}", "not a PodList"),
            ("{\"kind\":\"NodeList\",\"items\":[]}", "not a PodList"),
            ("{\"kind\":\"PodList\",\"items\":7}", "a list of pods"),
            ("<html>", "expected value"),
        ] {
            let error = NodePods::parse(json.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
        assert!(NodePods::parse(b"{\"kind\":\"PodList\",\"items\":null}").unwrap().is_empty());
        let pod = |at: usize| format!("{{\"metadata\":{{\"uid\":\"{at}\",\"namespace\":\"a\",\"name\":\"b\"}}}}");
        let list = |count| {
            let pods: Vec<String> = (0..count).map(pod).collect();
            format!("{{\"kind\":\"PodList\",\"items\":[{}]}}", pods.join(","))
        };
        assert_eq!(NodePods::parse(list(MAX_PODS).as_bytes()).unwrap().len(), MAX_PODS);
        assert!(NodePods::parse(list(MAX_PODS + 1).as_bytes()).unwrap_err().contains("too many"));
    }
}
