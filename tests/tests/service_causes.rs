//! `serve` names the cause for which each of three cgroups waits at the same time: its quota, a neighbour, and its own
//! threads.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use nix::sys::signal::Signal;
use wakelat_tests::{
    attached_typed,
    cgroup::{Hierarchy, TestCgroup},
    clock::now_ns,
    http::{MetricSamples, get},
    machine, procfs,
    quota::QuotaGroup,
    suite::{Case, Skip, TestOutcome},
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, Hogs, TimeBounds, Workload, until},
};

pub fn cases() -> Vec<Case> {
    attached_typed![quota_neighbour_and_own_threads_are_named_with_their_time]
}

/// The causes of the waits of a cgroup in the metrics.
struct CgroupCauses<'a> {
    metrics: &'a MetricSamples,
    /// The beginning of the labels.
    labels: String,
}

impl<'a> CgroupCauses<'a> {
    fn of(metrics: &'a MetricSamples, group: &TestCgroup) -> Self {
        let name = group.path().file_name().expect("a group has a name");
        Self { metrics, labels: format!("cgroup=\"/{}\"", name.display()) }
    }

    /// The time of a cause: ns.
    fn ns(&self, cause: &str) -> u64 {
        let seconds =
            self.metrics.value(&format!("wakelat_wait_cause_seconds_total{{{},cause=\"{cause}\"}}", self.labels));
        (seconds * 1e9).round() as u64
    }

    /// Asserts that `cause` has at least `least_ns` and at most `most_ns`, to 5 %. The time that the machine hides may be
    /// missing: stolen time passed on the load's clock as well.
    fn assert_time(&self, cause: &str, least_ns: u64, most_ns: u64) {
        let found_ns = self.ns(cause);
        // Waits that are in no cgroup's series are counted for the whole machine.
        let elsewhere = ["wakelat_unknown_wait_seconds_total", "wakelat_unseen_wait_seconds_total"];
        let elsewhere = elsewhere.iter().map(|name| self.metrics.value(name)).sum::<f64>();
        let of_causes: u64 = ["stolen", "unseen", "before_history"].iter().map(|cause| self.ns(cause)).sum();
        let hidden_ns = of_causes + (elsewhere * 1e9) as u64;
        println!(
            "\n  {}: {cause} {found_ns} ns, {hidden_ns} ns hidden; {least_ns} to {most_ns} ns by the load and the kernel",
            self.labels
        );
        assert!(
            (found_ns + hidden_ns) * 100 >= least_ns * 95,
            "{cause}: {found_ns} of {least_ns} ns: {:?}",
            self.metrics
        );
        assert!(found_ns * 100 <= most_ns * 105, "{cause}: {found_ns} of {most_ns} ns: {:?}", self.metrics);
    }

    /// Asserts that `cause` has the most time of all causes.
    fn assert_first(&self, cause: &str) {
        let of_group = self.metrics.0.iter().filter(|(name, _)| {
            name.starts_with("wakelat_wait_cause_seconds_total{") && name.contains(&format!("{{{},", self.labels))
        });
        let first = of_group.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(name, _)| name.as_str()).unwrap_or("");
        assert!(first.contains(&format!("cause=\"{cause}\"")), "{first} is first, not {cause}: {:?}", self.metrics);
    }
}

/// The CPU time of a group: ns.
fn usage_ns(group: &TestCgroup) -> u64 {
    let stat = fs::read_to_string(group.path().join("cpu.stat")).expect("every group has this");
    let us = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<u64>().ok());
    us.unwrap_or_else(|| panic!("no `usage_usec` in {stat}")) * 1_000
}

/// Metrics of everything until now.
fn scrape(socket: &Path) -> MetricSamples {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs_f64();
    let mut metrics = None;
    until("the kernel's tables have been read", || {
        metrics = (get(socket, "/healthz", "").status == 200).then(|| MetricSamples::scrape(socket));
        // Both clocks are exact to less than the margin.
        metrics.as_ref().is_some_and(|metrics| metrics.value("wakelat_last_read_time_seconds") > now + 0.01)
    });
    metrics.expect("found")
}

fn quota_neighbour_and_own_threads_are_named_with_their_time(attach: AttachCase) -> TestOutcome {
    /// Threads of the third group on each CPU: while one runs, the others wait for it.
    const THREADS: u64 = 4;
    const SPIN_NS: u64 = 3_000_000;
    if machine::is_emulated() {
        return Err(Skip::because("the loads take minutes in an emulator"));
    }
    let hierarchy = Hierarchy::find()?;
    let quota = QuotaGroup::to_percent(10)?;
    quota.raise_weight();
    let own_group = hierarchy.group("limited");
    let limited = quota.unified().unwrap_or(&own_group);
    let [waiting, neighbour, crowded] = ["waits", "runs", "crowded"].map(|name| hierarchy.group(name));
    let mut hogs = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
    quota.add_process(hogs.pid());
    limited.add_process(hogs.pid());
    let mut threads = Workload::Hogs(Hogs { per_cpu: THREADS }).stage();
    crowded.add_process(threads.pid());
    let hog = BehindHog { rounds: 60, spin_ns: SPIN_NS, cpu: machine::one_cpu(), sleeper: Policy::Fifo(50) };
    let mut behind = Workload::BehindHog(hog).stage();
    waiting.add_process(behind.tid("wl-sleeper"));
    neighbour.add_process(behind.tid("wl-hog"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let arguments = ["serve", "--listen", &listen, "--attach", attach.name(), "--max-overhead", "none"];
    let wakelat = Wakelat::measuring(command(&arguments));
    hogs.begin();
    threads.begin();
    let began_ns = now_ns();
    let performance = behind.perform();
    until("the group has been out of quota often enough", || quota.throttled().0 >= 30);
    quota.remove_quota();
    let (_, throttled_ns) = quota.throttled();
    // Now each of its waits ends, once its task runs again; the waits of the third group end when its tasks are killed.
    let all = procfs::pids_named("wl-hog").into_iter();
    let limited_procs = fs::read_to_string(limited.path().join("cgroup.procs")).expect("a group");
    let limited_hogs = all.filter(|pid| limited_procs.lines().any(|line| line == pid.to_string()));
    for (hog, ran_ns) in limited_hogs.map(|hog| (hog, procfs::ran_ns(hog))) {
        until("a task of the group runs again", || procfs::ran_ns(hog) > ran_ns);
    }
    drop(threads);
    let crowded_for_ns = now_ns() - began_ns;
    until("the third group has no task", || {
        fs::read_to_string(crowded.path().join("cgroup.procs")).expect("a group").is_empty()
    });
    let metrics = scrape(&socket);
    let causes = |group: &TestCgroup| CgroupCauses::of(&metrics, group);
    // On a busy machine, tasks outside of the test have the CPUs for so long that they are rightly the first cause.
    let is_quiet = usage_ns(&crowded) * 10 > crowded_for_ns * machine::cpus().len() as u64 * 6;
    causes(limited).assert_time("throttled", throttled_ns, throttled_ns);
    if is_quiet {
        causes(limited).assert_first("throttled");
    }
    // Without the first wait of the task, whose start may not be known.
    let took = &performance.reported.took["wl-hog"];
    let (least, most) = (TimeBounds::any(59, took), TimeBounds::any(60, took));
    causes(&waiting).assert_time("other_groups", least.least_ns, most.most_ns);
    causes(&waiting).assert_first("other_groups");
    let own_ns = (THREADS - 1) * usage_ns(&crowded);
    // On a busy machine, waits have more than eight slices, and of the groups that ran in such a wait, one is drawn. If the
    // group ran half of the time, four standard deviations of 250 waits are a quarter of its time.
    if is_quiet {
        causes(&crowded).assert_time("own_group", own_ns, own_ns);
        causes(&crowded).assert_first("own_group");
    } else {
        causes(&crowded).assert_time("own_group", own_ns / 4 * 3, own_ns / 4 * 5);
    }
    drop((hogs, behind));
    wakelat.signal(Signal::SIGTERM);
    assert!(wakelat.end().status.success());
    Ok(())
}
