//! The totals as a request of OTLP: metrics in protobuf, as `/v1/metrics` takes them.
//!
//! Times are whole ns, so that every sum is exact: a double in seconds is not. The names are those of the text formats
//! without their units.

mod buckets;
mod messages;
mod partial_success;
mod streams;
mod temporality;

use prost::Message as _;

use self::{
    buckets::{OtlpBuckets, SCALE, ZERO_THRESHOLD_NS},
    messages::{
        AnyValue, CUMULATIVE, DELTA, Data, ExemplarPoint, ExponentialCounts, ExponentialHistogram,
        ExponentialHistogramDataPoint, ExportMetricsServiceRequest, Gauge, InstrumentationScope, Metric, Number,
        NumberDataPoint, OtlpAttribute, Resource, ResourceMetrics, ScopeMetrics, SumMetric,
    },
    streams::{StreamKey, StreamPoint, StreamValue, Streams},
};
pub use self::{partial_success::PartialSuccess, temporality::Temporality};
use super::exemplar::WaitExemplar;
use super::metric_families::{LAST_READ_TIME, MetricsSnapshot, START_TIME, each_family};
use super::metric_family::{FamilyKind, FamilyMetric, MetricFamily, MetricNumber, MetricUnit, MetricValue};
use super::pod_labels::POD_NAME_LABELS;
use crate::why::counted::GroupTotal;

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
        let began_unix_ns = snapshot.report.start_unix_ns;
        // Also after the clock was set back, no point ends before it begins.
        let end_unix_ns = snapshot.end_unix_ns().max(self.streams.previous_end_unix_ns(began_unix_ns));
        let mut export = Export { exporter: self, began_unix_ns, end_unix_ns, metrics: Vec::new() };
        // Each point has these instants itself.
        each_family(snapshot, |family| {
            if ![START_TIME, LAST_READ_TIME].contains(&family.name) {
                export.family(&family);
            }
        });
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

fn attribute(key: &str, value: String) -> OtlpAttribute {
    OtlpAttribute { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value) }) }
}

/// The semantic conventions have other names for some labels.
fn attribute_name(label: &'static str) -> &'static str {
    match label {
        "container" => "container.id",
        "pod" => "k8s.pod.uid",
        "namespace" => "k8s.namespace.name",
        "pod_name" => "k8s.pod.name",
        "container_name" => "k8s.container.name",
        "tid" => "thread.id",
        "comm" => "thread.name",
        _ => label,
    }
}

/// `wakelat_NAME_seconds` is named `wakelat.NAME`.
fn metric_name(family: &str) -> String {
    family.trim_end_matches("_seconds").replacen('_', ".", 1)
}

fn metric_unit(unit: MetricUnit) -> String {
    match unit {
        MetricUnit::Seconds => "ns".to_owned(),
        MetricUnit::Ratio => "1".to_owned(),
        MetricUnit::Number(one) => format!("{{{one}}}"),
    }
}

/// A request that grows by metrics.
struct Export<'a> {
    exporter: &'a mut OtlpExporter,
    began_unix_ns: u64,
    end_unix_ns: u64,
    metrics: Vec<Metric>,
}

impl Export<'_> {
    fn temporality(&self) -> i32 {
        if self.exporter.temporality == Temporality::Delta { DELTA } else { CUMULATIVE }
    }

    /// Adds a family. A summary becomes two metrics.
    fn family(&mut self, family: &MetricFamily) {
        let name = metric_name(family.name);
        let unit = metric_unit(family.unit);
        match family.kind {
            FamilyKind::Counter => {
                let values = family.metrics.iter().filter_map(|metric| Some((metric, whole(&metric.value)?)));
                self.sums(name, unit, family.help, values);
            }
            FamilyKind::Gauge => self.gauges(name, unit, family),
            FamilyKind::Histogram => self.histograms(name, unit, family),
            FamilyKind::Summary => {
                let summaries = family.metrics.iter().filter_map(|metric| match metric.value {
                    MetricValue::Summary { count, sum_ns } => Some((metric, count, sum_ns)),
                    _ => None,
                });
                let counts = summaries.clone().map(|(metric, count, _)| (metric, count.into()));
                self.sums(format!("{name}s"), "{wait}".to_owned(), family.help, counts);
                self.sums(name, unit, "Time in these waits.", summaries.map(|(metric, _, sum_ns)| (metric, sum_ns)));
            }
        }
    }

    fn metric(&mut self, name: String, unit: String, help: &str, data: Data) {
        self.metrics.push(Metric { name, description: help.to_owned(), unit, data: Some(data) });
    }

    fn attributes(metric: &FamilyMetric) -> Vec<OtlpAttribute> {
        let own = metric.labels.iter().map(|(name, value)| (*name, value.as_ref())).chain(metric.label);
        own.map(|(name, value)| attribute(attribute_name(name), value.to_owned())).collect()
    }

    fn point(&mut self, name: &str, metric: &FamilyMetric, value: StreamValue) -> Option<StreamPoint> {
        let delta = self.exporter.temporality == Temporality::Delta;
        // Names become known while a stream lasts; its deltas must not begin again.
        let labels = metric.labels.iter().filter(|(label, _)| !POD_NAME_LABELS.contains(label)).cloned().collect();
        let key = StreamKey { metric: name.to_owned(), labels, label: metric.label };
        self.exporter.streams.point(key, metric.series, value, metric.since_unix_ns, self.began_unix_ns, delta)
    }

    /// Adds a monotonic sum.
    fn sums<'m>(
        &mut self,
        name: String,
        unit: String,
        help: &str,
        values: impl Iterator<Item = (&'m FamilyMetric<'m>, u128)>,
    ) {
        let mut data_points = Vec::new();
        for (metric, value) in values {
            let Some(point) = self.point(&name, metric, StreamValue::Sum(value)) else { continue };
            let StreamValue::Sum(value) = point.value else { continue };
            data_points.push(NumberDataPoint {
                attributes: Self::attributes(metric),
                start_time_unix_nano: point.start_unix_ns,
                time_unix_nano: self.end_unix_ns,
                value: Some(Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX))),
            });
        }
        let aggregation_temporality = self.temporality();
        let data = Data::Sum(SumMetric { data_points, aggregation_temporality, is_monotonic: true });
        self.metric(name, unit, help, data);
    }

    fn gauges(&mut self, name: String, unit: String, family: &MetricFamily) {
        let point = |metric: &FamilyMetric| NumberDataPoint {
            attributes: Self::attributes(metric),
            start_time_unix_nano: 0,
            time_unix_nano: self.end_unix_ns,
            value: Some(match metric.value {
                MetricValue::Number(MetricNumber::Ratio(ratio)) => Number::AsDouble(ratio),
                _ => Number::AsInt(i64::try_from(whole(&metric.value).unwrap_or(0)).unwrap_or(i64::MAX)),
            }),
        };
        let data_points = family.metrics.iter().map(point).collect();
        self.metric(name, unit, family.help, Data::Gauge(Gauge { data_points }));
    }

    fn histograms(&mut self, name: String, unit: String, family: &MetricFamily) {
        let mut data_points = Vec::new();
        for metric in &family.metrics {
            let MetricValue::Histogram(total, exemplar) = &metric.value else { continue };
            let Some(point) = self.point(&name, metric, StreamValue::Waits(Box::new((*total).clone()))) else {
                continue;
            };
            if let StreamValue::Waits(total) = &point.value {
                let exemplar = exemplar.as_ref().filter(|exemplar| exemplar.at_unix_ns >= point.start_unix_ns);
                let exemplars = exemplar.map(exemplar_point).into_iter().collect();
                let attributes = Self::attributes(metric);
                data_points.push(histogram(attributes, total, &point, exemplars, self.end_unix_ns));
            }
        }
        let aggregation_temporality = self.temporality();
        let data = Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality });
        self.metric(name, unit, family.help, data);
    }
}

/// A count, or a time in ns.
fn whole(value: &MetricValue) -> Option<u128> {
    match value {
        MetricValue::Number(MetricNumber::Count(count)) => Some((*count).into()),
        MetricValue::Number(MetricNumber::Ns(ns)) => Some(*ns),
        _ => None,
    }
}

fn exemplar_point(exemplar: &WaitExemplar) -> ExemplarPoint {
    let attributes = exemplar.labels.iter().map(|(name, value)| attribute(attribute_name(name), value.to_string()));
    ExemplarPoint {
        filtered_attributes: attributes.collect(),
        time_unix_nano: exemplar.at_unix_ns,
        as_int: i64::try_from(exemplar.latency_ns).unwrap_or(i64::MAX),
    }
}

fn histogram(
    attributes: Vec<OtlpAttribute>,
    total: &GroupTotal,
    point: &StreamPoint,
    exemplars: Vec<ExemplarPoint>,
    end: u64,
) -> ExponentialHistogramDataPoint {
    let OtlpBuckets { zero_count, offset, counts } = OtlpBuckets::from_counts(total.bucket_counts());
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: point.start_unix_ns,
        time_unix_nano: end,
        count: total.waits,
        sum: Some(total.sum_ns as f64),
        scale: SCALE,
        zero_count,
        positive: Some(ExponentialCounts { offset, bucket_counts: counts }),
        exemplars,
        max: point.has_max.then_some(total.max_ns as f64),
        zero_threshold: ZERO_THRESHOLD_NS as f64,
    }
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
        service::{
            constant_labels::ConstantLabels,
            export_counts::ExportCounts,
            metric_families::testing,
            neighbours::NeighbourTable,
            node_pods::testing::{UID, path, pods},
            pod_labels::{KubeletResult, PodLabelTable},
            series::SeriesTable,
        },
        why::counted::summary::{CountedSummary, testing::one_neighbour},
    };

    /// A service that has had `times` the waits of an example, at second `times`.
    fn export(exporter: &mut OtlpExporter, series: &SeriesTable, times: u64) -> Vec<Metric> {
        export_with(exporter, series, times, None)
    }

    fn export_with(
        exporter: &mut OtlpExporter,
        series: &SeriesTable,
        times: u64,
        pods: Option<&PodLabelTable>,
    ) -> Vec<Metric> {
        let report = Report { start_unix_ns: 1_000, duration_ns: times * 1_000_000_000, ..Report::default() };
        let exports = Some(ExportCounts::default());
        let labels = &ConstantLabels::new([("zone".to_owned(), "a".to_owned())].into()).unwrap();
        let neighbours = &NeighbourTable::default();
        let snapshot =
            MetricsSnapshot { now_s: times, exports, pods, ..testing::plain(series, neighbours, &report, labels) };
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
                let in_buckets = total.bucket_counts().map(|(_, count)| count).sum();
                (name.to_owned(), 1_000, total.waits, total.sum_ns as f64, in_buckets)
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

    #[test]
    fn a_pod_whose_name_becomes_known_is_not_counted_again() {
        let mut once = one_neighbour();
        once.groups[0].name = Some(path(UID, 'a').into());
        let mut names = PodLabelTable::default();
        names.add([path(UID, 'a').as_str()]);
        let mut exporter = exporter(Temporality::Delta);
        let mut series = table(&[&once]);
        export_with(&mut exporter, &series, 1, Some(&names));
        names.answered(KubeletResult::Success, Some(pods()));
        series.add(&once, 2);
        let metrics = export_with(&mut exporter, &series, 2, Some(&names));
        let Data::ExponentialHistogram(histogram) = data(&metrics, "wakelat.wait") else { panic!("{metrics:?}") };
        let of_pod = |attributes: &[KeyValue]| text(attributes, "k8s.pod.name") == "web-0";
        let point = histogram.data_points.iter().find(|point| of_pod(&point.attributes)).unwrap();
        assert_eq!(point.count, once.groups[0].total.waits);
        let keys = ["k8s.namespace.name", "k8s.container.name", "k8s.pod.uid"];
        assert_eq!(keys.map(|key| text(&point.attributes, key)), ["shop", "web", UID]);
    }
}
