//! The totals as metrics, in the text formats of Prometheus: OpenMetrics 1.0 and the older format 0.0.4.
//!
//! Times are exact: seconds with nine decimals. A bucket of a histogram ends 1 ns below a power of two of ns, where the
//! kernel's buckets also end, so that no wait is counted in a wrong bucket.

use std::fmt::{Display, Write as _};

use super::{
    export_counts::{self, ExportCounts},
    series::{SeriesTable, WaitSeries},
};
use crate::{aggregate::container_id::Container, report::Report};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

impl MetricsFormat {
    /// The media types without their parameters, in the order of preference.
    pub const MEDIA_TYPES: [&str; 2] = ["application/openmetrics-text", "text/plain"];

    /// The formats, in the order of [`Self::MEDIA_TYPES`].
    pub const ALL: [Self; 2] = [Self::OpenMetrics, Self::Prometheus];

    /// The value of the header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

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
    /// What became of the exports to an OTLP receiver, if there is one.
    pub exports: Option<ExportCounts>,
}

/// The powers of two of ns below which the classic buckets count: 1 µs to 17 s, in steps of four.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=34;

/// The name of the series of all groups without one of their own.
pub(super) const OTHER: &str = "(other)";

/// Renders all metrics.
pub fn render(snapshot: &MetricsSnapshot, format: MetricsFormat) -> String {
    let mut text = MetricsText { out: String::new(), format };
    waits(snapshot, &mut text);
    coverage(snapshot, &mut text);
    cost(snapshot, &mut text);
    if format == MetricsFormat::OpenMetrics {
        text.out.push_str("# EOF\n");
    }
    text.out
}

/// ns as seconds, exactly.
struct Seconds(u128);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The type of a metric family.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Text that grows by families.
struct MetricsText {
    out: String,
    format: MetricsFormat,
}

impl MetricsText {
    /// Begins a family. `name` is without the suffix `_total`; if it ends in a unit, that is announced.
    fn family(&mut self, name: &str, kind: FamilyKind, help: &str) {
        let word = match kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
            FamilyKind::Summary => "summary",
        };
        let is_open = self.format == MetricsFormat::OpenMetrics;
        let suffix = if kind == FamilyKind::Counter && !is_open { "_total" } else { "" };
        _ = writeln!(self.out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {word}");
        if is_open && name.ends_with("_seconds") {
            _ = writeln!(self.out, "# UNIT {name} seconds");
        }
    }

    /// Adds a sample; `labels` are `name="value"` pairs, separated by commas.
    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        _ = if labels.is_empty() {
            writeln!(self.out, "{name} {value}")
        } else {
            writeln!(self.out, "{name}{{{labels}}} {value}")
        };
    }

    /// Adds a family of one counter.
    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, FamilyKind::Counter, help);
        self.sample(&format!("{name}_total"), "", value);
    }

    /// Adds a family of one gauge.
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, FamilyKind::Gauge, help);
        self.sample(name, "", value);
    }
}

/// The value of a label, escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The labels of a cgroup: its path, and the container and the pod that the path names.
fn labels(cgroup: &str) -> String {
    let mut labels = format!("cgroup=\"{}\"", escaped(cgroup));
    let container = Container::of(cgroup);
    let (id, pod) = container.map_or((None, None), |container| (container.id, container.pod));
    for (name, value) in [("container", id), ("pod", pod)] {
        if let Some(value) = value {
            _ = write!(labels, ",{name}=\"{}\"", escaped(&value));
        }
    }
    labels
}

fn waits(snapshot: &MetricsSnapshot, text: &mut MetricsText) {
    let named = snapshot.series.series().map(|(name, series)| (labels(name), series));
    let other = snapshot.series.other().map(|series| (labels(OTHER), series));
    let all: Vec<(String, &WaitSeries)> = named.chain(other).collect();
    let name = "wakelat_wait_seconds";
    text.family(name, FamilyKind::Histogram, "Waits on a run queue, by the cgroup of the waiting task.");
    for (labels, series) in &all {
        let total = series.total();
        for power in BOUNDS.step_by(2) {
            let bound_ns = 1u64 << power;
            let le = format!("{labels},le=\"{}\"", Seconds(u128::from(bound_ns - 1)));
            text.sample("wakelat_wait_seconds_bucket", &le, total.waits_below(bound_ns));
        }
        text.sample("wakelat_wait_seconds_bucket", &format!("{labels},le=\"+Inf\""), total.waits);
        text.sample("wakelat_wait_seconds_sum", labels, Seconds(total.sum_ns));
        text.sample("wakelat_wait_seconds_count", labels, total.waits);
    }
    let name = "wakelat_wait_cause_seconds";
    text.family(name, FamilyKind::Counter, "Time in waits, by cause; all causes add up to wakelat_wait_seconds_sum.");
    for (labels, series) in &all {
        for (cause, time) in series.causes() {
            let of_cause = format!("{labels},cause=\"{}\"", cause.name());
            text.sample("wakelat_wait_cause_seconds_total", &of_cause, Seconds(time.ns));
        }
    }
    let name = "wakelat_wait_recent_max_seconds";
    text.family(name, FamilyKind::Gauge, "Longest wait that ended in the last 60 to 70 seconds.");
    for (labels, series) in &all {
        text.sample(name, labels, Seconds(series.recent_max_ns(snapshot.now_s).into()));
    }
    let name = "wakelat_class_wait_seconds";
    text.family(name, FamilyKind::Summary, "Waits of the whole machine, by what the task did before.");
    for group in &snapshot.report.groups {
        let class = format!("class=\"{}\"", group.class.name());
        text.sample("wakelat_class_wait_seconds_sum", &class, Seconds(group.distribution.sum_ns()));
        text.sample("wakelat_class_wait_seconds_count", &class, group.distribution.count());
    }
    let table = snapshot.series;
    text.gauge("wakelat_series", "Cgroups with series of their own.", table.len());
    text.gauge("wakelat_series_limit", "Maximum of wakelat_series (--max-series).", table.max_series());
    text.gauge(
        "wakelat_other_cgroups",
        "Cgroups that were counted as (other) because of the limit.",
        table.merged_groups(),
    );
}

fn coverage(snapshot: &MetricsSnapshot, text: &mut MetricsText) {
    let report = snapshot.report;
    text.counter("wakelat_measured_seconds", "Time measured.", Seconds(report.duration_ns.into()));
    if let Some(terms) = &report.coverage.switch_ins {
        text.counter(
            "wakelat_switch_ins_seen",
            "Switches to a task other than idle; the sum of all wakelat_switch_ins.",
            terms.seen,
        );
        text.family("wakelat_switch_ins", FamilyKind::Counter, "Switches to a task, by what became of its wait.");
        for (result, count) in terms.by_result() {
            text.sample("wakelat_switch_ins_total", &format!("result=\"{result}\""), count);
        }
        let unknown = "Time in waits of the results unknown_start and after_unseen, as far as it is known.";
        text.counter("wakelat_unknown_wait_seconds", unknown, Seconds(terms.unknown_ns.into()));
        text.counter("wakelat_unseen_waits", "Waits that ended unseen, by the kernel's count.", terms.unseen);
        text.counter("wakelat_unseen_wait_seconds", "Time in these waits.", Seconds(terms.unseen_ns.into()));
        text.counter("wakelat_switches_to_idle", "Switches to the idle task.", terms.to_idle);
    }
    if let Some(missed) = report.coverage.missed {
        text.counter("wakelat_program_runs_missed", "Events for which the kernel skipped a program.", missed);
    }
    if let Some(counts) = &snapshot.exports {
        text.family("wakelat_otlp_exports", FamilyKind::Counter, export_counts::EXPORTS_HELP);
        for (result, count) in counts.by_result() {
            text.sample("wakelat_otlp_exports_total", &format!("result=\"{result}\""), count);
        }
        text.counter("wakelat_otlp_rejected_points", export_counts::REJECTED_POINTS_HELP, counts.rejected_points);
        text.gauge("wakelat_otlp_queue", export_counts::QUEUE_HELP, counts.queued);
    }
    let lost = "Parts of waits whose pair of cgroups had no room.";
    text.counter("wakelat_pairs_lost", lost, snapshot.series.pairs_lost());
}

fn cost(snapshot: &MetricsSnapshot, text: &mut MetricsText) {
    let report = snapshot.report;
    if let Some(cost) = &report.overhead {
        text.counter("wakelat_program_seconds", "CPU time of the BPF programs.", Seconds(cost.programs.ns.into()));
        text.counter("wakelat_process_cpu_seconds", "CPU time of wakelat itself.", Seconds(cost.tool_ns.into()));
        text.gauge("wakelat_cpus", "Online CPUs when wakelat started.", cost.cpus);
        let capacity_ns = cost.capacity_ns(report.duration_ns).max(1);
        let ratio = cost.total_ns() as f64 / capacity_ns as f64;
        text.gauge("wakelat_overhead_ratio", "Share of all CPU time that measuring took since the start.", ratio);
    }
    if let Some(waited_ns) = report.reader_waited_ns {
        let help = "Time that wakelat itself waited for a CPU.";
        text.counter("wakelat_reader_wait_seconds", help, Seconds(waited_ns.into()));
    }
    let end_ns = u128::from(report.start_unix_ns) + u128::from(report.duration_ns);
    let start = "When measuring began: seconds since 1970-01-01 UTC.";
    text.gauge("wakelat_start_time_seconds", start, Seconds(report.start_unix_ns.into()));
    let end = "Until when everything is counted: seconds since 1970-01-01 UTC.";
    text.gauge("wakelat_last_read_time_seconds", end, Seconds(end_ns));
    let labels = format!("version=\"{}\",kernel=\"{}\"", escaped(snapshot.version), escaped(&report.kernel));
    text.family("wakelat_build_info", FamilyKind::Gauge, "The version of wakelat, and the kernel's release.");
    text.sample("wakelat_build_info", &labels, 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{Overhead, ProgramTime, SwitchInTerms},
        why::counted::summary::testing::one_neighbour,
    };

    fn text(format: MetricsFormat) -> String {
        let mut series = SeriesTable::new(10);
        series.add(&one_neighbour(), 1);
        let mut report =
            Report { kernel: "6.12".to_owned(), start_unix_ns: 1, duration_ns: 2_000_000_000, ..Report::default() };
        report.coverage.switch_ins =
            Some(SwitchInTerms { seen: 5, measured: 3, filtered: 2, ..SwitchInTerms::default() });
        let programs = ProgramTime { ns: 10_000_000, switches: 5, timed_runs: 1 };
        report.overhead = Some(Overhead { cpus: 2, tool_ns: 10_000_000, programs });
        render(&MetricsSnapshot { series: &series, report: &report, now_s: 1, version: "1.0", exports: None }, format)
    }

    #[test]
    fn openmetrics() {
        insta::assert_snapshot!(text(MetricsFormat::OpenMetrics));
    }

    #[test]
    fn the_older_format_has_the_same_samples() {
        let samples = |format| -> Vec<String> {
            text(format).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(samples(MetricsFormat::Prometheus), samples(MetricsFormat::OpenMetrics));
        let prometheus = text(MetricsFormat::Prometheus);
        assert!(prometheus.contains("# TYPE wakelat_wait_cause_seconds_total counter\n"), "{prometheus}");
        assert!(!prometheus.contains("# EOF") && !prometheus.contains("# UNIT"), "{prometheus}");
    }

    #[test]
    fn the_path_of_a_container_has_its_labels_and_no_character_ends_a_label() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(
            labels(&format!("/system.slice/docker-{id}.scope")),
            format!("cgroup=\"/system.slice/docker-{id}.scope\",container=\"0123456789ab\"")
        );
        assert_eq!(labels("/a\"} 1\nb\\"), "cgroup=\"/a\\\"} 1\\nb\\\\\"");
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(Seconds(1_023).to_string(), "0.000001023");
        assert_eq!(Seconds(u128::from(u64::MAX) * 1_000).to_string(), "18446744073709.551615000");
    }
}
