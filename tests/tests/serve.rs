//! `serve`: the metrics have the waits of each cgroup, by the kernel's own account; clients of any kind cannot disturb
//! measuring or each other.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached_typed,
    cause_document::is_not_separated,
    cgroup::Hierarchy,
    http::{self, MetricSamples, get, send},
    machine,
    report::JsonSwitchIns,
    suite::{Case, TestOutcome, concurrent},
    task::Policy,
    timers::allow_descriptors,
    wakelat::{AttachCase, Wakelat, command},
    why::{list, number},
    workload::{BehindHog, PingPong, TimeBounds, WakeRace, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let measure = attached_typed![
        a_cgroup_has_the_waits_that_the_kernel_has_counted_for_its_tasks,
        a_neighbour_has_the_time_that_others_waited_for_it,
        each_preemption_is_counted_by_who_preempted,
    ];
    let wait = attached_typed![
        every_figure_is_the_same_in_both_formats_and_in_json,
        counters_never_decrease_whoever_scrapes,
        an_answer_has_totals_of_the_last_second,
        cgroups_beyond_the_limit_are_one_series,
        requests_that_are_wrong_or_too_long_get_an_error,
        clients_that_send_nothing_do_not_lock_out_a_scraper,
        a_signal_ends_the_service_and_leaves_nothing,
    ];
    measure.into_iter().chain(concurrent(wait)).collect()
}

/// A running service and its socket.
struct Service {
    wakelat: Wakelat,
    socket: PathBuf,
    directory: tempfile::TempDir,
}

impl Service {
    /// Starts the service without a limit of its overhead, so that it measures all the time. Returns once it has metrics.
    fn start(attach: AttachCase, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        let all = ["serve", "--listen", &listen, "--attach", attach.name(), "--max-overhead", "none"];
        let wakelat = Wakelat::measuring(command(&[&all[..], arguments].concat()));
        let service = Self { wakelat, socket, directory };
        // A request has the kernel's tables read at once; the first scheduled reading is made after a second.
        until("the service has metrics", || get(&service.socket, "/metrics", "").status == 200);
        assert_eq!(get(&service.socket, "/healthz", "").status, 200);
        service
    }

    /// Metrics of everything until now or later.
    fn scrape(&self) -> MetricSamples {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let mut metrics = MetricSamples::scrape(&self.socket);
        // Both clocks are exact to less than the margin, as long as no clock is set meanwhile.
        until("the kernel's tables have been read", || {
            metrics = MetricSamples::scrape(&self.socket);
            metrics.value("wakelat_last_read_time_seconds") > since_epoch.as_secs_f64() + 0.01
        });
        metrics
    }

    /// Ends the service with SIGTERM.
    fn end(self) {
        self.wakelat.signal(Signal::SIGTERM);
        let ended = self.wakelat.end();
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
        drop(self.directory);
    }
}

/// ns of a sample in seconds. A double has them exactly up to 104 days.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn a_cgroup_has_the_waits_that_the_kernel_has_counted_for_its_tasks(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("serve");
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 2_000)).stage();
    ["wl-ping", "wl-pong"].iter().for_each(|name| group.add_process(staged.tid(name)));
    let service = Service::start(attach, &[]);
    let performance = staged.perform();
    let metrics = service.scrape();
    let kernel_waits: u64 = performance.task_stats.values().map(|stats| stats.switches()).sum();
    let kernel_ns: u64 = performance.task_stats.values().map(|stats| stats.run_delay_ns).sum();
    let path = group.path().strip_prefix(hierarchy.root()).expect("below the root");
    let labels = format!("{{cgroup=\"/{}\"}}", path.display());
    let waits = metrics.value(&format!("wakelat_wait_seconds_count{labels}")) as u64;
    let waited_ns = ns(metrics.value(&format!("wakelat_wait_seconds_sum{labels}")));
    // The waits that are in no cgroup's series are counted for the whole machine.
    let result = |name: &str| metrics.value(&format!("wakelat_switch_ins_total{{result=\"{name}\"}}")) as u64;
    let elsewhere = ["unknown_start", "after_unseen", "not_timed", "invalid"].map(result).iter().sum::<u64>()
        + metrics.value("wakelat_unseen_waits_total") as u64;
    let elsewhere_ns = ns(metrics.value("wakelat_unknown_wait_seconds_total"))
        + ns(metrics.value("wakelat_unseen_wait_seconds_total"));
    println!(
        "\n  {waits} of {kernel_waits} waits, {waited_ns} of {kernel_ns} ns; elsewhere {elsewhere}, {elsewhere_ns} ns"
    );
    assert!(waits <= kernel_waits && kernel_waits <= waits + elsewhere, "{metrics:?}");
    assert!(waited_ns <= kernel_ns && kernel_ns <= waited_ns + elsewhere_ns, "{metrics:?}");
    // All but the first wait of each task, unless the machine hid some.
    assert!(waits + 2 + result("after_unseen") + metrics.value("wakelat_unseen_waits_total") as u64 >= kernel_waits);
    let causes = metrics.sum("wakelat_wait_cause_seconds_total", &labels[1..labels.len() - 1]);
    assert_eq!(ns(causes), waited_ns);
    service.end();
    Ok(())
}

fn every_figure_is_the_same_in_both_formats_and_in_json(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(attach, &["--collect", "irq"]);
    // The reading at the start may have no waits.
    service.scrape();
    let open = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    // All three have to be of the same second.
    let mut same = None;
    until("three requests are answered between two readings", || {
        let responses = [("/metrics", open), ("/metrics", "text/plain"), ("/report.json", "")];
        let [openmetrics, prometheus, json] = responses.map(|(path, accept)| get(&service.socket, path, accept));
        let samples = |text: &str| -> Vec<String> {
            let without_exemplar = |line: &str| line.split(" # ").next().unwrap_or(line).to_owned();
            text.lines().filter(|line| !line.starts_with('#')).map(without_exemplar).collect()
        };
        let is_same = samples(&openmetrics.body) == samples(&prometheus.body);
        let document: Value = serde_json::from_str(&json.body).expect("JSON");
        let end_ns = number(&document["start_unix_ns"]) + number(&document["duration_ns"]);
        let end = format!("wakelat_last_read_time_seconds {}.{:09}\n", end_ns / 1_000_000_000, end_ns % 1_000_000_000);
        if is_same && prometheus.body.contains(&end) {
            same = Some((openmetrics, prometheus, json));
        }
        same.is_some()
    });
    let (openmetrics, prometheus, json) = same.expect("found");
    assert!(openmetrics.head.contains("application/openmetrics-text; version=1.0.0"), "{}", openmetrics.head);
    assert!(openmetrics.body.ends_with("# EOF\n"));
    assert!(prometheus.head.contains("text/plain; version=0.0.4"), "{}", prometheus.head);
    json_schemas::assert_valid(&json.body);
    let document: Value = serde_json::from_str(&json.body).expect("JSON");
    let terms: JsonSwitchIns =
        serde_json::from_value(document["coverage"]["switch_ins"].clone()).expect("the terms of switch-ins");
    assert_eq!(number(&document["waits"]), terms.measured, "{document}");
    assert!(!is_not_separated(&document, "interrupts"), "they are traced: {document}");
    let has =
        |line: &str| assert!(prometheus.body.contains(&format!("{line}\n")), "no `{line}` in {}", prometheus.body);
    has(&format!("wakelat_switch_ins_seen_total {}", terms.seen));
    for group in list(&document["groups"]) {
        let cgroup = group["group"].as_str().unwrap_or("(other)");
        let rest = prometheus.body.lines().find(|line| {
            line.starts_with(&format!("wakelat_wait_seconds_count{{cgroup=\"{cgroup}\""))
                && line.ends_with(&format!(" {}", number(&group["waits"])))
        });
        assert!(rest.is_some(), "{group} is not in {}", prometheus.body);
    }
    let why = get(&service.socket, "/why?last=5s&format=json", "");
    json_schemas::assert_valid(&why.body);
    let text = get(&service.socket, "/why?last=5s", "");
    assert!(text.body.contains("switch-ins:"), "{text:?}");
    service.end();
    Ok(())
}

fn counters_never_decrease_whoever_scrapes(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(attach, &[]);
    let is_counter = |name: &str| {
        ["_total", "_count", "_sum", "_bucket"]
            .iter()
            .any(|end| name.split('{').next().is_some_and(|name| name.ends_with(end)))
    };
    let mut before = service.scrape();
    for _ in 0..3 {
        // Another scraper between the two.
        MetricSamples::scrape(&service.socket);
        let now = service.scrape();
        for (name, value) in before.0.iter().filter(|(name, _)| is_counter(name)) {
            assert!(now.value(name) >= *value, "{name} was {value} and is {}", now.value(name));
        }
        let all = now.sum("wakelat_switch_ins_total", "");
        assert_eq!(all, now.value("wakelat_switch_ins_seen_total"), "the identity does not hold: {now:?}");
        assert!(all > before.sum("wakelat_switch_ins_total", ""), "nothing was measured: {now:?}");
        before = now;
    }
    service.end();
    Ok(())
}

fn an_answer_has_totals_of_the_last_second(attach: AttachCase) -> TestOutcome {
    /// Longer than totals may be old, and shorter than the time between two scheduled readings.
    const BETWEEN_REQUESTS: Duration = Duration::from_millis(1_600);
    Hierarchy::find()?;
    let service = Service::start(attach, &[]);
    for _ in 0..3 {
        let previous = Instant::now();
        until("it is time for the next request", || previous.elapsed() >= BETWEEN_REQUESTS);
        let (asked, asked_at) = (Instant::now(), SystemTime::now());
        let metrics = MetricSamples::scrape(&service.socket);
        let read_at = UNIX_EPOCH + Duration::from_secs_f64(metrics.value("wakelat_last_read_time_seconds"));
        let age = asked_at.duration_since(read_at).unwrap_or_default();
        // An answer does not wait longer than a second for a reading, which takes as long on a machine that is too busy.
        assert!(age <= Duration::from_millis(1_010) || asked.elapsed() >= Duration::from_secs(1), "{age:?}");
    }
    service.end();
    Ok(())
}

fn cgroups_beyond_the_limit_are_one_series(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let groups = [hierarchy.group("one"), hierarchy.group("two"), hierarchy.group("three")];
    let mut staged: Vec<_> =
        groups.iter().map(|_| Workload::PingPong(PingPong::on_one(machine::one_cpu(), 100)).stage()).collect();
    for (staged, group) in staged.iter().zip(&groups) {
        ["wl-ping", "wl-pong"].iter().for_each(|name| group.add_process(staged.tid(name)));
    }
    let service = Service::start(attach, &["--max-series", "1"]);
    staged.iter_mut().for_each(|staged| _ = staged.perform());
    let metrics = service.scrape();
    let of = |labels: &str| metrics.sum("wakelat_wait_seconds_count", labels);
    assert_eq!((metrics.value("wakelat_series"), metrics.value("wakelat_series_limit")), (1.0, 1.0));
    // One of the three, or another cgroup of the machine, has the only series.
    assert!(metrics.value("wakelat_other_cgroups") >= 2.0, "{metrics:?}");
    assert!(of("cgroup=\"(other)\"") >= 2.0 * 100.0, "{metrics:?}");
    assert_eq!(of("cgroup="), metrics.value("wakelat_switch_ins_total{result=\"measured\"}"));
    service.end();
    Ok(())
}

fn a_neighbour_has_the_time_that_others_waited_for_it(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let (own, neighbour) = (hierarchy.group("waits"), hierarchy.group("runs"));
    let hog = BehindHog { rounds: 60, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Fifo(50) };
    let mut staged = Workload::BehindHog(hog).stage();
    own.add_process(staged.tid("wl-sleeper"));
    neighbour.add_process(staged.tid("wl-hog"));
    let service = Service::start(attach, &[]);
    let performance = staged.perform();
    let metrics = service.scrape();
    let [waiting, running] =
        [&own, &neighbour].map(|group| format!("/{}", group.path().file_name().expect("a name").display()));
    let behind = format!("wakelat_wait_behind_seconds_total{{cgroup=\"{waiting}\",running=\"{running}\"}}");
    let found_ns = ns(metrics.value(&behind));
    let of_cause = |cause: &str| {
        let cause = format!("wakelat_wait_cause_seconds_total{{cgroup=\"{waiting}\",cause=\"{cause}\"}}");
        ns(metrics.value(&cause))
    };
    let [others_ns, hidden_ns, stolen_ns] = ["other_groups", "unseen", "stolen"].map(of_cause);
    println!("\n  {found_ns} ns behind the neighbour, {others_ns} ns behind any");
    // Without the first wait of the task, whose start is not known.
    let least_ns = TimeBounds::any(59, &performance.reported.took["wl-hog"]).least_ns;
    assert!((found_ns + hidden_ns + stolen_ns) * 100 >= least_ns * 95, "{found_ns} of {least_ns} ns: {metrics:?}");
    assert!(found_ns <= others_ns, "{metrics:?}");
    service.end();
    Ok(())
}

fn each_preemption_is_counted_by_who_preempted(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("preempted");
    let cpus = [machine::cpus()[0], machine::one_cpu()];
    let race = WakeRace { rounds: 4_000, cpus, preemptor: true, sleep_after_ns: 1_000_000 };
    let mut staged = Workload::WakeRace(race).stage();
    let tid = staged.tid("wl-wakee");
    group.add_process(tid);
    let service = Service::start(attach, &[]);
    let performance = staged.perform();
    let metrics = service.scrape();
    let cgroup = format!("{{cgroup=\"/{}\"", group.path().file_name().expect("a name").display());
    let [by_higher, by_own] = ["higher", "own_group"]
        .map(|by| metrics.value(&format!("wakelat_preemptions_total{cgroup},by=\"{by}\"}}")) as u64);
    let counted = metrics.sum("wakelat_preemptions_total", &cgroup) as u64;
    let by_kernel = performance.task_stats[&tid].involuntary;
    // Waits that are not in the series of any cgroup.
    let result = |name: &str| metrics.value(&format!("wakelat_switch_ins_total{{result=\"{name}\"}}")) as u64;
    let elsewhere = ["unknown_start", "after_unseen", "not_timed", "invalid"].map(result).iter().sum::<u64>()
        + metrics.value("wakelat_unseen_waits_total") as u64;
    println!("\n  {by_higher} by a higher class, {counted} in all, {by_kernel} by the kernel; elsewhere {elsewhere}");
    assert!(counted <= by_kernel && by_kernel <= counted + elsewhere, "{metrics:?}");
    // The preemptor is a real-time task, and the group has no other task.
    assert!(by_higher > 0 && by_own == 0, "{metrics:?}");
    let of_class = metrics.value("wakelat_class_wait_seconds_count{class=\"preempted\"}");
    assert_eq!(metrics.sum("wakelat_preemptions_total", ""), of_class, "{metrics:?}");
    service.end();
    Ok(())
}

fn requests_that_are_wrong_or_too_long_get_an_error(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(attach, &[]);
    let status = |request: &str| send(&service.socket, request).status;
    let long = "x".repeat(64 * 1024);
    let many: String = (0..200).map(|at| format!("H{at}: x\r\n")).collect();
    for (request, expected) in [
        ("\0\0\0\0\r\n\r\n".to_owned(), [400, 400]),
        ("GET\r\n\r\n".to_owned(), [400, 400]),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), [414, 431]),
        (format!("GET /metrics HTTP/1.1\r\nHost: {long}\r\n\r\n"), [431, 431]),
        (format!("GET /metrics HTTP/1.1\r\n{many}\r\n"), [431, 431]),
        ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_owned(), [405, 405]),
        ("GET /why?last=2h HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), [400, 400]),
        ("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), [404, 404]),
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), [404, 404]),
    ] {
        let found = status(&request);
        assert!(expected.contains(&found), "{found} for {:.60?}", request);
    }
    service.scrape();
    service.end();
    Ok(())
}

/// Connections that stay open, each with the beginning of a request.
const IDLE_CONNECTIONS: usize = 1_000;

fn clients_that_send_nothing_do_not_lock_out_a_scraper(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(attach, &[]);
    // The tests beside this one open files, too.
    allow_descriptors(2 * IDLE_CONNECTIONS as u64);
    let idle: Vec<_> = (0..IDLE_CONNECTIONS)
        .map(|at| {
            let mut stream = http::connect(&service.socket);
            // One of two sends nothing at all. The service may have closed an old one already.
            if at % 2 == 0 {
                _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHo");
            }
            stream
        })
        .collect();
    let open = open_sockets(&service.wakelat);
    assert!(open <= 100, "{open} sockets are open");
    // The tables are read and scrapes are answered while all of them are open.
    service.scrape();
    // The service ends each of them by itself, without a response or with that of a request that took too long.
    for stream in idle {
        let response = http::response(stream);
        assert!(response.as_ref().is_none_or(|response| response.status == 408), "{response:?}");
    }
    service.end();
    Ok(())
}

/// The sockets that the process has open.
fn open_sockets(wakelat: &Wakelat) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", wakelat.pid())).expect("the service runs");
    let is_socket = |path: &Path| path.to_string_lossy().starts_with("socket:");
    descriptors.flatten().filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| is_socket(&path))).count()
}

fn a_signal_ends_the_service_and_leaves_nothing(attach: AttachCase) -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(attach, &[]);
    // An open connection does not delay the end.
    let idle = http::connect(&service.socket);
    service.end();
    assert!(http::response(idle).is_none());
    Ok(())
}
