//! Two Prometheus, one for each kind of histogram, scrape a service that is under load, is reloaded and restarted, and
//! has other clients meanwhile. Both databases have exactly what the service reports, and estimate quantiles within
//! the documented bounds.
//!
//! The load takes 6 s, and two minutes if `$WAKELAT_SOAK` is set. `cargo xtask test --full` sets it.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    panic::resume_unwind,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    cgroup::Hierarchy,
    clock::{block_until, now_ns},
    http::MetricSamples,
    machine, once,
    prometheus::{Prometheus, PrometheusHistograms, free_port, get, number_of},
    suite::{Case, Skip, TestOutcome},
    task::TaskPlacement,
    wakelat::{Wakelat, command},
    why::{list, number},
    workload::{Hogs, Pipe, Workload, until},
};

pub fn cases() -> Vec<Case> {
    once![databases_have_what_a_service_reports_that_is_disturbed_under_load]
}

/// How long the load takes.
fn duration() -> Duration {
    Duration::from_secs(if std::env::var_os("WAKELAT_SOAK").is_some() { 120 } else { 6 })
}

/// The time of a client between two requests.
const EACH_NS: u64 = 100_000_000;

/// Between two reloads.
const RELOAD_NS: u64 = 2_000_000_000;

/// Calls `act` after each `interval_ns` until it is `over`. Returns how often.
fn repeat(interval_ns: u64, over: &AtomicBool, mut act: impl FnMut()) -> u64 {
    let (mut due_ns, mut count) = (now_ns(), 0);
    while !over.load(Relaxed) {
        act();
        count += 1;
        due_ns = now_ns().max(due_ns + interval_ns);
        block_until(due_ns);
    }
    count
}

/// Scrapes all the time. No counter may decrease, and the identity of switch-ins holds each time. Returns how often.
fn scrape(port: u16, over: &AtomicBool) -> u64 {
    let mut before = MetricSamples(BTreeMap::new());
    repeat(EACH_NS, over, || {
        let now = MetricSamples::parse(&get(port, "/metrics", "application/openmetrics-text").expect("metrics"));
        let is_counter = |name: &str| {
            let name = name.split('{').next().unwrap_or(name);
            ["_total", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end))
        };
        for (name, value) in before.0.iter().filter(|(name, _)| is_counter(name)) {
            assert!(now.value(name) >= *value, "{name} was {value} and is {}", now.value(name));
        }
        let all = now.sum("wakelat_switch_ins_total", "");
        assert_eq!(all, now.value("wakelat_switch_ins_seen_total"), "the identity does not hold: {now:?}");
        // No series ends in this time.
        let of_cgroups = now.sum("wakelat_wait_seconds_count", "");
        let measured = now.value("wakelat_switch_ins_total{result=\"measured\"}");
        assert_eq!(of_cgroups, measured, "waits without coverage: {now:?}");
        before = now;
    })
}

/// Requests metrics and reads them byte by byte, until the service closes the connection; then again. Returns how many
/// bytes it has read.
fn read_slowly(port: u16, over: &AtomicBool) -> u64 {
    let connect = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the service listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request");
        stream
    };
    let mut stream = connect();
    repeat(EACH_NS, over, || {
        if !stream.read(&mut [0]).is_ok_and(|read| read == 1) {
            stream = connect();
        }
    })
}

/// The end of a report in Unix time: s.
fn end_of(report: &Value) -> f64 {
    (number(&report["start_unix_ns"]) + number(&report["duration_ns"])) as f64 / 1e9
}

/// What a database has, with the report of the same reading of the kernel's tables.
struct SameReading {
    report: Value,
    /// When the database has that reading, in Unix time.
    at: String,
}

/// Waits until the database has a reading of the kernel's tables that the service has reported, too, and that has
/// everything until now.
fn same_reading(database: &Prometheus, port: u16) -> SameReading {
    /// Longer than a scrape takes: no other one can enter the database at a time before that.
    const AGO: Duration = Duration::from_secs(2);
    let unix = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    let since = unix().as_secs_f64() + 0.01;
    let mut reports: Vec<Value> = Vec::new();
    let mut found = None;
    until("the database has a reading that was reported, too", || {
        let report = get(port, "/report.json", "*/*").expect("a report");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        if reports.last() != Some(&report) {
            reports.push(report);
        }
        let at = format!("{:.3}", (unix() - AGO).as_secs_f64());
        let read = database.series_at("wakelat_last_read_time_seconds", &at);
        let Some(read_at) = read.first().and_then(number_of).filter(|read_at| *read_at > since) else { return false };
        // A double has the time to a quarter of a microsecond.
        let report = reports.iter().find(|report| (end_of(report) - read_at).abs() < 1e-6);
        found = report.map(|report| SameReading { report: report.clone(), at });
        found.is_some()
    });
    found.expect("found")
}

/// The numbers of a query by the label `cgroup`.
fn by_cgroup(database: &Prometheus, query: &str, at: &str) -> BTreeMap<String, f64> {
    let series = database.series_at(query, at);
    let entries = series.iter().map(|series| {
        let cgroup = series["metric"]["cgroup"].as_str().unwrap_or_else(|| panic!("no cgroup: {series}"));
        (cgroup.to_owned(), number_of(series).unwrap_or_else(|| panic!("no number: {series}")))
    });
    entries.collect()
}

/// Asserts that an estimate of a quantile is as exact as documented, given the upper bound of the kernel's bucket: s.
fn assert_estimates(histograms: PrometheusHistograms, estimate: f64, bound: f64, what: &str) {
    /// The exponents of the histogram's bounds, which are 1 ns below powers of two (docs/serve.md).
    const EXPONENTS: [i32; 13] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34];
    match histograms {
        PrometheusHistograms::Native => {
            /// The widest bucket of the kernel, and the documented error of an estimate beyond it.
            const BUCKET: f64 = 1.25;
            const LARGEST_FACTOR: f64 = 1.22;
            assert!(
                bound < 32e-9 || (estimate <= bound * LARGEST_FACTOR && estimate >= bound / BUCKET / LARGEST_FACTOR),
                "{what}: {estimate}, {bound}"
            );
        }
        PrometheusHistograms::Classic => {
            let bucket = |seconds: f64| {
                let below = EXPONENTS.iter().filter(|exponent| seconds * 1e9 > 2f64.powi(**exponent) - 0.5);
                // Prometheus reports the last bound in place of a longer wait.
                below.count().min(EXPONENTS.len() - 1)
            };
            assert_eq!(bucket(estimate), bucket(bound), "{what}: {estimate}, {bound}");
        }
    }
}

/// Asserts that the database has the counts, sums, causes and quantiles of a report. Returns the number of its waits.
fn assert_has_report(database: &Prometheus, histograms: PrometheusHistograms, port: u16) -> u64 {
    let SameReading { report, at } = same_reading(database, port);
    let [count, sum, buckets] = match histograms {
        PrometheusHistograms::Native => {
            ["histogram_count(wakelat_wait_seconds)", "histogram_sum(wakelat_wait_seconds)", ""]
        }
        PrometheusHistograms::Classic => ["wakelat_wait_seconds_count", "wakelat_wait_seconds_sum", "_bucket"],
    };
    let [counts, sums] = [count, sum].map(|query| by_cgroup(database, query, &at));
    let causes = by_cgroup(database, "sum by (cgroup) (wakelat_wait_cause_seconds_total)", &at);
    let quantiles = [(0.5, "p50_bound_ns"), (0.99, "p99_bound_ns")].map(|(quantile, name)| {
        let query = format!("histogram_quantile({quantile}, wakelat_wait_seconds{buckets})");
        (name, by_cgroup(database, &query, &at))
    });
    let groups = list(&report["groups"]);
    assert_eq!((groups.len(), groups.len()), (counts.len(), sums.len()), "{report}, {counts:?}, {sums:?}");
    for group in groups {
        let cgroup = group["group"].as_str().unwrap_or("(other)");
        let of = |all: &BTreeMap<String, f64>| {
            *all.get(cgroup).unwrap_or_else(|| panic!("{histograms:?}: no {cgroup} in {all:?}"))
        };
        // Waits of 0 ns have no cause.
        let by_cause = causes.get(cgroup).copied().unwrap_or(0.0);
        // A double has a sum to the ns up to 104 days.
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        assert_eq!(
            (of(&counts) as u64, ns(of(&sums)), ns(by_cause)),
            (number(&group["waits"]), number(&group["sum_ns"]), number(&group["sum_ns"])),
            "{histograms:?}: {cgroup}"
        );
        for (name, estimates) in &quantiles {
            let bound = number(&group[*name]) as f64 / 1e9;
            assert_estimates(histograms, of(estimates), bound, &format!("{name} of {cgroup}: {group}"));
        }
    }
    let measured = database.series_at("wakelat_switch_ins_total{result=\"measured\"}", &at);
    let waits = number(&report["waits"]);
    assert_eq!(measured.first().and_then(number_of), Some(waits as f64), "{measured:?}");
    waits
}

/// Starts the service with a configuration file, so that SIGHUP reloads it.
fn start(directory: &Path, port: u16) -> Wakelat {
    let file = directory.join("serve.toml");
    fs::write(&file, format!("listen = \"127.0.0.1:{port}\"\nmax-overhead = \"none\"\n")).expect("a file");
    let wakelat = Wakelat::measuring(command(&["serve", "--config", &file.display().to_string()]));
    until("the service has metrics", || get(port, "/metrics", "*/*").is_some());
    wakelat
}

fn databases_have_what_a_service_reports_that_is_disturbed_under_load() -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    if machine::is_emulated() {
        return Err(Skip::because("Prometheus has no time to scrape in an emulator"));
    }
    if Command::new("prometheus").arg("--version").output().is_err() {
        return Err(Skip::because("needs Prometheus (Debian package prometheus)"));
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let mut wakelat = start(directory.path(), port);
    let databases = [PrometheusHistograms::Native, PrometheusHistograms::Classic];
    let databases = databases.map(|histograms| {
        let own = directory.path().join(format!("{histograms:?}"));
        Prometheus::start(&own, port, histograms).map(|database| (histograms, database))
    });
    let databases = databases.into_iter().collect::<Result<Vec<_>, Skip>>()?;
    for (life, duration) in [("first", duration()), ("restarted", Duration::from_secs(3))] {
        // Declared before the loads that run in them.
        let groups = [hierarchy.group("pipe"), hierarchy.group("hogs")];
        let mut loads = [
            Workload::Pipe(Pipe { place: TaskPlacement::other(machine::one_cpu()) }).stage(),
            Workload::Hogs(Hogs { per_cpu: 1 }).stage(),
        ];
        ["wl-ping", "wl-pong"].iter().for_each(|name| groups[0].add_process(loads[0].tid(name)));
        groups[1].add_process(loads[1].pid());
        let over = &AtomicBool::new(false);
        let [scrapes, bytes, reloads] = thread::scope(|scope| {
            let scraper = scope.spawn(|| scrape(port, over));
            let reader = scope.spawn(|| read_slowly(port, over));
            loads.iter_mut().for_each(|load| load.begin());
            let begin = Instant::now();
            let reloads = repeat(RELOAD_NS, over, || {
                wakelat.signal(Signal::SIGHUP);
                over.store(begin.elapsed() >= duration || scraper.is_finished() || reader.is_finished(), Relaxed);
            });
            [scraper.join().expect("each scrape is right"), reader.join().expect("slow, not refused"), reloads]
        });
        drop(loads);
        // Each database has a reading that was reported only after some seconds.
        let waits: Vec<u64> = thread::scope(|scope| {
            let checks: Vec<_> = databases
                .iter()
                .map(|(histograms, database)| scope.spawn(move || assert_has_report(database, *histograms, port)))
                .collect();
            let waits = checks.into_iter().map(|check| check.join().unwrap_or_else(|panic| resume_unwind(panic)));
            waits.collect()
        });
        println!("\n  {life}: {waits:?} waits, {scrapes} other scrapes, {bytes} bytes read slowly, {reloads} reloads");
        wakelat.signal(Signal::SIGTERM);
        let ended = wakelat.end();
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
        assert!(!ended.stderr.contains("error"), "{ended:#?}");
        wakelat = start(directory.path(), port);
    }
    for (histograms, database) in &databases {
        until("the database has the last start of the service", || {
            database.number("resets(wakelat_switch_ins_seen_total[10m])") == 2.0
        });
        println!("  {histograms:?}: {} scrapes", database.number("count_over_time(up[10m])"));
    }
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
}
