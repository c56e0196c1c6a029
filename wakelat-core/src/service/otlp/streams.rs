//! The state that a stream of points needs between two exports: when it began, and its last value.

use std::collections::HashMap;

use super::super::cgroup_labels::Labels;
use crate::why::counted::GroupTotal;

/// What identifies a stream: its metric and its labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamKey {
    pub metric: String,
    pub labels: Labels,
    pub label: Option<(&'static str, &'static str)>,
}

/// A value that only grows while its series lasts.
#[derive(Clone, Debug)]
pub(super) enum StreamValue {
    Sum(u128),
    Waits(Box<GroupTotal>),
}

#[derive(Debug)]
struct Stream {
    /// The number of its series: a cgroup that is removed and comes back has another one.
    series: u64,
    start_unix_ns: u64,
    last: StreamValue,
    export: u64,
}

/// A point without its attributes.
pub(super) struct StreamPoint {
    pub start_unix_ns: u64,
    pub value: StreamValue,
    /// Whether the maximum of [`StreamValue::Waits`] is that of these very waits.
    pub has_max: bool,
}

/// All streams of the last export.
#[derive(Debug, Default)]
pub(super) struct Streams {
    by_key: HashMap<StreamKey, Stream>,
    /// The number of the current export.
    export: u64,
    /// Until when the exports before the current one count.
    previous_end_unix_ns: Option<u64>,
}

impl Streams {
    /// Until when the previous export counted, or since when the first one counts.
    pub fn previous_end_unix_ns(&self, began_unix_ns: u64) -> u64 {
        self.previous_end_unix_ns.unwrap_or(began_unix_ns)
    }

    /// The point of a stream with this cumulative value, in an export of everything since `began_unix_ns`. Under `delta`,
    /// `None` if nothing was added. `since_unix_ns`: since when the value is counted, if that can be before the end of
    /// the previous export, which did not have the stream yet.
    pub fn point(
        &mut self,
        key: StreamKey,
        series: u64,
        value: StreamValue,
        since_unix_ns: Option<u64>,
        began_unix_ns: u64,
        delta: bool,
    ) -> Option<StreamPoint> {
        let previous_end_unix_ns = self.previous_end_unix_ns(began_unix_ns);
        let known = self.by_key.get(&key).filter(|stream| stream.series == series);
        // Unless it is counted since before, a stream that the previous export did not have was 0 at its end.
        let first_unix_ns = since_unix_ns.unwrap_or(previous_end_unix_ns).min(previous_end_unix_ns);
        let start_unix_ns = known.map_or(first_unix_ns, |stream| stream.start_unix_ns);
        let point = if delta {
            let (value, has_max) = difference(&value, known.map(|stream| &stream.last));
            let is_empty = match &value {
                StreamValue::Sum(sum) => *sum == 0,
                StreamValue::Waits(total) => total.waits == 0,
            };
            let start_unix_ns = known.map_or(first_unix_ns, |_| previous_end_unix_ns);
            (!is_empty).then_some(StreamPoint { start_unix_ns, value, has_max })
        } else {
            Some(StreamPoint { start_unix_ns, value: value.clone(), has_max: true })
        };
        self.by_key.insert(key, Stream { series, start_unix_ns, last: value, export: self.export });
        point
    }

    /// Ends an export of everything until `end_unix_ns`. Forgets the streams that it did not have.
    pub fn end_export(&mut self, end_unix_ns: u64) {
        let export = self.export;
        self.by_key.retain(|_, stream| stream.export == export);
        self.export += 1;
        self.previous_end_unix_ns = Some(end_unix_ns);
    }
}

/// What has been added to `last`, and whether the maximum of waits is that of these.
fn difference(value: &StreamValue, last: Option<&StreamValue>) -> (StreamValue, bool) {
    match (value, last) {
        (StreamValue::Sum(value), Some(StreamValue::Sum(last))) => {
            (StreamValue::Sum(value.saturating_sub(*last)), true)
        }
        (StreamValue::Waits(value), Some(StreamValue::Waits(last))) => {
            (StreamValue::Waits(Box::new(value.since(last))), value.max_ns > last.max_ns)
        }
        _ => (value.clone(), true),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        metrics::v1::{NumberDataPoint, metric::Data, number_data_point},
    };
    use prost::Message as _;

    use crate::{
        report::Report,
        service::{
            constant_labels::ConstantLabels,
            metric_families::testing,
            neighbours::NeighbourTable,
            otlp::{OtlpExporter, Temporality},
            series::SeriesTable,
        },
        why::counted::{
            CauseTime,
            summary::{CountedCause, PairCauses},
        },
    };

    const SECOND: u64 = 1_000_000_000;

    /// A service that began at second 1,000 reads the tables after `second` seconds: 60 ms more for a pair of cgroups.
    fn read(neighbours: &mut NeighbourTable, second: u64) {
        let time = CauseTime { ns: 60_000_000, waits: 1 };
        let pair = PairCauses { waiting: "/a".into(), running: "/b".into(), cause: CountedCause::OtherGroups, time };
        neighbours.add(&[pair], second, |_| true);
        neighbours.covered(second * SECOND);
    }

    /// The points of the pairs in an export after `second` seconds: start and end in seconds, and their value in ms.
    fn export(exporter: &mut OtlpExporter, neighbours: &NeighbourTable, second: u64) -> Vec<(u64, u64, i64)> {
        let report = Report { start_unix_ns: 1_000 * SECOND, duration_ns: second * SECOND, ..Report::default() };
        let (series, labels) = (SeriesTable::new(10), ConstantLabels::default());
        let encoded = exporter.export(&testing::plain(&series, neighbours, &report, &labels));
        let request = ExportMetricsServiceRequest::decode(&encoded[..]).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let behind = metrics.iter().find(|metric| metric.name == "wakelat.wait_behind").unwrap();
        let Some(Data::Sum(sum)) = &behind.data else { panic!("{behind:?}") };
        let point = |point: &NumberDataPoint| {
            let Some(number_data_point::Value::AsInt(ns)) = point.value else { panic!("{point:?}") };
            (point.start_time_unix_nano / SECOND, point.time_unix_nano / SECOND, ns / 1_000_000)
        };
        sum.data_points.iter().map(point).collect()
    }

    #[test]
    fn the_first_point_of_a_pair_begins_when_its_time_is_counted() {
        let last = [(Temporality::Cumulative, (1_005, 1_020, 180)), (Temporality::Delta, (1_015, 1_020, 60))];
        for (temporality, last) in last {
            let mut exporter = OtlpExporter::new(temporality, [("service.name".to_owned(), "wakelat".to_owned())]);
            let mut neighbours = NeighbourTable::default();
            neighbours.covered(5 * SECOND);
            read(&mut neighbours, 10);
            // Too little time for a series.
            assert_eq!(export(&mut exporter, &neighbours, 10), []);
            read(&mut neighbours, 15);
            assert_eq!(export(&mut exporter, &neighbours, 15), [(1_005, 1_015, 120)], "{temporality:?}");
            read(&mut neighbours, 20);
            assert_eq!(export(&mut exporter, &neighbours, 20), [last], "{temporality:?}");
        }
    }
}
