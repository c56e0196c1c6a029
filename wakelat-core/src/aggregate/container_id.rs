//! Identifies containers by the cgroup paths that container runtimes use. No runtime is asked.

/// A container, as identified by the path of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Container {
    /// Its id as runtimes show it, the first twelve of 64 digits; or its name, if it has no id. None for
    /// a cgroup that belongs to a pod but not to a container in it.
    pub id: Option<String>,
    /// The uid of its Kubernetes pod.
    pub pod: Option<String>,
}

/// Number of digits of a container id, and how many of them runtimes show.
const ID: usize = 64;
const SHORT: usize = 12;

impl Container {
    /// Parses a container from a cgroup path below the mount. None if no component of the path looks
    /// like a container or a pod. Of nested containers, returns the innermost.
    pub fn of(path: &str) -> Option<Self> {
        let components: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
        let named = |at: usize| name(if at > 0 { components[at - 1] } else { "" }, components[at]);
        let id = (0..components.len()).rev().find_map(|at| id(components[at]).or_else(|| named(at)));
        let pod = components.iter().rev().find_map(|component| pod(component));
        (id.is_some() || pod.is_some()).then_some(Self { id, pod })
    }
}

/// The id in one path component: `ID` (cgroupfs), `docker-ID.scope`, `cri-containerd-ID.scope`,
/// `crio-ID.scope`, `libpod-ID.scope` (systemd), `SLICE:cri-containerd:ID` (containerd uses cgroupfs,
/// the kubelet systemd). The processes that monitor a container (`crio-conmon-ID.scope`) are not in it.
fn id(component: &str) -> Option<String> {
    let unit = component.strip_suffix(".scope").unwrap_or(component);
    let (before, id) = unit.rsplit_once([':', '-']).unwrap_or(("", unit));
    let is_id = id.len() == ID && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_id && !before.ends_with("conmon")).then(|| id[..SHORT].to_owned())
}

/// The name of a container that has no id: `lxc.payload.NAME`, `lxc.payload/NAME`, `lxc/NAME` (LXC, LXD,
/// Incus, Proxmox VE), `systemd-nspawn@NAME.service`.
fn name(above: &str, component: &str) -> Option<String> {
    let unit = || component.strip_prefix("systemd-nspawn@")?.strip_suffix(".service");
    let name = if matches!(above, "lxc" | "lxc.payload") { Some(component) } else { unit() };
    name.or_else(|| component.strip_prefix("lxc.payload.")).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The pod uid in one path component: `podUID`, `kubepods-burstable-podU_I_D.slice`; the uid of a static
/// pod is 32 digits without dashes.
fn pod(component: &str) -> Option<String> {
    let unit = component.split(':').next().unwrap_or(component);
    let unit = unit.strip_suffix(".slice").unwrap_or(unit);
    let uid = unit.strip_prefix("pod").or_else(|| unit.rsplit_once("-pod").map(|(_, uid)| uid))?.replace('_', "-");
    let digits: Vec<usize> = uid.split('-').map(str::len).collect();
    let is_uid = matches!(digits[..], [8, 4, 4, 4, 12] | [32]);
    (is_uid && uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a9012";
    const OTHER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

    fn of(path: &str) -> Option<(Option<String>, Option<String>)> {
        let path = path.replace("U_I_D", &UID.replace('-', "_")).replace("UID", UID);
        let path = path.replace("OTHER", OTHER).replace("ID", ID);
        Container::of(&path).map(|container| (container.id, container.pod))
    }

    fn container(id: &str) -> Option<(Option<String>, Option<String>)> {
        Some((Some(id.to_owned()), None))
    }

    #[test]
    fn runtimes_without_pods() {
        for path in [
            "/docker/ID",
            "/system.slice/docker-ID.scope",
            "/system.slice/docker-ID.scope/init.scope",
            "/system.slice/nerdctl-ID.scope",
            "/machine.slice/libpod-ID.scope",
            "/machine.slice/libpod-ID.scope/container",
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
            "/libpod_parent/libpod-ID",
            "/default/ID",
            "/ecs/0123456789abcdef0123456789abcdef/ID",
        ] {
            assert_eq!(of(path), container("3f4e5d6c7b8a"), "{path}");
        }
    }

    #[test]
    fn containers_of_pods() {
        for path in [
            "/kubepods/burstable/podUID/ID",
            "/kubepods/podUID/ID",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope",
            "/kubepods.slice/kubepods-podU_I_D.slice/crio-ID.scope",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/docker-ID.scope",
            "/system.slice/containerd.service/kubepods-burstable-podU_I_D.slice:cri-containerd:ID",
            "/docker/OTHER/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_I_D.slice/cri-containerd-ID.scope",
            "/docker/OTHER/kubelet/kubepods/besteffort/podUID/ID",
        ] {
            assert_eq!(of(path), Some((Some("3f4e5d6c7b8a".to_owned()), Some(UID.to_owned()))), "{path}");
        }
        let of_static = "/kubepods/pod0123456789abcdef0123456789abcdef/ID";
        assert_eq!(of(of_static).unwrap().1.as_deref(), Some("0123456789abcdef0123456789abcdef"));
    }

    #[test]
    fn cgroups_of_a_pod_outside_its_containers() {
        let pod = Some((None, Some(UID.to_owned())));
        assert_eq!(of("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice"), pod);
        assert_eq!(of("/kubepods.slice/kubepods-podU_I_D.slice/crio-conmon-ID.scope"), pod);
    }

    #[test]
    fn containers_with_a_name_and_no_id() {
        for (path, name) in [
            ("/lxc/web", "web"),
            ("/lxc/101/ns/system.slice/ssh.service", "101"),
            ("/lxc.payload.web/system.slice", "web"),
            ("/lxc.payload/web", "web"),
            ("/machine.slice/systemd-nspawn@deb.service/payload", "deb"),
        ] {
            assert_eq!(of(path), container(name), "{path}");
        }
    }

    #[test]
    fn of_nested_containers_the_innermost_is_found() {
        assert_eq!(of("/docker/OTHER/docker/ID"), container("3f4e5d6c7b8a"));
        let inner = "/kubepods/podUID/OTHER/system.slice/docker-ID.scope";
        assert_eq!(of(inner), Some((Some("3f4e5d6c7b8a".to_owned()), Some(UID.to_owned()))));
    }

    #[test]
    fn everything_else_is_none() {
        for path in [
            "/",
            "",
            "/system.slice/docker.service",
            "/system.slice/nginx.service",
            "/user.slice/user-1000.slice/session-3.scope",
            "/kubepods/burstable",
            "/kubepods.slice/kubepods-burstable.slice",
            "/machine.slice/libpod-conmon-ID.scope",
            "/lxc.monitor.web",
            "/lxc",
            "/docker/3f4e5d6c7b8a",
            "/pods/podium",
            "(cgroup 42, gone)",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
        assert_eq!(of("/docker/IDa"), None);
    }
}
