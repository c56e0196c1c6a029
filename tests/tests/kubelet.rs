//! `serve --kubelet`: the series of a container have the names that the kubelet has for it, and the service keeps measuring
//! whatever the kubelet answers.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::json;
use wakelat_tests::{
    attached_typed,
    cgroup::Hierarchy,
    http::{MetricSamples, get},
    kubelet::{TOKEN, TestKubelet},
    machine,
    suite::{Case, TestOutcome, concurrent},
    wakelat::{AttachCase, Wakelat, command},
    workload::{PingPong, Workload, until},
};

pub fn cases() -> Vec<Case> {
    concurrent(attached_typed![
        a_pod_that_starts_later_has_its_names_soon_and_keeps_them,
        a_kubelet_that_refuses_is_reported_once_and_asked_again,
    ])
}

const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

/// A service that asks a kubelet.
struct Service {
    wakelat: Wakelat,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Service {
    fn start(attach: AttachCase, kubelet: &TestKubelet) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        let mut command = command(&["serve", "--listen", &listen, "--attach", attach.name(), "--max-overhead", "none"]);
        command.args(kubelet.arguments());
        let wakelat = Wakelat::measuring(command);
        let service = Self { wakelat, socket, _directory: directory };
        until("the service has metrics", || get(&service.socket, "/healthz", "").status == 200);
        service
    }

    fn requests(&self, result: &str) -> f64 {
        MetricSamples::scrape(&self.socket).value(&format!("wakelat_kubelet_requests_total{{result=\"{result}\"}}"))
    }

    /// Ends the service, and returns what it has written to standard error.
    fn end(self) -> String {
        self.wakelat.signal(Signal::SIGTERM);
        let ended = self.wakelat.end();
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
        ended.stderr
    }
}

fn a_pod_that_starts_later_has_its_names_soon_and_keeps_them(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let (top, id) = (hierarchy.group("kubepods.slice"), "3f4e5d6c7b8a9012".repeat(4));
    let pod = top.child(&format!("kubepods-pod{}.slice", UID.replace('-', "_")));
    let container = pod.child(&format!("cri-containerd-{id}.scope"));
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 500)).stage();
    ["wl-ping", "wl-pong"].iter().for_each(|name| container.add_process(staged.tid(name)));
    let kubelet = TestKubelet::start();
    let service = Service::start(attach, &kubelet);
    until("the kubelet has answered without the pod", || service.requests("success") >= 1.0);
    let status = json!({"name": "a\"b", "containerID": format!("containerd://{id}")});
    let metadata = json!({"uid": UID, "namespace": "shop", "name": "web-0"});
    kubelet.set_pods(json!([{"metadata": metadata, "status": {"containerStatuses": [status]}}]));
    staged.perform();
    let path = container.path().strip_prefix(hierarchy.root()).expect("below the root");
    let ids = format!("cgroup=\"/{}\",container=\"3f4e5d6c7b8a\",pod=\"{UID}\"", path.display());
    let names = "namespace=\"shop\",pod_name=\"web-0\",container_name=\"a\\\"b\"";
    let count = format!("wakelat_wait_seconds_count{{{ids},{names}}}");
    until("the pod has its names", || MetricSamples::scrape(&service.socket).value(&count) > 0.0);
    let metrics = MetricSamples::scrape(&service.socket);
    assert_eq!(metrics.value("wakelat_kubelet_pods"), 1.0);
    // Each of its series has them.
    assert_eq!(metrics.sum("wakelat_wait", &format!("{{{ids}}}")), 0.0, "{metrics:?}");
    // Names do not depend on later answers.
    kubelet.set_pods(json!([]));
    kubelet.write_token("other");
    assert!(MetricSamples::scrape(&service.socket).value(&count) > 0.0);
    let messages = service.end();
    assert!(!messages.contains("kubelet"), "{messages}");
    Ok(())
}

fn a_kubelet_that_refuses_is_reported_once_and_asked_again(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let kubelet = TestKubelet::start();
    kubelet.write_token("other");
    let service = Service::start(attach, &kubelet);
    until("the kubelet has refused", || service.requests("refused") >= 1.0);
    // Kubernetes replaces the token.
    kubelet.write_token(TOKEN);
    until("the kubelet has answered", || service.requests("success") >= 1.0);
    assert_eq!(get(&service.socket, "/healthz", "").status, 200);
    let messages = service.end();
    let about: Vec<&str> = messages.lines().filter(|line| line.contains("kubelet 127.0.0.1:")).collect();
    let [refused, again] = about[..] else { panic!("{messages}") };
    assert!(refused.contains("401") && again.ends_with("answers again"), "{about:?}");
    Ok(())
}
