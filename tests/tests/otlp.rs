//! `serve --otlp`: the receiver of the exports, which has a decoder of its own, has the totals of `/report.json`, also after
//! it was busy or gone.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread::{self, JoinHandle},
};

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{KeyValue, any_value::Value as AttributeValue},
    metrics::v1::{ExponentialHistogramDataPoint, metric::Data, number_data_point},
};
use prost::Message as _;
use serde_json::Value;
use wakelat_sandbox::{ReadableFiles, Sandbox};
use wakelat_tests::{
    attached_typed,
    cgroup::Hierarchy,
    http::get,
    inside::{print, run_inside},
    suite::{Case, TestOutcome, concurrent},
    wakelat::{AttachCase, Wakelat, command},
    why::{list, number},
    workload::until,
};

/// Runs [`try_connections`] instead of the tests.
pub const INSIDE: &str = "--inside-the-exporter";

pub fn cases() -> Vec<Case> {
    concurrent(attached_typed![
        an_export_has_the_totals_of_the_report,
        deltas_add_up_to_the_last_report_and_none_arrives_twice,
        a_receiver_that_is_busy_or_gone_gets_everything_later,
        a_receiver_that_never_answers_delays_no_reading,
        only_the_port_of_the_receiver_can_be_connected_to,
    ])
}

/// An HTTP server that keeps what it accepts.
struct Collector {
    address: SocketAddr,
    /// The status with which it answers.
    status: Arc<AtomicU16>,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    fn start(address: &str, status: u16) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let status = Arc::new(AtomicU16::new(status));
        let (bodies, ends) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (in_thread, kept, ending) = (Arc::clone(&status), Arc::clone(&bodies), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(body) = request(stream.as_ref().expect("a connection")) else { continue };
                let status = in_thread.load(Ordering::Relaxed);
                if status == 200 {
                    kept.lock().expect("no panic").push(body);
                }
                let answer = format!("HTTP/1.1 {status} X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
                _ = stream.expect("a connection").write_all(answer.as_bytes());
            }
        });
        Self { address, status, bodies, ends, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn received(&self) -> usize {
        self.bodies.lock().expect("no panic").len()
    }

    /// Waits for the export with everything until the end of `report`.
    fn wait_for(&self, report: &Value) {
        let has = |body: &Vec<u8>| Export::decode(body).end_unix_ns == end_unix_ns(report);
        until("the export of the report has arrived", || self.bodies.lock().expect("no panic").iter().any(has));
    }

    /// Stops to listen, and returns all that was accepted.
    fn end(mut self) -> Vec<Export> {
        self.ends.store(true, Ordering::Relaxed);
        _ = TcpStream::connect(self.address);
        self.thread.take().expect("running").join().expect("no panic");
        let bodies = self.bodies.lock().expect("no panic");
        bodies.iter().map(|body| Export::decode(body)).collect()
    }
}

/// The body of a request; an error if the service ends before it has sent all of it.
fn request(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (None, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
        line.clear();
    }
    let mut body = vec![0; length.ok_or(io::ErrorKind::UnexpectedEof)?];
    reader.read_exact(&mut body)?;
    Ok(body)
}

/// What an export says about waits.
#[derive(Debug, Default)]
struct Export {
    start_unix_ns: u64,
    end_unix_ns: u64,
    /// Waits and their sum in ns, by cgroup.
    waits: BTreeMap<String, (u64, u64)>,
    /// ns by cgroup and cause.
    causes: BTreeMap<(String, String), u64>,
    resource: BTreeMap<String, String>,
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |each: &KeyValue| match each.value.clone().and_then(|value| value.value) {
        Some(AttributeValue::StringValue(text)) => (each.key.clone(), text),
        other => panic!("{other:?}"),
    };
    all.iter().map(text).collect()
}

impl Export {
    fn decode(body: &[u8]) -> Self {
        let request = ExportMetricsServiceRequest::decode(body).expect("a request of OTLP");
        let [all] = &request.resource_metrics[..] else { panic!("{request:?}") };
        let resource = attributes(&all.resource.as_ref().expect("a resource").attributes);
        let mut export = Self { resource, ..Self::default() };
        for metric in &all.scope_metrics[0].metrics {
            match (metric.name.as_str(), metric.data.as_ref().expect("data")) {
                ("wakelat.wait", Data::ExponentialHistogram(histogram)) => {
                    histogram.data_points.iter().for_each(|point| export.add(point));
                }
                ("wakelat.wait_cause", Data::Sum(sum)) => {
                    for point in &sum.data_points {
                        let of = attributes(&point.attributes);
                        let Some(number_data_point::Value::AsInt(ns)) = point.value else { panic!("{point:?}") };
                        export.causes.insert((of["cgroup"].clone(), of["cause"].clone()), ns as u64);
                    }
                }
                ("wakelat.measured", Data::Sum(sum)) => {
                    export.start_unix_ns = sum.data_points[0].start_time_unix_nano;
                    export.end_unix_ns = sum.data_points[0].time_unix_nano;
                }
                _ => {}
            }
        }
        export
    }

    fn add(&mut self, point: &ExponentialHistogramDataPoint) {
        let in_buckets = point.positive.as_ref().map_or(0, |buckets| buckets.bucket_counts.iter().sum());
        assert_eq!(point.zero_count + in_buckets, point.count, "{point:?}");
        assert_eq!(point.scale, 2);
        // A double has each sum exactly up to 2^53 ns.
        let sum_ns = point.sum.expect("a sum");
        assert!(sum_ns < 2f64.powi(53));
        self.waits.insert(attributes(&point.attributes)["cgroup"].clone(), (point.count, sum_ns as u64));
    }
}

/// Until when a report counts.
fn end_unix_ns(report: &Value) -> u64 {
    number(&report["start_unix_ns"]) + number(&report["duration_ns"])
}

/// The same from `/report.json`.
fn of_report(report: &Value) -> (Waits, Causes) {
    let (mut waits, mut causes) = (Waits::new(), Causes::new());
    for group in list(&report["groups"]) {
        let name = group["group"].as_str().unwrap_or("(other)").to_owned();
        waits.insert(name.clone(), (number(&group["waits"]), number(&group["sum_ns"])));
        for cause in list(&group["causes"]) {
            let of = cause["cause"].as_str().expect("a name").to_owned();
            causes.insert((name.clone(), of), number(&cause["sum_ns"]));
        }
    }
    (waits, causes)
}

type Waits = BTreeMap<String, (u64, u64)>;
type Causes = BTreeMap<(String, String), u64>;

/// A running service.
struct Service {
    wakelat: Wakelat,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Service {
    fn start(attach: AttachCase, url: &str, temporality: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        let mut command = command(&["serve", "--listen", &listen, "--attach", attach.name(), "--max-overhead", "none"]);
        if temporality == "delta" {
            // The same by a file.
            let file = directory.path().join("serve.toml");
            let settings = format!("[otlp]\nurl = \"{url}\"\ninterval = \"1s\"\ntemporality = \"delta\"\n");
            fs::write(&file, settings).expect("a file");
            command.arg("--config").arg(file);
        } else {
            command.args(["--otlp", url, "--otlp-interval", "1s", "--otlp-temporality", temporality]);
        }
        command.env("OTEL_RESOURCE_ATTRIBUTES", "zone=a%2Cb");
        let wakelat = Wakelat::measuring(command);
        Self { wakelat, socket, _directory: directory }
    }

    fn report(&self) -> Option<Value> {
        let response = get(&self.socket, "/report.json", "");
        (response.status == 200).then(|| serde_json::from_str(&response.body).expect("JSON"))
    }

    /// Waits until the service has read the tables for `more` exports, and returns the last report.
    fn readings(&self, more: usize) -> Value {
        /// Before that, a request has the tables read, but nothing is exported.
        const FIRST_EXPORT_NS: u64 = 500_000_000;
        let (mut last, mut count) = (None, 0);
        until("the tables have been read", || {
            let report = self.report().filter(|report| number(&report["duration_ns"]) >= FIRST_EXPORT_NS);
            if report.is_some() && report != last {
                (last, count) = (report, count + 1);
            }
            count >= more
        });
        last.expect("a report")
    }

    fn end(self) {
        self.wakelat.signal(Signal::SIGTERM);
        let ended = self.wakelat.end();
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
    }
}

/// Asserts that one of the cumulative `exports` has the totals of `report`.
fn assert_has(exports: &[Export], report: &Value) {
    let end_unix_ns = end_unix_ns(report);
    let same = exports.iter().find(|export| export.end_unix_ns == end_unix_ns);
    let ends: Vec<_> = exports.iter().map(|export| export.end_unix_ns).collect();
    let same = same.unwrap_or_else(|| panic!("no export until {end_unix_ns} in {ends:?}"));
    assert_eq!((same.waits.clone(), same.causes.clone()), of_report(report));
    assert!(!same.waits.is_empty(), "{same:?}");
}

fn an_export_has_the_totals_of_the_report(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let collector = Collector::start("127.0.0.1:0", 200);
    let service = Service::start(attach, &collector.url(), "cumulative");
    let report = service.readings(2);
    service.end();
    let exports = collector.end();
    assert_has(&exports, &report);
    let [first, .., last] = &exports[..] else { panic!("{exports:?}") };
    // The one at the end has everything, and all have the same beginning.
    assert!(last.end_unix_ns > end_unix_ns(&report));
    assert_eq!(first.start_unix_ns, last.start_unix_ns);
    assert_eq!(last.resource["service.name"], "wakelat");
    assert_eq!(last.resource["zone"], "a,b");
    assert_eq!(last.resource["service.instance.id"], first.resource["service.instance.id"]);
    Ok(())
}

fn deltas_add_up_to_the_last_report_and_none_arrives_twice(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    // Busy at first.
    let collector = Collector::start("127.0.0.1:0", 503);
    let service = Service::start(attach, &collector.url(), "delta");
    service.readings(2);
    collector.status.store(200, Ordering::Relaxed);
    until("exports have arrived", || collector.received() >= 2);
    let report = service.readings(2);
    // An export that is being sent when the service ends is not sent again.
    collector.wait_for(&report);
    service.end();
    let exports = collector.end();
    let until_ns = end_unix_ns(&report);
    let (mut waits, mut causes) = (Waits::new(), Causes::new());
    for export in exports.iter().filter(|export| export.end_unix_ns <= until_ns) {
        for (cgroup, (count, sum_ns)) in &export.waits {
            let sums = waits.entry(cgroup.clone()).or_default();
            *sums = (sums.0 + count, sums.1 + sum_ns);
        }
        export.causes.iter().for_each(|(key, ns)| *causes.entry(key.clone()).or_default() += ns);
    }
    assert_eq!((waits, causes), of_report(&report));
    // Each export begins where the previous one has ended.
    for pair in exports.windows(2) {
        assert_eq!(pair[0].end_unix_ns, pair[1].start_unix_ns);
    }
    Ok(())
}

fn a_receiver_that_is_busy_or_gone_gets_everything_later(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let collector = Collector::start("127.0.0.1:0", 200);
    let (url, address) = (collector.url(), collector.address.to_string());
    let service = Service::start(attach, &url, "cumulative");
    let before = service.readings(1);
    until("an export has arrived", || collector.received() > 0);
    let mut exports = collector.end();
    let meanwhile = service.readings(2);
    let collector = Collector::start(&address, 200);
    until("the exports of the pause have arrived", || collector.received() >= 2);
    let after = service.readings(2);
    service.end();
    exports.extend(collector.end());
    for report in [before, meanwhile, after] {
        assert_has(&exports, &report);
    }
    Ok(())
}

fn a_receiver_that_never_answers_delays_no_reading(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    // Connections are accepted by the kernel, and no process reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let service = Service::start(attach, &url, "delta");
    service.readings(2);
    let metrics = get(&service.socket, "/metrics", "text/plain").body;
    let value = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().expect("a number")
    };
    assert!(value("wakelat_otlp_queue") >= 1);
    assert_eq!(value("wakelat_otlp_exports_total{result=\"delivered\"}"), 0);
    // The connection closes: the export that was sent is not sent again, and the others are refused.
    drop(listener);
    service.end();
    Ok(())
}

/// Enters the sandbox of a service that exports to `port`, and prints the results of connections.
pub fn try_connections(ports: &[String]) {
    let [port, other] = ports else { panic!("expected two ports: {ports:?}") };
    let [port, other] = [port, other].map(|port| port.parse::<u16>().expect("a port"));
    let files = ReadableFiles::Below(Vec::new());
    Sandbox { files, connects_to: vec![port], ..Sandbox::EMPTY }.enter().expect("a process with one thread");
    print("receiver", TcpStream::connect(("127.0.0.1", port)).map(drop));
    print("other port", TcpStream::connect(("127.0.0.1", other)).map(drop));
    print("listen", TcpListener::bind("127.0.0.1:0").map(drop));
    print("UDP", UdpSocket::bind("127.0.0.1:0").map(drop));
    print("Unix socket", UnixStream::connect("/run/nothing").map(drop));
}

fn only_the_port_of_the_receiver_can_be_connected_to(_: AttachCase) -> TestOutcome {
    let [receiver, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let port = |listener: &TcpListener| listener.local_addr().expect("an address").port().to_string();
    let printed = run_inside(INSIDE, &[&port(&receiver), &port(&other)]);
    // Landlock restricts ports from its version 4 on (Linux 6.7).
    let refused = if wakelat_sandbox::landlock_abi() >= Some(4) { libc::EACCES } else { 0 };
    let expected = format!("receiver: 0\nother port: {refused}\nlisten: 1\nUDP: 1\nUnix socket: 1\n");
    assert_eq!(printed, expected);
    Ok(())
}
