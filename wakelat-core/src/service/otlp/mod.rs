//! The totals as a request of OTLP: metrics in protobuf, as `/v1/metrics` takes them.
//!
//! Times are whole ns, so that every sum is exact: a double in seconds is not. The names are those of the text formats
//! without their units.

mod buckets;
mod messages;
mod partial_success;
mod streams;

use prost::Message as _;

pub use self::partial_success::PartialSuccess;
use self::{
    buckets::{OtlpBuckets, SCALE, ZERO_THRESHOLD_NS},
    messages::{
        AnyValue, CUMULATIVE, DELTA, Data, ExponentialCounts, ExponentialHistogram, ExponentialHistogramDataPoint,
        ExportMetricsServiceRequest, Gauge, InstrumentationScope, Metric, Number, NumberDataPoint, OtlpAttribute,
        Resource, ResourceMetrics, ScopeMetrics, SumMetric,
    },
    streams::{StreamKey, StreamPoint, StreamValue, Streams},
};
use super::{
    export_counts::{EXPORTS_HELP, QUEUE_HELP, REJECTED_POINTS_HELP},
    metric_families::{MetricsSnapshot, OTHER},
    series::WaitSeries,
};
use crate::{aggregate::container_id::Container, why::counted::GroupTotal};

/// What the points of counters and histograms cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporality {
    /// Everything since the series began.
    #[default]
    Cumulative,
    /// Everything since the previous export.
    Delta,
}

/// Makes requests from totals. Under [`Temporality::Delta`], each export counts what no earlier one has.
#[derive(Debug)]
pub struct OtlpExporter {
    temporality: Temporality,
    resource: Vec<OtlpAttribute>,
    streams: Streams,
}

impl OtlpExporter {
    /// Nothing has been exported. `resource`: the attributes of the resource.
    pub fn new(temporality: Temporality, resource: impl IntoIterator<Item = (String, String)>) -> Self {
        let resource = resource.into_iter().map(|(key, value)| attribute(&key, value)).collect();
        Self { temporality, resource, streams: Streams::default() }
    }

    /// An encoded `ExportMetricsServiceRequest` with all metrics.
    pub fn export(&mut self, snapshot: &MetricsSnapshot) -> Vec<u8> {
        let report = snapshot.report;
        let end_unix_ns = report.start_unix_ns.saturating_add(report.duration_ns);
        let mut export = Export { exporter: self, snapshot, end_unix_ns, metrics: Vec::new() };
        waits(&mut export);
        coverage(&mut export);
        cost(&mut export);
        let metrics = export.metrics;
        self.streams.end_export(end_unix_ns);
        let scope = InstrumentationScope { name: "wakelat".to_owned(), version: snapshot.version.to_owned() };
        let constant = snapshot.labels.iter().map(|(key, value)| attribute(key, value.to_owned()));
        let resource = Resource { attributes: self.resource.iter().cloned().chain(constant).collect() };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
        let all = ResourceMetrics { resource: Some(resource), scope_metrics };
        ExportMetricsServiceRequest { resource_metrics: vec![all] }.encode_to_vec()
    }
}

type Attributes = Vec<(&'static str, String)>;

fn attribute(key: &str, value: String) -> OtlpAttribute {
    OtlpAttribute { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value) }) }
}

fn key_values(attributes: Attributes) -> Vec<OtlpAttribute> {
    attributes.into_iter().map(|(key, value)| attribute(key, value)).collect()
}

/// The attributes of a cgroup: its path, and the container and the pod that the path names.
fn cgroup(path: &str) -> Attributes {
    let container = Container::of(path);
    let (id, pod) = container.map_or((None, None), |container| (container.id, container.pod));
    let more = [("container.id", id), ("k8s.pod.uid", pod)];
    let more = more.into_iter().filter_map(|(key, value)| Some((key, value?)));
    std::iter::once(("cgroup", path.to_owned())).chain(more).collect()
}

/// A request that grows by metrics.
struct Export<'a> {
    exporter: &'a mut OtlpExporter,
    snapshot: &'a MetricsSnapshot<'a>,
    end_unix_ns: u64,
    metrics: Vec<Metric>,
}

impl Export<'_> {
    fn temporality(&self) -> i32 {
        if self.exporter.temporality == Temporality::Delta { DELTA } else { CUMULATIVE }
    }

    fn metric(&mut self, name: &str, unit: &str, description: &str, data: Data) {
        let [name, unit, description] = [name, unit, description].map(str::to_owned);
        self.metrics.push(Metric { name, description, unit, data: Some(data) });
    }

    fn point(
        &mut self,
        metric: &'static str,
        attributes: &Attributes,
        series: u64,
        value: StreamValue,
    ) -> Option<StreamPoint> {
        let delta = self.exporter.temporality == Temporality::Delta;
        let key = StreamKey { metric, attributes: attributes.clone() };
        self.exporter.streams.point(key, series, value, self.snapshot.report.start_unix_ns, delta)
    }

    /// Adds a monotonic sum; each value with its attributes and the number of its series.
    fn sums(
        &mut self,
        name: &'static str,
        unit: &str,
        description: &str,
        values: impl IntoIterator<Item = (Attributes, u64, u128)>,
    ) {
        let mut data_points = Vec::new();
        for (attributes, series, value) in values {
            let Some(point) = self.point(name, &attributes, series, StreamValue::Sum(value)) else { continue };
            let StreamValue::Sum(value) = point.value else { continue };
            data_points.push(NumberDataPoint {
                attributes: key_values(attributes),
                start_time_unix_nano: point.start_unix_ns,
                time_unix_nano: self.end_unix_ns,
                value: Some(Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX))),
            });
        }
        let aggregation_temporality = self.temporality();
        self.metric(
            name,
            unit,
            description,
            Data::Sum(SumMetric { data_points, aggregation_temporality, is_monotonic: true }),
        );
    }

    /// Adds a sum without attributes.
    fn sum(&mut self, name: &'static str, unit: &str, description: &str, value: impl Into<u128>) {
        self.sums(name, unit, description, [(Vec::new(), 0, value.into())]);
    }

    /// Adds a gauge.
    fn gauges(
        &mut self,
        name: &str,
        unit: &str,
        description: &str,
        values: impl IntoIterator<Item = (Attributes, Number)>,
    ) {
        let time_unix_nano = self.end_unix_ns;
        let point = |(attributes, value)| NumberDataPoint {
            attributes: key_values(attributes),
            start_time_unix_nano: 0,
            time_unix_nano,
            value: Some(value),
        };
        let data_points = values.into_iter().map(point).collect();
        self.metric(name, unit, description, Data::Gauge(Gauge { data_points }));
    }

    /// Adds a gauge without attributes.
    fn gauge(&mut self, name: &str, unit: &str, description: &str, value: u64) {
        self.gauges(name, unit, description, [(Vec::new(), int(value))]);
    }
}

fn int(value: u64) -> Number {
    Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX))
}

fn histogram(
    attributes: Attributes,
    total: &GroupTotal,
    point: &StreamPoint,
    end: u64,
) -> ExponentialHistogramDataPoint {
    let OtlpBuckets { zero_count, offset, counts } = OtlpBuckets::from_counts(total.bucket_counts());
    ExponentialHistogramDataPoint {
        attributes: key_values(attributes),
        start_time_unix_nano: point.start_unix_ns,
        time_unix_nano: end,
        count: total.waits,
        sum: Some(total.sum_ns as f64),
        scale: SCALE,
        zero_count,
        positive: Some(ExponentialCounts { offset, bucket_counts: counts }),
        max: point.has_max.then_some(total.max_ns as f64),
        zero_threshold: ZERO_THRESHOLD_NS as f64,
    }
}

fn waits(export: &mut Export) {
    let table = export.snapshot.series;
    let named = table.series().map(|(name, series)| (cgroup(name), series));
    let other = table.other().map(|series| (cgroup(OTHER), series));
    let all: Vec<(Attributes, &WaitSeries)> = named.chain(other).collect();
    let mut data_points = Vec::new();
    for (attributes, series) in &all {
        let value = StreamValue::Waits(Box::new(series.total().clone()));
        let Some(point) = export.point("wakelat.wait", attributes, series.number(), value) else { continue };
        if let StreamValue::Waits(total) = &point.value {
            data_points.push(histogram(attributes.clone(), total, &point, export.end_unix_ns));
        }
    }
    let aggregation_temporality = export.temporality();
    let data = Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality });
    export.metric("wakelat.wait", "ns", "Waits on a run queue, by the cgroup of the waiting task.", data);
    let causes = all.iter().flat_map(|(attributes, series)| {
        series.causes().map(|(cause, time)| {
            let mut attributes = attributes.clone();
            attributes.push(("cause", cause.name().to_owned()));
            (attributes, series.number(), time.ns)
        })
    });
    let help = "Time in waits, by cause; all causes add up to the sum of wakelat.wait.";
    export.sums("wakelat.wait_cause", "ns", help, causes);
    let now_s = export.snapshot.now_s;
    let recent = all.iter().map(|(attributes, series)| (attributes.clone(), int(series.recent_max_ns(now_s))));
    export.gauges("wakelat.wait_recent_max", "ns", "Longest wait that ended in the last 60 to 70 seconds.", recent);
    let classes = &export.snapshot.report.groups;
    let class = |name: &str| vec![("class", name.to_owned())];
    let counts = classes.iter().map(|group| (class(group.class.name()), 0, group.distribution.count().into()));
    let help = "Waits of the whole machine, by what the task did before.";
    export.sums("wakelat.class_waits", "{wait}", help, counts);
    let times = classes.iter().map(|group| (class(group.class.name()), 0, group.distribution.sum_ns()));
    export.sums("wakelat.class_wait", "ns", "Time in these waits.", times);
    export.gauge("wakelat.series", "{cgroup}", "Cgroups with series of their own.", table.len() as u64);
    export.gauge("wakelat.series_limit", "{cgroup}", "Maximum of wakelat.series.", table.max_series() as u64);
    let help = "Cgroups that were counted as (other) because of the limit.";
    export.gauge("wakelat.other_cgroups", "{cgroup}", help, table.merged_groups());
}

fn coverage(export: &mut Export) {
    let report = export.snapshot.report;
    export.sum("wakelat.measured", "ns", "Time measured.", report.duration_ns);
    if let Some(terms) = &report.coverage.switch_ins {
        let help = "Switches to a task other than idle; the sum of all wakelat.switch_ins.";
        export.sum("wakelat.switch_ins_seen", "{switch}", help, terms.seen);
        let results = terms.by_result().map(|(result, count)| (vec![("result", result.to_owned())], 0, count.into()));
        export.sums("wakelat.switch_ins", "{switch}", "Switches to a task, by what became of its wait.", results);
        let help = "Time in waits of the results unknown_start and after_unseen, as far as it is known.";
        export.sum("wakelat.unknown_wait", "ns", help, terms.unknown_ns);
        export.sum("wakelat.unseen_waits", "{wait}", "Waits that ended unseen, by the kernel's count.", terms.unseen);
        export.sum("wakelat.unseen_wait", "ns", "Time in these waits.", terms.unseen_ns);
        export.sum("wakelat.switches_to_idle", "{switch}", "Switches to the idle task.", terms.to_idle);
    }
    if let Some(missed) = report.coverage.missed {
        let help = "Events for which the kernel skipped a program.";
        export.sum("wakelat.program_runs_missed", "{event}", help, missed);
    }
    let lost = export.snapshot.series.pairs_lost();
    export.sum("wakelat.pairs_lost", "{part}", "Parts of waits whose pair of cgroups had no room.", lost);
}

fn cost(export: &mut Export) {
    let report = export.snapshot.report;
    if let Some(cost) = &report.overhead {
        export.sum("wakelat.program", "ns", "CPU time of the BPF programs.", cost.programs.ns);
        export.sum("wakelat.process_cpu", "ns", "CPU time of wakelat itself.", cost.tool_ns);
        export.gauge("wakelat.cpus", "{cpu}", "Online CPUs when wakelat started.", cost.cpus as u64);
        let ratio = cost.total_ns() as f64 / cost.capacity_ns(report.duration_ns).max(1) as f64;
        let help = "Share of all CPU time that measuring took since the start.";
        export.gauges("wakelat.overhead_ratio", "1", help, [(Vec::new(), Number::AsDouble(ratio))]);
    }
    if let Some(waited_ns) = report.reader_waited_ns {
        export.sum("wakelat.reader_wait", "ns", "Time that wakelat itself waited for a CPU.", waited_ns);
    }
    if let Some(counts) = &export.snapshot.exports {
        let results = counts.by_result().map(|(result, count)| (vec![("result", result.to_owned())], 0, count.into()));
        export.sums("wakelat.otlp_exports", "{export}", EXPORTS_HELP, results);
        export.sum("wakelat.otlp_rejected_points", "{point}", REJECTED_POINTS_HELP, counts.rejected_points);
        export.gauge("wakelat.otlp_queue", "{export}", QUEUE_HELP, counts.queued);
    }
    let kernel = vec![("kernel", report.kernel.clone()), ("version", export.snapshot.version.to_owned())];
    let help = "The version of wakelat, and the kernel's release.";
    export.gauges("wakelat.build_info", "1", help, [(kernel, Number::AsInt(1))]);
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        common::v1::{KeyValue, any_value::Value},
        metrics::v1::{Metric, metric::Data, number_data_point},
    };
    use prost::Message as _;

    use super::*;
    use crate::{
        report::Report,
        service::{constant_labels::ConstantLabels, export_counts::ExportCounts, series::SeriesTable},
        why::counted::summary::{CountedSummary, testing::one_neighbour},
    };

    /// A service that has had `times` the waits of an example, at second `times`.
    fn export(exporter: &mut OtlpExporter, series: &SeriesTable, times: u64) -> Vec<Metric> {
        let report = Report { start_unix_ns: 1_000, duration_ns: times * 1_000_000_000, ..Report::default() };
        let exports = Some(ExportCounts::default());
        let labels = &ConstantLabels::new([("zone".to_owned(), "a".to_owned())].into()).unwrap();
        let snapshot = MetricsSnapshot { series, report: &report, now_s: times, version: "1.0", labels, exports };
        let request = ExportMetricsServiceRequest::decode(&exporter.export(&snapshot)[..]).unwrap();
        let resource = &request.resource_metrics[0];
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert_eq!(["service.name", "zone"].map(|key| text(attributes, key)), ["wakelat", "a"]);
        resource.scope_metrics[0].metrics.clone()
    }

    fn exporter(temporality: Temporality) -> OtlpExporter {
        OtlpExporter::new(temporality, [("service.name".to_owned(), "wakelat".to_owned())])
    }

    fn text(attributes: &[KeyValue], key: &str) -> String {
        match attributes.iter().find(|each| each.key == key).and_then(|each| each.value.clone()?.value) {
            Some(Value::StringValue(text)) => text,
            _ => String::new(),
        }
    }

    fn data(metrics: &[Metric], name: &str) -> Data {
        metrics.iter().find(|metric| metric.name == name).and_then(|metric| metric.data.clone()).unwrap()
    }

    /// Cgroup, start, waits, sum, and waits in all buckets.
    fn histograms(metrics: &[Metric]) -> Vec<(String, u64, u64, f64, u64)> {
        let Data::ExponentialHistogram(histogram) = data(metrics, "wakelat.wait") else { panic!("{metrics:?}") };
        let point = |point: &opentelemetry_proto::tonic::metrics::v1::ExponentialHistogramDataPoint| {
            let in_buckets = point.zero_count + point.positive.as_ref().unwrap().bucket_counts.iter().sum::<u64>();
            let name = text(&point.attributes, "cgroup");
            (name, point.start_time_unix_nano, point.count, point.sum.unwrap(), in_buckets)
        };
        histogram.data_points.iter().map(point).collect()
    }

    fn causes_ns(metrics: &[Metric]) -> i64 {
        let Data::Sum(sum) = data(metrics, "wakelat.wait_cause") else { panic!("{metrics:?}") };
        assert!(sum.is_monotonic);
        let value = |value| if let Some(number_data_point::Value::AsInt(value)) = value { value } else { panic!() };
        sum.data_points.iter().map(|point| value(point.value)).sum()
    }

    fn table(summaries: &[&CountedSummary]) -> SeriesTable {
        let mut table = SeriesTable::new(10);
        summaries.iter().for_each(|summary| table.add(summary, 1));
        table
    }

    #[test]
    fn an_independent_decoder_reads_the_same_totals() {
        let once = one_neighbour();
        let metrics = export(&mut exporter(Temporality::Cumulative), &table(&[&once]), 1);
        let points = histograms(&metrics);
        let expected: Vec<_> = table(&[&once])
            .series()
            .map(|(name, series)| {
                let total = series.total();
                (name.to_owned(), 1_000, total.waits, total.sum_ns as f64, total.bucket_counts().iter().sum())
            })
            .collect();
        assert_eq!(points[..expected.len()], expected);
        assert_eq!(causes_ns(&metrics) as u128, once.all.sum_ns);
    }

    #[test]
    fn deltas_add_up_to_the_cumulative_totals() {
        let once = one_neighbour();
        let (mut delta, mut cumulative) = (exporter(Temporality::Delta), exporter(Temporality::Cumulative));
        let exports: Vec<_> =
            [1, 2, 2, 5].map(|times| export(&mut delta, &table(&vec![&once; times]), times as u64)).into();
        let total = export(&mut cumulative, &table(&[&once; 5]), 5);
        let sum = |of: fn(&[Metric]) -> f64| exports.iter().map(|metrics| of(metrics)).sum::<f64>();
        assert_eq!(sum(|metrics| causes_ns(metrics) as f64), causes_ns(&total) as f64);
        let waits = |metrics: &[Metric]| histograms(metrics).iter().map(|point| point.2 as f64).sum();
        assert_eq!(sum(waits), waits(&total));
        // Nothing was added between the second and the third.
        assert_eq!(histograms(&exports[2]), []);
        // Each begins where the previous one ended.
        assert!(histograms(&exports[3]).iter().all(|point| point.1 == 1_000 + 2_000_000_000), "{exports:?}");
    }

    #[test]
    fn a_series_that_ended_and_comes_back_begins_again() {
        let once = one_neighbour();
        for temporality in [Temporality::Cumulative, Temporality::Delta] {
            let mut exporter = exporter(temporality);
            let mut series = table(&[&once, &once]);
            let before = histograms(&export(&mut exporter, &series, 1));
            series.end_vanished(1_000, |_| false);
            assert!(series.is_empty());
            series.add(&once, 1_001);
            let after = histograms(&export(&mut exporter, &series, 1_001));
            let named = |points: &[(String, u64, u64, f64, u64)]| points[0].clone();
            assert_eq!((named(&after).1, named(&after).2 * 2), (1_000_001_000, named(&before).2), "{temporality:?}");
        }
    }
}
