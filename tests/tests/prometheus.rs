//! A real Prometheus scrapes `serve` with native histograms: its database has exactly what the service counted, and its
//! quantiles are within the documented bound.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    cgroup::Hierarchy,
    machine, once,
    suite::{self, Skip, TestOutcome},
    wakelat::{Wakelat, command},
    workload::{PingPong, Workload, until},
};

fn main() {
    suite::main(once![the_database_has_what_the_service_has_counted]);
}

/// Sends a request to a port of this machine. Returns the body of a successful answer.
fn get(port: u16, path: &str, accept: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    // With 1.0, no answer comes in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).is_some_and(|status| status == "200").then(|| body.to_owned())
}

/// A port that no process listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A Prometheus that scrapes a port each second, and is killed when dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    fn start(directory: &Path, target: u16) -> Result<Self, Skip> {
        let config = directory.join("prometheus.yml");
        let scrape = format!(
            "scrape_configs:\n- job_name: wakelat\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  static_configs:\n  - targets: ['127.0.0.1:{target}']\n"
        );
        fs::write(&config, scrape).expect("a file");
        let port = free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--enable-feature=native-histograms", "--log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|_| Skip::because("needs Prometheus (Debian package prometheus)"))?;
        let prometheus = Self { child, port };
        until("Prometheus is ready", || get(prometheus.port, "/-/ready", "*/*").is_some());
        Ok(prometheus)
    }

    /// The result of an instant query that selects one series; `None` if there is none.
    fn query(&self, expression: &str) -> Option<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = get(self.port, &format!("/api/v1/query?query={encoded}"), "*/*")?;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let mut results = answer["data"]["result"].as_array()?.iter();
        let first = results.next().cloned();
        assert!(results.next().is_none(), "{expression} selects several series: {answer}");
        first
    }

    /// The number that a query results in.
    fn number(&self, expression: &str) -> f64 {
        let value = self.query(expression);
        let number = value.as_ref().and_then(|value| value["value"][1].as_str()?.parse().ok());
        number.unwrap_or_else(|| panic!("{expression}: {value:?}"))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn the_database_has_what_the_service_has_counted() -> TestOutcome {
    /// A bucket of the kernel is at most a quarter of its values wide, and the bounds of the histogram double every eight
    /// buckets: an estimate is off by at most half of the first and one of the second (docs/serve.md).
    const LARGEST_FACTOR: f64 = 1.22;
    /// The upper bound of the kernel's bucket, which the service reports.
    const BUCKET: f64 = 1.25;
    let hierarchy = Hierarchy::find()?;
    if machine::is_emulated() {
        return Err(Skip::because("Prometheus has no time to scrape in an emulator"));
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let target = free_port();
    let listen = format!("127.0.0.1:{target}");
    let group = hierarchy.group("prometheus");
    let path = group.path().strip_prefix(hierarchy.root()).expect("below the root").display().to_string();
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 20_000)).stage();
    ["wl-ping", "wl-pong"].iter().for_each(|name| group.add_process(staged.tid(name)));
    let wakelat = Wakelat::measuring(command(&["serve", "--listen", &listen]));
    until("the service has metrics", || get(target, "/healthz", "*/*").is_some());
    let prometheus = Prometheus::start(directory.path(), target)?;
    staged.perform();
    let text = || get(target, "/metrics", "text/plain").expect("metrics");
    let value = |text: &str, name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    let labels = format!("{{cgroup=\"/{path}\"}}");
    // The group has no task any more that could wait.
    let before = value(&text(), "wakelat_last_read_time_seconds");
    until("the last waits have been counted", || value(&text(), "wakelat_last_read_time_seconds") > before + 1.0);
    let counted = text();
    let last_read = value(&counted, "wakelat_last_read_time_seconds");
    until("Prometheus has scraped them", || {
        let scraped = prometheus.query("wakelat_last_read_time_seconds");
        scraped.is_some_and(|scraped| {
            scraped["value"][1].as_str().and_then(|value| value.parse::<f64>().ok()).is_some_and(|at| at >= last_read)
        })
    });
    // Histograms are native there, with all buckets in one series.
    let count = prometheus.number(&format!("histogram_count(wakelat_wait_seconds{labels})"));
    let sum = prometheus.number(&format!("histogram_sum(wakelat_wait_seconds{labels})"));
    println!("\n  {count} waits, {sum} s");
    assert!(count >= 20_000.0, "{count}");
    assert_eq!(count, value(&counted, &format!("wakelat_wait_seconds_count{labels}")));
    assert_eq!(sum, value(&counted, &format!("wakelat_wait_seconds_sum{labels}")));
    let causes = prometheus.number(&format!("sum(wakelat_wait_cause_seconds_total{labels})"));
    assert!((causes - sum).abs() < 1e-9, "{causes} of {sum}");
    let report: Value = serde_json::from_str(&get(target, "/report.json", "*/*").expect("a report")).expect("JSON");
    let groups = report["groups"].as_array().expect("groups").iter();
    let mut own = groups.filter(|one| one["group"].as_str().is_some_and(|name| name.contains(&path)));
    let own = own.next().unwrap_or_else(|| panic!("no {path} in {report}"));
    for (quantile, name) in [(0.5, "p50_bound_ns"), (0.99, "p99_bound_ns")] {
        let estimate = prometheus.number(&format!("histogram_quantile({quantile}, wakelat_wait_seconds{labels})"));
        let bound = own[name].as_f64().unwrap_or_else(|| panic!("no {name}: {own}")) / 1e9;
        println!("  {quantile}: {estimate} s by Prometheus, at most {bound} s");
        assert!(
            estimate <= bound * LARGEST_FACTOR && estimate >= bound / BUCKET / LARGEST_FACTOR,
            "{estimate}, {bound}"
        );
    }
    // As many switches as the service has seen until then, as the sum of what became of them.
    let sum = prometheus.number("sum(wakelat_switch_ins_total)");
    assert_eq!(sum, prometheus.number("wakelat_switch_ins_seen_total"));
    drop(prometheus);
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
}
