//! The totals as families of metrics, whatever the format.
//!
//! Times are whole ns. A classic bucket of a histogram ends 1 ns below a power of two of ns, where the kernel's buckets also
//! end, so that no wait is counted in a wrong bucket.

use std::{borrow::Cow, rc::Rc};

use super::{
    capture_counts::{self, CaptureCounts},
    cgroup_labels::{Labels, labels},
    constant_labels::ConstantLabels,
    exemplar::WaitExemplar,
    export_counts::ExportCounts,
    metric_family::{FamilyKind, FamilyMetric, MetricFamily, MetricNumber, MetricUnit, MetricValue},
    neighbours::NeighbourTable,
    pod_labels::PodLabelTable,
    series::{SeriesTable, WaitSeries},
};
use crate::{report::Report, why::counted::GroupTotal};

/// What the metrics show.
pub struct MetricsSnapshot<'a> {
    /// The series of each cgroup since the start.
    pub series: &'a SeriesTable,
    /// For which cgroups those of `series` have waited.
    pub neighbours: &'a NeighbourTable,
    /// Coverage and overhead since the start; the same waits as in `series`.
    pub report: &'a Report,
    /// How far the wall clock was set, and the machine suspended, between the start and the last reading: ns.
    pub clock_step_ns: i64,
    /// The clock of the series: seconds.
    pub now_s: u64,
    /// The version of wakelat.
    pub version: &'a str,
    /// Labels that all series have.
    pub labels: &'a ConstantLabels,
    /// What became of the exports to an OTLP receiver, if there is one.
    pub exports: Option<ExportCounts>,
    /// The names of pods and containers, if the kubelet is asked for them.
    pub pods: Option<&'a PodLabelTable>,
    /// The captures, if there are conditions.
    pub captures: Option<&'a CaptureCounts>,
}

impl MetricsSnapshot<'_> {
    /// Until when everything is counted: ns since 1970-01-01 UTC.
    pub(super) fn end_unix_ns(&self) -> u64 {
        self.unix_ns_after(self.report.duration_ns)
    }

    /// The time this many ns after the start, by the wall clock at the last reading: ns since 1970-01-01 UTC.
    fn unix_ns_after(&self, ns: u64) -> u64 {
        self.report.start_unix_ns.saturating_add(ns).saturating_add_signed(self.clock_step_ns)
    }

    /// Offset from CLOCK_MONOTONIC to the Unix epoch at the last reading: ns.
    fn unix_offset_ns(&self) -> i64 {
        self.report.unix_offset_ns.saturating_add(self.clock_step_ns)
    }
}

/// The classic buckets of a histogram: the largest value of each (ns), and the number of waits up to it. The powers of
/// two below which they count are from 1 µs to 17 s, in steps of four.
pub fn classic_buckets(total: &GroupTotal) -> impl Iterator<Item = (u64, u64)> {
    const POWERS: std::ops::RangeInclusive<u32> = 10..=34;
    POWERS.step_by(2).map(|power| (1u64 << power) - 1).map(|last_ns| (last_ns, total.waits_below(last_ns + 1)))
}

/// The name of the series of all groups without one of their own.
const OTHER: &str = "(other)";

/// The names of the instants that all other metrics cover. Points of OTLP have them themselves.
pub(super) const START_TIME: &str = "wakelat_start_time_seconds";
pub(super) const LAST_READ_TIME: &str = "wakelat_last_read_time_seconds";

/// Passes all metrics to `take`, one family after the other: together, the metrics of 1,000 cgroups would take some MiB.
pub fn each_family<'a>(snapshot: &MetricsSnapshot<'a>, mut take: impl FnMut(MetricFamily<'a>)) {
    let mut families = Families(&mut take);
    waits(snapshot, &mut families);
    coverage(snapshot, &mut families);
    cost(snapshot, &mut families);
}

/// Takes families as they are built.
struct Families<'a, 't>(&'t mut dyn FnMut(MetricFamily<'a>));

impl<'a> Families<'a, '_> {
    fn add(
        &mut self,
        name: &'static str,
        kind: FamilyKind,
        unit: MetricUnit,
        help: &'static str,
        metrics: Vec<FamilyMetric<'a>>,
    ) {
        (self.0)(MetricFamily { name, kind, unit, help, metrics });
    }

    /// Adds a family of one metric without labels.
    fn single(
        &mut self,
        name: &'static str,
        kind: FamilyKind,
        unit: MetricUnit,
        help: &'static str,
        number: MetricNumber,
    ) {
        self.add(name, kind, unit, help, vec![FamilyMetric::number(&Rc::default(), None, number)]);
    }

    /// Adds a counter of what `one` names.
    fn counter(&mut self, name: &'static str, one: &'static str, help: &'static str, count: u64) {
        self.single(name, FamilyKind::Counter, MetricUnit::Number(one), help, MetricNumber::Count(count));
    }

    /// Adds a family of one counter for each result.
    fn results(
        &mut self,
        name: &'static str,
        one: &'static str,
        help: &'static str,
        counts: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        let none = Rc::default();
        let metric =
            |(result, count)| FamilyMetric::number(&none, Some(("result", result)), MetricNumber::Count(count));
        let metrics = counts.into_iter().map(metric).collect();
        self.add(name, FamilyKind::Counter, MetricUnit::Number(one), help, metrics);
    }

    /// Adds a counter of time.
    fn time(&mut self, name: &'static str, help: &'static str, ns: impl Into<u128>) {
        self.single(name, FamilyKind::Counter, MetricUnit::Seconds, help, MetricNumber::Ns(ns.into()));
    }

    /// Adds a gauge: how many there are of what `one` names.
    fn number(&mut self, name: &'static str, one: &'static str, help: &'static str, count: u64) {
        self.single(name, FamilyKind::Gauge, MetricUnit::Number(one), help, MetricNumber::Count(count));
    }

    /// Adds a gauge: a part of a whole.
    fn ratio(&mut self, name: &'static str, help: &'static str, ratio: f64) {
        self.single(name, FamilyKind::Gauge, MetricUnit::Ratio, help, MetricNumber::Ratio(ratio));
    }
}

fn waits<'a>(snapshot: &MetricsSnapshot<'a>, families: &mut Families<'a, '_>) {
    let labels = |cgroup: &str| labels(cgroup, snapshot.pods);
    let named = snapshot.series.series().map(|(name, series)| (Rc::new(labels(name)), series));
    let other = snapshot.series.other().map(|series| (Rc::new(labels(OTHER)), series));
    let all: Vec<(Rc<Labels>, &WaitSeries)> = named.chain(other).collect();
    let metrics = all.iter().map(|(labels, series)| FamilyMetric {
        labels: Rc::clone(labels),
        label: None,
        series: series.number(),
        since_unix_ns: None,
        value: MetricValue::Histogram(
            series.total(),
            WaitExemplar::of(series, snapshot.unix_offset_ns(), snapshot.now_s),
        ),
    });
    families.add(
        "wakelat_wait_seconds",
        FamilyKind::Histogram,
        MetricUnit::Seconds,
        "Waits on a run queue, by the cgroup of the waiting task.",
        metrics.collect(),
    );
    let causes = all.iter().flat_map(|(labels, series)| {
        series.causes().map(move |(cause, time)| FamilyMetric {
            series: series.number(),
            ..FamilyMetric::number(labels, Some(("cause", cause.name())), MetricNumber::Ns(time.ns))
        })
    });
    families.add(
        "wakelat_wait_cause_seconds",
        FamilyKind::Counter,
        MetricUnit::Seconds,
        "Time in waits, by cause; the causes of a cgroup add up to the sum of its waits.",
        causes.collect(),
    );
    let preemptions = all.iter().flat_map(|(labels, series)| {
        series.total().preemptions().map(move |(by, count)| FamilyMetric {
            series: series.number(),
            ..FamilyMetric::number(labels, Some(("by", by.name())), MetricNumber::Count(count))
        })
    });
    families.add(
        "wakelat_preemptions",
        FamilyKind::Counter,
        MetricUnit::Number("preemption"),
        "Waits of preempted tasks, by what ran first instead.",
        preemptions.collect(),
    );
    let behind = snapshot.neighbours.series().map(|pair| {
        let running = ("running", Cow::Owned(pair.running.to_owned()));
        let labels = Rc::new(labels(pair.waiting).into_iter().chain([running]).collect());
        FamilyMetric {
            series: pair.number,
            // Nothing is counted since before the start time, also after the clock was set back.
            since_unix_ns: Some(snapshot.unix_ns_after(pair.since_ns).max(snapshot.report.start_unix_ns)),
            ..FamilyMetric::number(&labels, None, MetricNumber::Ns(pair.ns))
        }
    });
    families.add(
        "wakelat_wait_behind_seconds",
        FamilyKind::Counter,
        MetricUnit::Seconds,
        "Time in waits in which tasks of another cgroup ran, by that cgroup.",
        behind.collect(),
    );
    let maxima = all.iter().map(|(labels, series)| {
        let max_ns = series.recent_longest(snapshot.now_s).map_or(0, |longest| longest.latency_ns);
        FamilyMetric::number(labels, None, MetricNumber::Ns(max_ns.into()))
    });
    families.add(
        "wakelat_wait_recent_max_seconds",
        FamilyKind::Gauge,
        MetricUnit::Seconds,
        "Longest wait that ended in the last 60 to 70 seconds.",
        maxima.collect(),
    );
    let classes = snapshot.report.groups.iter().map(|group| FamilyMetric {
        labels: Rc::default(),
        label: Some(("class", group.class.name())),
        series: 0,
        since_unix_ns: None,
        value: MetricValue::Summary { count: group.distribution.count(), sum_ns: group.distribution.sum_ns() },
    });
    families.add(
        "wakelat_class_wait_seconds",
        FamilyKind::Summary,
        MetricUnit::Seconds,
        "Waits of the whole machine, by what the task did before.",
        classes.collect(),
    );
    let table = snapshot.series;
    families.number("wakelat_series", "cgroup", "Cgroups with series of their own.", table.len() as u64);
    families.number(
        "wakelat_series_limit",
        "cgroup",
        "Maximum number of cgroups with series of their own (--max-series).",
        table.max_series() as u64,
    );
    families.number("wakelat_other_cgroups", "cgroup", "Cgroups that were counted as (other).", table.merged_groups());
}

fn coverage(snapshot: &MetricsSnapshot, families: &mut Families) {
    let report = snapshot.report;
    let measured_ns = report.measured_ns();
    families.time("wakelat_measured_seconds", "Time measured; all counts are of this time.", measured_ns);
    let paused = "Time in pauses, in which nothing is measured (--max-overhead).";
    families.time("wakelat_paused_seconds", paused, report.duration_ns - measured_ns);
    if let Some(terms) = &report.coverage.switch_ins {
        families.counter(
            "wakelat_switch_ins_seen",
            "switch",
            "Switches to a task other than idle; the sum of the results of all switch-ins.",
            terms.seen,
        );
        let switch_ins = "Switches to a task, by what became of its wait.";
        families.results("wakelat_switch_ins", "switch", switch_ins, terms.by_result());
        let unknown = "Time in waits of the results unknown_start and after_unseen, as far as it is known.";
        families.time("wakelat_unknown_wait_seconds", unknown, terms.unknown_ns);
        let unseen = "Waits that ended unseen, by the kernel's count.";
        families.counter("wakelat_unseen_waits", "wait", unseen, terms.unseen);
        families.time("wakelat_unseen_wait_seconds", "Time in waits that ended unseen.", terms.unseen_ns);
        families.counter("wakelat_switches_to_idle", "switch", "Switches to the idle task.", terms.to_idle);
    }
    if let Some(missed) = report.coverage.missed {
        let help = "Events for which the kernel skipped a program.";
        families.counter("wakelat_program_runs_missed", "event", help, missed);
    }
    if let Some(counts) = &snapshot.exports {
        let exports = "OTLP exports by result; dropped: no room in the queue; unknown: sent once, without an answer.";
        families.results("wakelat_otlp_exports", "export", exports, counts.by_result());
        let rejected = "Points that the OTLP receiver refused in exports that it accepted.";
        families.counter("wakelat_otlp_rejected_points", "point", rejected, counts.rejected_points);
        families.number("wakelat_otlp_queue", "export", "OTLP exports that wait to be delivered.", counts.queued);
    }
    if let Some(pods) = snapshot.pods {
        let requests = "Requests to the kubelet for the names of pods, by result.";
        families.results("wakelat_kubelet_requests", "request", requests, pods.requests());
        families.number("wakelat_kubelet_pods", "pod", "Pods in the last list of the kubelet.", pods.pods());
    }
    if let Some(captures) = snapshot.captures {
        capture_counts::families(captures).into_iter().for_each(&mut *families.0);
    }
    let lost = "Parts of waits whose pair of cgroups had no room.";
    families.counter("wakelat_pairs_lost", "part", lost, snapshot.series.pairs_lost());
}

fn cost(snapshot: &MetricsSnapshot, families: &mut Families) {
    let report = snapshot.report;
    if let Some(cost) = &report.overhead {
        families.time("wakelat_program_seconds", "CPU time of the BPF programs.", cost.programs.ns);
        families.time("wakelat_process_cpu_seconds", "CPU time of wakelat itself.", cost.tool_ns);
        families.number("wakelat_cpus", "cpu", "Online CPUs when wakelat started.", cost.cpus.into());
        let capacity_ns = cost.capacity_ns(report.duration_ns).max(1);
        let ratio = cost.total_ns() as f64 / capacity_ns as f64;
        families.ratio("wakelat_overhead_ratio", "Share of all CPU time that measuring took since the start.", ratio);
    }
    if let Some(sampling) = &report.sampling {
        let help = "Limit of the share of all CPU time that measuring takes (--max-overhead).";
        families.ratio("wakelat_overhead_limit_ratio", help, f64::from(sampling.limit_ppm) / 1e6);
    }
    if let Some(waited_ns) = report.reader_waited_ns {
        families.time("wakelat_reader_wait_seconds", "Time that wakelat itself waited for a CPU.", waited_ns);
    }
    let instants = [
        (START_TIME, "When measuring began: seconds since 1970-01-01 UTC.", report.start_unix_ns.into()),
        (
            LAST_READ_TIME,
            "Until when everything is counted: seconds since 1970-01-01 UTC.",
            snapshot.end_unix_ns().into(),
        ),
    ];
    for (name, help, unix_ns) in instants {
        families.single(name, FamilyKind::Gauge, MetricUnit::Seconds, help, MetricNumber::Ns(unix_ns));
    }
    let labels = [("version", snapshot.version), ("kernel", report.kernel.as_str())];
    let labels = labels.map(|(name, value)| (name, Cow::Owned(value.to_owned())));
    families.add(
        "wakelat_build_info",
        FamilyKind::Gauge,
        MetricUnit::Ratio,
        "The version of wakelat, and the kernel's release.",
        vec![FamilyMetric::number(&Rc::new(labels.into()), None, MetricNumber::Count(1))],
    );
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::{
        report::{Overhead, ProgramTime, SwitchInTerms},
        why::counted::summary::testing::one_neighbour,
    };

    /// The metrics of a service without anything that can be configured, at second 1 of the clock of its series.
    pub fn plain<'a>(
        series: &'a SeriesTable,
        neighbours: &'a NeighbourTable,
        report: &'a Report,
        labels: &'a ConstantLabels,
    ) -> MetricsSnapshot<'a> {
        let (clock_step_ns, now_s, version) = (0, 1, "1.0");
        let (exports, pods, captures) = (None, None, None);
        MetricsSnapshot { series, neighbours, report, clock_step_ns, now_s, version, labels, exports, pods, captures }
    }

    /// Calls `use_it` with the metrics of two cgroups.
    pub fn with_example<T>(labels: &ConstantLabels, use_it: impl FnOnce(&MetricsSnapshot) -> T) -> T {
        let mut series = SeriesTable::new(10);
        series.add(&one_neighbour(), 1);
        let mut report =
            Report { kernel: "6.12".to_owned(), start_unix_ns: 1, duration_ns: 2_000_000_000, ..Report::default() };
        report.coverage.switch_ins =
            Some(SwitchInTerms { seen: 5, measured: 3, filtered: 2, ..SwitchInTerms::default() });
        let programs = ProgramTime { ns: 10_000_000, switches: 5, timed_runs: 1 };
        report.overhead = Some(Overhead { cpus: 2, tool_ns: 10_000_000, programs });
        let mut neighbours = NeighbourTable::default();
        (0..20).for_each(|_| neighbours.add(&one_neighbour().pairs, 1, |name| series.has(name)));
        use_it(&plain(&series, &neighbours, &report, labels))
    }
}
