//! The totals as families of metrics, whatever the format.
//!
//! Times are whole ns. A classic bucket of a histogram ends 1 ns below a power of two of ns, where the kernel's buckets also
//! end, so that no wait is counted in a wrong bucket.

use std::{borrow::Cow, rc::Rc};

use super::{
    constant_labels::ConstantLabels,
    exponential::ExponentialBuckets,
    export_counts::{self, ExportCounts},
    series::{SeriesTable, WaitSeries},
};
use crate::{aggregate::container_id::Container, report::Report};

/// What the metrics show.
pub struct MetricsSnapshot<'a> {
    /// The series of each cgroup since the start.
    pub series: &'a SeriesTable,
    /// Coverage and overhead since the start; the same waits as in `series`.
    pub report: &'a Report,
    /// The clock of the series: seconds.
    pub now_s: u64,
    /// The version of wakelat.
    pub version: &'a str,
    /// Labels that all series have.
    pub labels: &'a ConstantLabels,
    /// What became of the exports to an OTLP receiver, if there is one.
    pub exports: Option<ExportCounts>,
}

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// A number that never decreases.
    Counter,
    /// A number that can decrease.
    Gauge,
    /// A distribution.
    Histogram,
    /// Count and sum of a distribution.
    Summary,
}

/// Metrics with one name.
pub struct MetricFamily {
    /// The name, of a counter without the suffix `_total`. If it ends in `_seconds`, that is the unit.
    pub name: &'static str,
    /// The type.
    pub kind: FamilyKind,
    /// The meaning.
    pub help: &'static str,
    /// One metric for each combination of labels.
    pub metrics: Vec<FamilyMetric>,
}

/// Names and values of labels.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// A metric of a family.
pub struct FamilyMetric {
    /// Labels that several metrics share.
    pub labels: Rc<Labels>,
    /// The label that this metric has besides them.
    pub label: Option<(&'static str, &'static str)>,
    /// The value.
    pub value: MetricValue,
}

/// The value of a metric.
pub enum MetricValue {
    /// Of a counter or a gauge.
    Number(MetricNumber),
    /// Of a histogram.
    Histogram(HistogramValue),
    /// Of a summary.
    Summary {
        /// Number of values.
        count: u64,
        /// Their sum: ns.
        sum_ns: u128,
    },
}

/// A number of a counter or a gauge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricNumber {
    /// A count.
    Count(u64),
    /// A time: ns.
    Ns(u128),
    /// A part of a whole.
    Ratio(f64),
}

/// The waits of a series.
pub struct HistogramValue {
    /// Number of waits.
    pub count: u64,
    /// Their sum: ns.
    pub sum_ns: u128,
    /// The largest value of each classic bucket (ns), and the number of waits up to it.
    pub classic: Vec<(u64, u64)>,
    /// The same waits in exponential buckets.
    pub exponential: ExponentialBuckets,
}

/// The powers of two of ns below which the classic buckets count: 1 µs to 17 s, in steps of four.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=34;

/// The name of the series of all groups without one of their own.
pub(super) const OTHER: &str = "(other)";

/// All metrics.
pub fn families(snapshot: &MetricsSnapshot) -> Vec<MetricFamily> {
    let mut families = Families(Vec::new());
    waits(snapshot, &mut families);
    coverage(snapshot, &mut families);
    cost(snapshot, &mut families);
    families.0
}

/// Families that are being built.
struct Families(Vec<MetricFamily>);

impl Families {
    fn add(&mut self, name: &'static str, kind: FamilyKind, help: &'static str, metrics: Vec<FamilyMetric>) {
        self.0.push(MetricFamily { name, kind, help, metrics });
    }

    /// Adds a family of one metric without labels.
    fn single(&mut self, name: &'static str, kind: FamilyKind, help: &'static str, number: MetricNumber) {
        self.add(name, kind, help, vec![FamilyMetric::number(&Rc::default(), None, number)]);
    }

    fn counter(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.single(name, FamilyKind::Counter, help, MetricNumber::Count(count));
    }

    /// Adds a family of one counter for each result.
    fn results(
        &mut self,
        name: &'static str,
        help: &'static str,
        counts: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        let none = Rc::default();
        let metric =
            |(result, count)| FamilyMetric::number(&none, Some(("result", result)), MetricNumber::Count(count));
        self.add(name, FamilyKind::Counter, help, counts.into_iter().map(metric).collect());
    }

    fn time(&mut self, name: &'static str, help: &'static str, ns: impl Into<u128>) {
        self.single(name, FamilyKind::Counter, help, MetricNumber::Ns(ns.into()));
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, number: MetricNumber) {
        self.single(name, FamilyKind::Gauge, help, number);
    }
}

impl FamilyMetric {
    fn number(labels: &Rc<Labels>, label: Option<(&'static str, &'static str)>, number: MetricNumber) -> Self {
        Self { labels: Rc::clone(labels), label, value: MetricValue::Number(number) }
    }
}

/// The labels of a cgroup: its path, and the container and the pod that the path names.
fn labels(cgroup: &str) -> Labels {
    let container = Container::of(cgroup);
    let (id, pod) = container.map_or((None, None), |container| (container.id, container.pod));
    let more = [("container", id), ("pod", pod)].into_iter();
    let more = more.filter_map(|(name, value)| Some((name, Cow::Owned(value?.to_string()))));
    [("cgroup", Cow::Owned(cgroup.to_owned()))].into_iter().chain(more).collect()
}

fn histogram(series: &WaitSeries) -> HistogramValue {
    let total = series.total();
    let classic = BOUNDS.step_by(2).map(|power| (1u64 << power) - 1).map(|last| (last, total.waits_below(last + 1)));
    HistogramValue {
        count: total.waits,
        sum_ns: total.sum_ns,
        classic: classic.collect(),
        exponential: ExponentialBuckets::of(total),
    }
}

fn waits(snapshot: &MetricsSnapshot, families: &mut Families) {
    let named = snapshot.series.series().map(|(name, series)| (Rc::new(labels(name)), series));
    let other = snapshot.series.other().map(|series| (Rc::new(labels(OTHER)), series));
    let all: Vec<(Rc<Labels>, &WaitSeries)> = named.chain(other).collect();
    let metrics = all.iter().map(|(labels, series)| FamilyMetric {
        labels: Rc::clone(labels),
        label: None,
        value: MetricValue::Histogram(histogram(series)),
    });
    families.add(
        "wakelat_wait_seconds",
        FamilyKind::Histogram,
        "Waits on a run queue, by the cgroup of the waiting task.",
        metrics.collect(),
    );
    let causes = all.iter().flat_map(|(labels, series)| {
        series.causes().map(move |(cause, time)| {
            FamilyMetric::number(labels, Some(("cause", cause.name())), MetricNumber::Ns(time.ns))
        })
    });
    families.add(
        "wakelat_wait_cause_seconds",
        FamilyKind::Counter,
        "Time in waits, by cause; all causes add up to wakelat_wait_seconds_sum.",
        causes.collect(),
    );
    let maxima = all.iter().map(|(labels, series)| {
        FamilyMetric::number(labels, None, MetricNumber::Ns(series.recent_max_ns(snapshot.now_s).into()))
    });
    families.add(
        "wakelat_wait_recent_max_seconds",
        FamilyKind::Gauge,
        "Longest wait that ended in the last 60 to 70 seconds.",
        maxima.collect(),
    );
    let classes = snapshot.report.groups.iter().map(|group| FamilyMetric {
        labels: Rc::default(),
        label: Some(("class", group.class.name())),
        value: MetricValue::Summary { count: group.distribution.count(), sum_ns: group.distribution.sum_ns() },
    });
    families.add(
        "wakelat_class_wait_seconds",
        FamilyKind::Summary,
        "Waits of the whole machine, by what the task did before.",
        classes.collect(),
    );
    let table = snapshot.series;
    families.gauge("wakelat_series", "Cgroups with series of their own.", MetricNumber::Count(table.len() as u64));
    families.gauge(
        "wakelat_series_limit",
        "Maximum of wakelat_series (--max-series).",
        MetricNumber::Count(table.max_series() as u64),
    );
    families.gauge(
        "wakelat_other_cgroups",
        "Cgroups that were counted as (other) because of the limit.",
        MetricNumber::Count(table.merged_groups()),
    );
}

fn coverage(snapshot: &MetricsSnapshot, families: &mut Families) {
    let report = snapshot.report;
    families.time("wakelat_measured_seconds", "Time measured.", report.duration_ns);
    if let Some(terms) = &report.coverage.switch_ins {
        families.counter(
            "wakelat_switch_ins_seen",
            "Switches to a task other than idle; the sum of all wakelat_switch_ins.",
            terms.seen,
        );
        families.results("wakelat_switch_ins", "Switches to a task, by what became of its wait.", terms.by_result());
        let unknown = "Time in waits of the results unknown_start and after_unseen, as far as it is known.";
        families.time("wakelat_unknown_wait_seconds", unknown, terms.unknown_ns);
        families.counter("wakelat_unseen_waits", "Waits that ended unseen, by the kernel's count.", terms.unseen);
        families.time("wakelat_unseen_wait_seconds", "Time in these waits.", terms.unseen_ns);
        families.counter("wakelat_switches_to_idle", "Switches to the idle task.", terms.to_idle);
    }
    if let Some(missed) = report.coverage.missed {
        families.counter("wakelat_program_runs_missed", "Events for which the kernel skipped a program.", missed);
    }
    if let Some(counts) = &snapshot.exports {
        families.results("wakelat_otlp_exports", export_counts::EXPORTS_HELP, counts.by_result());
        families.counter("wakelat_otlp_rejected_points", export_counts::REJECTED_POINTS_HELP, counts.rejected_points);
        families.gauge("wakelat_otlp_queue", export_counts::QUEUE_HELP, MetricNumber::Count(counts.queued));
    }
    let lost = "Parts of waits whose pair of cgroups had no room.";
    families.counter("wakelat_pairs_lost", lost, snapshot.series.pairs_lost());
}

fn cost(snapshot: &MetricsSnapshot, families: &mut Families) {
    let report = snapshot.report;
    if let Some(cost) = &report.overhead {
        families.time("wakelat_program_seconds", "CPU time of the BPF programs.", cost.programs.ns);
        families.time("wakelat_process_cpu_seconds", "CPU time of wakelat itself.", cost.tool_ns);
        families.gauge("wakelat_cpus", "Online CPUs when wakelat started.", MetricNumber::Count(cost.cpus.into()));
        let capacity_ns = cost.capacity_ns(report.duration_ns).max(1);
        let ratio = cost.total_ns() as f64 / capacity_ns as f64;
        let help = "Share of all CPU time that measuring took since the start.";
        families.gauge("wakelat_overhead_ratio", help, MetricNumber::Ratio(ratio));
    }
    if let Some(waited_ns) = report.reader_waited_ns {
        families.time("wakelat_reader_wait_seconds", "Time that wakelat itself waited for a CPU.", waited_ns);
    }
    let end_ns = u128::from(report.start_unix_ns) + u128::from(report.duration_ns);
    let start = "When measuring began: seconds since 1970-01-01 UTC.";
    families.gauge("wakelat_start_time_seconds", start, MetricNumber::Ns(report.start_unix_ns.into()));
    let end = "Until when everything is counted: seconds since 1970-01-01 UTC.";
    families.gauge("wakelat_last_read_time_seconds", end, MetricNumber::Ns(end_ns));
    let labels = [("version", snapshot.version), ("kernel", report.kernel.as_str())];
    let labels = labels.map(|(name, value)| (name, Cow::Owned(value.to_owned())));
    families.add(
        "wakelat_build_info",
        FamilyKind::Gauge,
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
        use_it(&MetricsSnapshot { series: &series, report: &report, now_s: 1, version: "1.0", labels, exports: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_container_has_its_labels() {
        let id = "0123456789abcdef".repeat(4);
        let path = format!("/system.slice/docker-{id}.scope");
        let found = labels(&path);
        assert_eq!(found, [("cgroup", Cow::Owned(path)), ("container", Cow::Borrowed("0123456789ab"))]);
    }
}
