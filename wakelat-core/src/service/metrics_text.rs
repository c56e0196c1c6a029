//! Metrics in the text formats of Prometheus: OpenMetrics 1.0 and the older format 0.0.4.
//!
//! Times are exact: seconds with nine decimals.

use std::fmt::{self, Display, Write as _};

use super::{
    constant_labels::EscapedValue,
    exemplar::WaitExemplar,
    metric_families::{MetricsSnapshot, classic_buckets, each_family},
    metric_family::{FamilyKind, FamilyMetric, MetricFamily, MetricNumber, MetricUnit, MetricValue},
};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

/// Renders all metrics.
pub fn render(snapshot: &MetricsSnapshot, format: TextFormat) -> String {
    let constant = snapshot.labels.to_string();
    let mut text = MetricsText { out: String::new(), format, constant, labels: String::new() };
    each_family(snapshot, |family| text.family(&family));
    if format == TextFormat::OpenMetrics {
        text.out.push_str("# EOF\n");
    }
    text.out
}

/// ns as seconds, exactly.
struct Seconds(u128);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Almost always: a division of 128 bits is slow.
        match u64::try_from(self.0) {
            Ok(ns) => write!(f, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
            Err(_) => write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000),
        }
    }
}

impl Display for MetricNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Ns(ns) => Seconds(*ns).fmt(f),
            Self::Ratio(ratio) => ratio.fmt(f),
        }
    }
}

/// What follows the value of a bucket in OpenMetrics: nothing, or the exemplar.
struct OptionalExemplar<'a>(Option<&'a WaitExemplar>);

impl Display for OptionalExemplar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(WaitExemplar { latency_ns, at_unix_ns, labels }) = self.0 else { return Ok(()) };
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", EscapedValue(value))).collect();
        let [value, at] = [*latency_ns, *at_unix_ns].map(|ns| Seconds(ns.into()));
        write!(f, " # {{{}}} {value} {at}", labels.join(","))
    }
}

/// A bucket, as the label `le` has it.
enum Bucket {
    /// Of values up to so many ns.
    UpTo(u64),
    /// Of all values.
    All,
}

impl Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpTo(ns) => Seconds((*ns).into()).fmt(f),
            Self::All => f.write_str("+Inf"),
        }
    }
}

/// Text that grows by families.
struct MetricsText {
    out: String,
    format: TextFormat,
    /// The labels that all series have.
    constant: String,
    /// The labels of the metric that is being added: `name="value"` pairs, separated by commas.
    labels: String,
}

impl MetricsText {
    fn family(&mut self, MetricFamily { name, kind, unit, help, metrics }: &MetricFamily) {
        let word = match kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
            FamilyKind::Summary => "summary",
        };
        let is_open = self.format == TextFormat::OpenMetrics;
        let suffix = if *kind == FamilyKind::Counter { "_total" } else { "" };
        let of_family = if is_open { "" } else { suffix };
        _ = writeln!(self.out, "# HELP {name}{of_family} {help}\n# TYPE {name}{of_family} {word}");
        if is_open && *unit == MetricUnit::Seconds {
            _ = writeln!(self.out, "# UNIT {name} seconds");
        }
        metrics.iter().for_each(|metric| self.metric(name, suffix, metric));
    }

    fn metric(&mut self, name: &str, suffix: &str, metric: &FamilyMetric) {
        self.labels.clear();
        for (name, value) in metric.labels.iter().map(|(name, value)| (*name, value.as_ref())).chain(metric.label) {
            let separator = if self.labels.is_empty() { "" } else { "," };
            _ = write!(self.labels, "{separator}{name}=\"{}\"", EscapedValue(value));
        }
        match &metric.value {
            MetricValue::Number(number) => self.sample(name, suffix, None, number),
            MetricValue::Summary { count, sum_ns } => self.count_and_sum(name, *count, *sum_ns),
            MetricValue::Histogram(total, exemplar) => {
                let mut exemplar = exemplar.as_ref().filter(|_| self.format == TextFormat::OpenMetrics);
                for (last_ns, count) in classic_buckets(total) {
                    let own = OptionalExemplar(exemplar.take_if(|exemplar| exemplar.latency_ns <= last_ns));
                    self.sample(name, "_bucket", Some(Bucket::UpTo(last_ns)), format_args!("{count}{own}"));
                }
                let all = format_args!("{}{}", total.waits, OptionalExemplar(exemplar));
                self.sample(name, "_bucket", Some(Bucket::All), all);
                self.count_and_sum(name, total.waits, total.sum_ns);
            }
        }
    }

    fn count_and_sum(&mut self, name: &str, count: u64, sum_ns: u128) {
        self.sample(name, "_sum", None, Seconds(sum_ns));
        self.sample(name, "_count", None, count);
    }

    /// Adds a sample of the metric with the labels `self.labels`, or of a bucket of it.
    fn sample(&mut self, name: &str, suffix: &str, bucket: Option<Bucket>, value: impl Display) {
        let Self { out, constant, labels, .. } = self;
        out.push_str(name);
        out.push_str(suffix);
        let name_ends_at = out.len();
        let begin_label = |out: &mut String| out.push(if out.len() == name_ends_at { '{' } else { ',' });
        if !labels.is_empty() {
            begin_label(out);
            out.push_str(labels);
        }
        if let Some(bucket) = bucket {
            begin_label(out);
            _ = write!(out, "le=\"{bucket}\"");
        }
        if !constant.is_empty() {
            begin_label(out);
            out.push_str(constant);
        }
        if out.len() > name_ends_at {
            out.push('}');
        }
        _ = writeln!(out, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        service::{constant_labels::ConstantLabels, metric_families::testing::with_example},
        wait::Comm,
    };

    fn text(format: TextFormat) -> String {
        text_with(format, &ConstantLabels::default())
    }

    fn text_with(format: TextFormat, labels: &ConstantLabels) -> String {
        with_example(labels, |snapshot| render(snapshot, format))
    }

    #[test]
    fn every_sample_has_the_constant_labels() {
        let labels = ConstantLabels::new([("zone".to_owned(), "a".to_owned())].into()).unwrap();
        let text = text_with(TextFormat::OpenMetrics, &labels);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.iter().all(|sample| sample.contains("zone=\"a\"} ")), "{text}");
        let without: Vec<String> =
            samples.iter().map(|sample| sample.replace(",zone=\"a\"", "").replace("{zone=\"a\"}", "")).collect();
        let plain = self::text(TextFormat::OpenMetrics);
        assert_eq!(without, plain.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>());
    }

    #[test]
    fn openmetrics() {
        insta::assert_snapshot!(text(TextFormat::OpenMetrics));
    }

    #[test]
    fn the_older_format_has_the_same_samples_without_exemplars() {
        let without_exemplar = |line: &str| line.split(" # ").next().unwrap_or(line).to_owned();
        let samples = |format| -> Vec<String> {
            text(format).lines().filter(|line| !line.starts_with('#')).map(without_exemplar).collect()
        };
        assert_eq!(samples(TextFormat::Prometheus), samples(TextFormat::OpenMetrics));
        let prometheus = text(TextFormat::Prometheus);
        assert!(!prometheus.contains(" # ") && text(TextFormat::OpenMetrics).contains(" # "), "{prometheus}");
        assert!(prometheus.contains("# TYPE wakelat_wait_cause_seconds_total counter\n"), "{prometheus}");
        assert!(!prometheus.contains("# EOF") && !prometheus.contains("# UNIT"), "{prometheus}");
    }

    #[test]
    fn an_exemplar_cannot_end_its_label() {
        let exemplar = WaitExemplar {
            latency_ns: 1_500_000_000,
            at_unix_ns: 2_000_000_001,
            labels: vec![("comm", Comm::new(b"\"}\\\n #\xff").to_string().into())],
        };
        let expected = r##" # {comm="\"}\\\\\\n #\\xff"} 1.500000000 2.000000001"##;
        assert_eq!(OptionalExemplar(Some(&exemplar)).to_string(), expected);
        assert_eq!(OptionalExemplar(None).to_string(), "");
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(Seconds(1_023).to_string(), "0.000001023");
        assert_eq!(Seconds(u128::from(u64::MAX) * 1_000).to_string(), "18446744073709.551615000");
    }
}
