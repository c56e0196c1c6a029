//! A real Prometheus scrapes `serve` with native histograms: its database has exactly what the service counted, and its
//! quantiles are within the documented bound. Alert rules and dashboard are valid, and use only metrics that exist.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    cgroup::Hierarchy,
    kubelet::TestKubelet,
    machine, once,
    prometheus::{Prometheus, PrometheusHistograms, free_port, get, number_of},
    quota::QuotaGroup,
    suite::{Case, Skip, TestOutcome, concurrent},
    wakelat::{Wakelat, command},
    workload::{Hogs, PingPong, Staged, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let measure = once![the_database_has_what_the_service_has_counted];
    let wait = once![
        the_alert_rules_pass_their_tests,
        every_query_of_the_dashboard_is_valid,
        every_query_of_dashboard_and_page_has_data,
        promtool_accepts_the_metrics,
        rules_dashboard_and_page_name_only_what_the_service_has,
    ];
    measure.into_iter().chain(concurrent(wait)).collect()
}

/// The alert rules.
const RULES: &str = include_str!("../../packaging/prometheus/wakelat.rules.yml");

/// Their unit tests.
const RULE_TESTS: &str = include_str!("../../packaging/prometheus/wakelat.rules.test.yml");

/// The dashboard.
const DASHBOARD: &str = include_str!("../../packaging/grafana/wakelat.json");

/// The page about the service.
const PAGE: &str = include_str!("../../docs/serve.md");

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
    until("the service has metrics", || get(target, "/metrics", "*/*").is_some());
    let prometheus = Prometheus::start(directory.path(), target, PrometheusHistograms::Native)?;
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
        scraped.as_ref().and_then(number_of).is_some_and(|at| at >= last_read)
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
    let exemplars = prometheus.request("query_exemplars", &[("query", &format!("wakelat_wait_seconds{labels}"))]);
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
    let missing = prometheus.number("sum(wakelat_switch_ins_total) - sum(wakelat_switch_ins_seen_total)");
    assert_eq!(missing, 0.0);
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

/// The queries of the page's section from symptom to cause.
fn recipes() -> Vec<String> {
    let section = PAGE.split_once("\n## From symptom to cause\n").expect("a section").1;
    let section = section.split_once("\n## ").expect("another section").0;
    section.split("```").skip(1).step_by(2).map(|query| query.trim().to_owned()).collect()
}

/// Load in two cgroups: the tasks of the first one, a container, have used up their quota or wait for the tasks of the other.
fn every_query_of_dashboard_and_page_has_data() -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    if machine::is_emulated() {
        return Err(Skip::because("Prometheus has no time to scrape in an emulator"));
    }
    let quota = QuotaGroup::to_percent(50)?;
    quota.raise_weight();
    let top = hierarchy.group("pods");
    let container =
        quota.unified().unwrap_or(&top).child(&format!("cri-containerd-{}.scope", "3f4e5d6c7b8a9012".repeat(4)));
    let neighbour = hierarchy.group("neighbour");
    let mut loads = [&container, &neighbour].map(|group| {
        let load = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
        group.add_process(load.pid());
        load
    });
    if quota.unified().is_none() {
        quota.add_process(loads[0].pid());
    }
    loads.iter_mut().for_each(Staged::begin);
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let wakelat = Wakelat::measuring(command(&["serve", "--listen", &listen, "--max-overhead", "none"]));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = container.path().strip_prefix(hierarchy.root()).expect("below the root").display().to_string();
    let recipes = recipes().into_iter().map(|query| query.replace("/system.slice/nginx.service", &format!("/{path}")));
    // Whether a value is above zero depends on the machine.
    let all: Vec<String> = queries().into_iter().chain(recipes).map(|query| query.replace(" > 0)", ")")).collect();
    let all: Vec<&str> = all.iter().map(|query| query.trim_end_matches(" > 0")).collect();
    assert!(all.len() > 25, "{all:#?}");
    let databases = [PrometheusHistograms::Classic, PrometheusHistograms::Native].map(|histograms| {
        let own = directory.path().join(format!("{histograms:?}"));
        Prometheus::start(&own, port, histograms).map(|prometheus| (histograms, prometheus))
    });
    for (histograms, prometheus) in databases.into_iter().collect::<Result<Vec<_>, Skip>>()? {
        let mut left: Vec<&str> = all.clone();
        if histograms == PrometheusHistograms::Native {
            // The page has what replaces the series of classic histograms; the heatmap needs them.
            left.retain(|query| !query.contains("wakelat_wait_seconds_") || query.contains(" or "));
        }
        assert!(left.len() > 20, "{left:#?}");
        let count = left.len();
        until("each query has data", || {
            const FEW: usize = 5;
            let before = left.len();
            left.retain(|query| prometheus.series(query).is_none_or(|series| series.is_empty()));
            if left.len() < before.min(FEW) {
                println!("  {histograms:?}: no data yet for {left:#?}");
            }
            left.is_empty()
        });
        println!("\n  {histograms:?}: {count} queries have data");
    }
    drop(loads);
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
}

fn promtool_accepts_the_metrics() -> TestOutcome {
    Hierarchy::find()?;
    let port = free_port();
    let wakelat = Wakelat::measuring(command(&["serve", "--listen", &format!("127.0.0.1:{port}")]));
    let mut metrics = String::new();
    until("the service has measured waits", || {
        metrics = get(port, "/metrics", "text/plain").unwrap_or_default();
        metrics.contains("wakelat_wait_seconds_bucket{") && metrics.contains("wakelat_wait_cause_seconds_total{")
    });
    let promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut promtool = promtool.map_err(|_| Skip::because("needs promtool (Debian package prometheus)"))?;
    promtool.stdin.take().expect("piped").write_all(metrics.as_bytes()).expect("promtool reads");
    let output = promtool.wait_with_output().expect("promtool ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
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
    let operators = ["=\"", "=~\"", "!~\""].into_iter().flat_map(|operator| text.match_indices(operator));
    let names = operators.map(|(at, _)| {
        let before = text[..at].trim_end_matches('!');
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
