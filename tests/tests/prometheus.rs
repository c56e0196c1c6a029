//! A real Prometheus scrapes `serve` with native histograms: its database has exactly what the service counted, and its
//! quantiles are within the documented bound. Alert rules and dashboard are valid, and use only metrics that exist.

use std::{
    collections::BTreeSet,
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
    kubelet::TestKubelet,
    machine, once,
    suite::{self, Skip, TestOutcome},
    wakelat::{Wakelat, command},
    workload::{PingPong, Workload, until},
};

fn main() {
    suite::main(once![
        the_database_has_what_the_service_has_counted,
        the_alert_rules_pass_their_tests,
        every_query_of_the_dashboard_is_valid,
        rules_dashboard_and_page_name_only_what_the_service_has,
    ]);
}

/// The alert rules.
const RULES: &str = include_str!("../../packaging/prometheus/wakelat.rules.yml");

/// Their unit tests.
const RULE_TESTS: &str = include_str!("../../packaging/prometheus/wakelat.rules.test.yml");

/// The dashboard.
const DASHBOARD: &str = include_str!("../../packaging/grafana/wakelat.json");

/// The page about the service.
const PAGE: &str = include_str!("../../docs/serve.md");

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
            .args(["--enable-feature=native-histograms,exemplar-storage", "--log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|_| Skip::because("needs Prometheus (Debian package prometheus)"))?;
        let prometheus = Self { child, port };
        until("Prometheus is ready", || get(prometheus.port, "/-/ready", "*/*").is_some());
        Ok(prometheus)
    }

    /// The data of the answer to a request of the API with this expression.
    fn request(&self, path: &str, expression: &str) -> Option<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = get(self.port, &format!("/api/v1/{path}?query={encoded}"), "*/*")?;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        Some(answer["data"].clone())
    }

    /// The result of an instant query that selects one series; `None` if there is none.
    fn query(&self, expression: &str) -> Option<Value> {
        let answer = self.request("query", expression)?;
        let mut results = answer["result"].as_array()?.iter();
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
    let wakelat = Wakelat::measuring(command(&["serve", "--listen", &listen, "--max-overhead", "none"]));
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
    // The exemplar is the longest wait, with its task.
    let exemplars = prometheus.request("query_exemplars", &format!("wakelat_wait_seconds{labels}"));
    let exemplars =
        exemplars.as_ref().and_then(|series| series[0]["exemplars"].as_array()).cloned().unwrap_or_default();
    let recent_max = value(&counted, &format!("wakelat_wait_recent_max_seconds{labels}"));
    let is_longest = |one: &&Value| one["value"].as_str().and_then(|text| text.parse().ok()) == Some(recent_max);
    let longest = exemplars.iter().find(is_longest).unwrap_or_else(|| panic!("no {recent_max} s in {exemplars:?}"));
    println!("  exemplar: {longest}");
    let tids = ["wl-ping", "wl-pong"].map(|name| (Value::from(name), Value::from(staged.tid(name).to_string())));
    let task = (longest["labels"]["comm"].clone(), longest["labels"]["tid"].clone());
    assert!(tids.contains(&task), "{longest}");
    let ended_at = longest["timestamp"].as_f64().expect("an instant");
    assert!(ended_at < last_read && ended_at > value(&counted, "wakelat_start_time_seconds"), "{longest}");
    // As many switches as the service has seen until then, as the sum of what became of them.
    let sum = prometheus.number("sum(wakelat_switch_ins_total)");
    assert_eq!(sum, prometheus.number("wakelat_switch_ins_seen_total"));
    drop(prometheus);
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
}

/// Runs promtool on a file in `directory`.
fn assert_promtool_accepts(command: &str, directory: &Path, file: &str) -> TestOutcome {
    let output = Command::new("promtool").args([command, "rules"]).arg(directory.join(file)).output();
    let output = output.map_err(|_| Skip::because("needs promtool (Debian package prometheus)"))?;
    assert!(output.status.success(), "{output:#?}");
    Ok(())
}

fn the_alert_rules_pass_their_tests() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("wakelat.rules.yml"), RULES).expect("a file");
    fs::write(directory.path().join("wakelat.rules.test.yml"), RULE_TESTS).expect("a file");
    assert_promtool_accepts("check", directory.path(), "wakelat.rules.yml")?;
    assert_promtool_accepts("test", directory.path(), "wakelat.rules.test.yml")
}

/// The queries of the dashboard, with a value for each variable of Grafana.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36), "that of Grafana 9 or later");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let of_panels = targets.map(|target| target["expr"].as_str().expect("an expression").to_owned());
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let of_variables = variables.iter().filter_map(|variable| variable["query"]["query"].as_str()).map(|query| {
        let values = query.strip_prefix("label_values(").and_then(|query| query.rsplit_once(", "));
        values.unwrap_or_else(|| panic!("{query} does not select values of a label")).0.to_owned()
    });
    let set = |query: String| {
        let query = query.replace("$__rate_interval", "5m").replace("$__range", "1h");
        let names = variables.iter().filter_map(|variable| variable["name"].as_str());
        names.fold(query, |query, name| query.replace(&format!("${name}"), ".*"))
    };
    let queries: Vec<String> = of_panels.chain(of_variables).map(set).collect();
    assert!(queries.len() > 20, "{queries:#?}");
    queries
}

fn every_query_of_the_dashboard_is_valid() -> TestOutcome {
    let queries = queries();
    assert!(queries.iter().all(|query| !query.contains('$')), "a variable that does not exist: {queries:#?}");
    let rule = |(number, query): (usize, &String)| serde_json::json!({ "record": format!("q{number}"), "expr": query });
    let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
    let file = serde_json::json!({ "groups": [{ "name": "queries", "rules": rules }] });
    let directory = tempfile::tempdir().expect("a temporary directory");
    // JSON is also YAML.
    fs::write(directory.path().join("queries.yml"), file.to_string()).expect("a file");
    assert_promtool_accepts("check", directory.path(), "queries.yml")
}

/// The names of metrics in a text, except for recorded ones, which contain colons, and placeholders in capitals.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
    words
        .filter(|word| word.starts_with("wakelat_") && word.chars().all(|c| c == '_' || c.is_ascii_lowercase()))
        .collect()
}

/// The names of labels that queries in a text select by.
fn selected_labels(text: &str) -> BTreeSet<&str> {
    let names = text.match_indices("=\"").chain(text.match_indices("=~\"")).map(|(at, _)| {
        let before = &text[..at];
        &before[before.rfind(|c: char| c != '_' && !c.is_ascii_alphanumeric()).map_or(0, |end| end + 1)..]
    });
    names.collect()
}

fn rules_dashboard_and_page_name_only_what_the_service_has() -> TestOutcome {
    /// Labels of the target, and that of a test of the rules.
    const OF_TARGET: [&str; 3] = ["job", "instance", "cluster"];
    /// Labels of a cgroup of a container: documented, and known from the kubelet.
    const OF_CONTAINER: [&str; 5] = ["container", "pod", "namespace", "pod_name", "container_name"];
    Hierarchy::find()?;
    let port = free_port();
    let (listen, receiver) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
    let kubelet = TestKubelet::start();
    let mut command = command(&["serve", "--listen", &listen, "--otlp", &receiver]);
    command.args(kubelet.arguments());
    let captures = tempfile::tempdir().expect("a directory");
    let directory = captures.path().to_str().expect("a path");
    // Every wait meets this condition.
    command.args(["--capture", "max>1ns", "--capture-dir", directory, "--capture-duration", "100ms"]);
    let wakelat = Wakelat::measuring(command);
    let mut metrics = String::new();
    until("the service has measured waits, has asked the kubelet and has made a capture", || {
        metrics = get(port, "/metrics", "text/plain").unwrap_or_default();
        ["wakelat_wait_cause_seconds_total{", "wakelat_kubelet_pods 0", "wakelat_last_capture_info{"]
            .iter()
            .all(|sample| metrics.contains(sample))
    });
    let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let samples = metrics.lines().filter_map(|line| line.split(['{', ' ']).next());
    let names: BTreeSet<&str> = families.chain(samples).collect();
    let labels: BTreeSet<&str> = selected_labels(&metrics).into_iter().chain(OF_TARGET).chain(OF_CONTAINER).collect();
    let queries: &str = &queries().join("\n");
    // Kernels before 5.12 do not count the programs that they skip.
    let absent = |name: &&str| *name == "wakelat_program_runs_missed_total";
    for (what, text) in [("rules", RULES), ("tests of the rules", RULE_TESTS), ("dashboard", queries), ("page", PAGE)] {
        let found = metric_names(text);
        assert!(found.len() > 5, "{what}: {found:?}");
        let unknown: Vec<&str> = found.difference(&names).copied().filter(|name| !absent(name)).collect();
        assert!(unknown.is_empty(), "{what}: {unknown:?} are not in {names:#?}");
    }
    for (what, text) in [("rules", RULES), ("tests of the rules", RULE_TESTS), ("dashboard", queries)] {
        let found = selected_labels(text);
        let unknown: Vec<&str> = found.difference(&labels).copied().collect();
        assert!(unknown.is_empty(), "{what}: {unknown:?} are not in {labels:?}");
    }
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
}
