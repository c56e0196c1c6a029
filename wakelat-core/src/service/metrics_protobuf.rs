//! Metrics as protobuf messages of Prometheus (`io.prometheus.client.MetricFamily`, client_model's `metrics.proto`), the
//! only format that has native histograms. Each message follows its length as a varint.

use prost::Message;

use super::{
    exemplar::WaitExemplar,
    exponential::{ExponentialBuckets, SCHEMA, ZERO_NS},
    metric_families::{MetricsSnapshot, classic_buckets, each_family},
    metric_family::{FamilyKind, FamilyMetric, MetricFamily, MetricNumber, MetricUnit, MetricValue},
};
use crate::why::counted::GroupTotal;

/// Renders all metrics. Times are seconds as doubles, which have whole ns up to 104 days.
pub fn render(snapshot: &MetricsSnapshot) -> Vec<u8> {
    let constant: Vec<proto::LabelMessage> =
        snapshot.labels.iter().map(|(name, value)| proto::LabelMessage::new(name, value)).collect();
    let mut out = Vec::new();
    // A vector grows, so there is always room.
    each_family(snapshot, |family| _ = message(&family, &constant).encode_length_delimited(&mut out));
    out
}

fn message(family: &MetricFamily, constant: &[proto::LabelMessage]) -> proto::FamilyMessage {
    let MetricFamily { name, kind, unit, help, metrics } = family;
    let (kind, suffix) = match kind {
        FamilyKind::Counter => (proto::MetricType::Counter, "_total"),
        FamilyKind::Gauge => (proto::MetricType::Gauge, ""),
        FamilyKind::Histogram => (proto::MetricType::Histogram, ""),
        FamilyKind::Summary => (proto::MetricType::Summary, ""),
    };
    let unit = if *unit == MetricUnit::Seconds { "seconds" } else { "" };
    proto::FamilyMessage {
        name: format!("{name}{suffix}"),
        help: (*help).to_owned(),
        kind: kind.into(),
        metrics: metrics.iter().map(|metric| metric_message(metric, kind, constant)).collect(),
        unit: unit.to_owned(),
    }
}

fn metric_message(
    metric: &FamilyMetric,
    kind: proto::MetricType,
    constant: &[proto::LabelMessage],
) -> proto::MetricMessage {
    let own = metric.labels.iter().map(|(name, value)| (*name, value.as_ref())).chain(metric.label);
    let labels =
        own.map(|(name, value)| proto::LabelMessage::new(name, value)).chain(constant.iter().cloned()).collect();
    let mut message = proto::MetricMessage { labels, ..proto::MetricMessage::default() };
    match &metric.value {
        MetricValue::Number(number) if kind == proto::MetricType::Counter => {
            message.counter = Some(proto::CounterMessage { value: double(*number) });
        }
        MetricValue::Number(number) => message.gauge = Some(proto::GaugeMessage { value: double(*number) }),
        MetricValue::Summary { count, sum_ns } => {
            message.summary = Some(proto::SummaryMessage { count: *count, sum: seconds(*sum_ns) });
        }
        MetricValue::Histogram(total, exemplar) => {
            message.histogram = Some(histogram_message(total, exemplar.as_ref()));
        }
    }
    message
}

/// Prometheus takes the exemplars of the classic buckets also for the native histogram.
fn histogram_message(total: &GroupTotal, exemplar: Option<&WaitExemplar>) -> proto::HistogramMessage {
    let mut exemplar = exemplar;
    let bucket = |(last_ns, count): (u64, u64)| {
        let own = exemplar.take_if(|exemplar| exemplar.latency_ns <= last_ns);
        let upper = if last_ns == u64::MAX { f64::INFINITY } else { seconds(last_ns.into()) };
        proto::BucketMessage { count, upper, exemplar: own.map(exemplar_message) }
    };
    let buckets = classic_buckets(total).chain([(u64::MAX, total.waits)]).map(bucket).collect();
    let exponential = ExponentialBuckets::of(total);
    let (spans, deltas) = spans(&exponential);
    proto::HistogramMessage {
        count: total.waits,
        sum: seconds(total.sum_ns),
        buckets,
        schema: SCHEMA,
        zero_threshold: seconds(ZERO_NS.into()),
        zero_count: exponential.zero,
        spans,
        deltas,
    }
}

fn exemplar_message(exemplar: &WaitExemplar) -> proto::ExemplarMessage {
    /// Nanoseconds of a second.
    const SECOND: u64 = 1_000_000_000;
    let WaitExemplar { latency_ns, at_unix_ns, labels } = exemplar;
    proto::ExemplarMessage {
        labels: labels.iter().map(|(name, value)| proto::LabelMessage::new(name, value)).collect(),
        value: seconds((*latency_ns).into()),
        timestamp: Some(proto::TimestampMessage {
            seconds: (at_unix_ns / SECOND) as i64,
            nanos: (at_unix_ns % SECOND) as i32,
        }),
    }
}

/// The buckets as Prometheus encodes them: runs of consecutive indices, each with the gap before it, and the difference of
/// each count from the one before.
fn spans(exponential: &ExponentialBuckets) -> (Vec<proto::SpanMessage>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<proto::SpanMessage>, Vec<i64>) = Default::default();
    let (mut next, mut before) = (0, 0);
    for (index, count) in &exponential.buckets {
        match spans.last_mut() {
            Some(span) if *index == next => span.length += 1,
            _ => spans.push(proto::SpanMessage { offset: index - next, length: 1 }),
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        (next, before) = (index + 1, count);
    }
    (spans, deltas)
}

fn double(number: MetricNumber) -> f64 {
    match number {
        MetricNumber::Count(count) => count as f64,
        MetricNumber::Ns(ns) => seconds(ns),
        MetricNumber::Ratio(ratio) => ratio,
    }
}

fn seconds(ns: u128) -> f64 {
    ns as f64 / 1e9
}

/// The messages, with the fields that wakelat uses.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct LabelMessage {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    impl LabelMessage {
        pub fn new(name: &str, value: &str) -> Self {
            Self { name: name.to_owned(), value: value.to_owned() }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum MetricType {
        Counter = 0,
        Gauge = 1,
        Summary = 2,
        Histogram = 4,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct CounterMessage {
        #[prost(double, tag = "1")]
        pub value: f64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct GaugeMessage {
        #[prost(double, tag = "1")]
        pub value: f64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct SummaryMessage {
        #[prost(uint64, tag = "1")]
        pub count: u64,
        #[prost(double, tag = "2")]
        pub sum: f64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct BucketMessage {
        #[prost(uint64, tag = "1")]
        pub count: u64,
        #[prost(double, tag = "2")]
        pub upper: f64,
        #[prost(message, optional, tag = "3")]
        pub exemplar: Option<ExemplarMessage>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ExemplarMessage {
        #[prost(message, repeated, tag = "1")]
        pub labels: Vec<LabelMessage>,
        #[prost(double, tag = "2")]
        pub value: f64,
        #[prost(message, optional, tag = "3")]
        pub timestamp: Option<TimestampMessage>,
    }

    /// `google.protobuf.Timestamp`.
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct TimestampMessage {
        #[prost(int64, tag = "1")]
        pub seconds: i64,
        #[prost(int32, tag = "2")]
        pub nanos: i32,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct SpanMessage {
        #[prost(sint32, tag = "1")]
        pub offset: i32,
        #[prost(uint32, tag = "2")]
        pub length: u32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct HistogramMessage {
        #[prost(uint64, tag = "1")]
        pub count: u64,
        #[prost(double, tag = "2")]
        pub sum: f64,
        #[prost(message, repeated, tag = "3")]
        pub buckets: Vec<BucketMessage>,
        #[prost(sint32, tag = "5")]
        pub schema: i32,
        #[prost(double, tag = "6")]
        pub zero_threshold: f64,
        #[prost(uint64, tag = "7")]
        pub zero_count: u64,
        #[prost(message, repeated, tag = "12")]
        pub spans: Vec<SpanMessage>,
        #[prost(sint64, repeated, tag = "13")]
        pub deltas: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MetricMessage {
        #[prost(message, repeated, tag = "1")]
        pub labels: Vec<LabelMessage>,
        #[prost(message, optional, tag = "2")]
        pub gauge: Option<GaugeMessage>,
        #[prost(message, optional, tag = "3")]
        pub counter: Option<CounterMessage>,
        #[prost(message, optional, tag = "4")]
        pub summary: Option<SummaryMessage>,
        #[prost(message, optional, tag = "7")]
        pub histogram: Option<HistogramMessage>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FamilyMessage {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub help: String,
        #[prost(enumeration = "MetricType", tag = "3")]
        pub kind: i32,
        #[prost(message, repeated, tag = "4")]
        pub metrics: Vec<MetricMessage>,
        #[prost(string, tag = "5")]
        pub unit: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{constant_labels::ConstantLabels, metric_families::testing::with_example};

    #[test]
    fn spans_and_differences_decode_to_the_same_buckets() {
        let buckets = vec![(-40, 3), (-39, 5), (-35, 1), (0, 7), (1, 7)];
        let (spans, deltas) = spans(&ExponentialBuckets { zero: 0, buckets: buckets.clone() });
        assert_eq!(spans.len(), 3);
        let (mut index, mut count, mut deltas) = (0, 0, deltas.into_iter());
        let mut decoded = Vec::new();
        for span in spans {
            index += span.offset;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                decoded.push((index, count as u64));
                index += 1;
            }
        }
        assert_eq!(decoded, buckets);
    }

    #[test]
    fn every_family_of_the_text_is_a_message_with_all_labels() {
        let labels = ConstantLabels::new([("zone".to_owned(), "a".to_owned())].into()).unwrap();
        let (bytes, names) = with_example(&labels, |snapshot| {
            let mut names = Vec::new();
            each_family(snapshot, |family| names.push(family.name));
            (render(snapshot), names)
        });
        let mut rest = bytes.as_slice();
        let mut decoded = Vec::new();
        while !rest.is_empty() {
            decoded.push(proto::FamilyMessage::decode_length_delimited(&mut rest).unwrap());
        }
        assert_eq!(decoded.iter().map(|family| family.name.trim_end_matches("_total")).collect::<Vec<_>>(), names);
        let zone = proto::LabelMessage::new("zone", "a");
        assert!(decoded.iter().flat_map(|family| &family.metrics).all(|metric| metric.labels.contains(&zone)));
        let histogram = decoded[0].metrics[0].histogram.as_ref().unwrap();
        assert_eq!((histogram.count, histogram.sum), (2, 0.010_09));
        assert_eq!(histogram.buckets.last().map(|bucket| bucket.count), Some(2));
        assert_eq!(histogram.deltas.len(), 2);
        let exemplars: Vec<_> =
            histogram.buckets.iter().filter_map(|bucket| Some((bucket.upper, bucket.exemplar.as_ref()?))).collect();
        let [(upper, exemplar)] = exemplars[..] else { panic!("{exemplars:?}") };
        assert!(exemplar.value <= upper && 4.0 * exemplar.value > upper, "{exemplar:?} {upper}");
        assert_eq!(exemplar.timestamp, Some(proto::TimestampMessage { seconds: 1, nanos: 500 }));
    }
}
