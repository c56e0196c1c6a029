//! Metrics in the text formats of Prometheus: OpenMetrics 1.0 and the older format 0.0.4.
//!
//! Times are exact: seconds with nine decimals.

use std::fmt::{self, Display, Write as _};

use super::{
    constant_labels::escaped,
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
    let mut text = MetricsText { out: String::new(), format, constant: snapshot.labels.to_string() };
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
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
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
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let [value, at] = [*latency_ns, *at_unix_ns].map(|ns| Seconds(ns.into()));
        write!(f, " # {{{}}} {value} {at}", labels.join(","))
    }
}

/// Text that grows by families.
struct MetricsText {
    out: String,
    format: TextFormat,
    /// The labels that all series have.
    constant: String,
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
        let shared = metric.labels.iter().map(|(name, value)| (*name, value.as_ref())).chain(metric.label);
        let mut labels: String = shared.map(|(name, value)| format!("{name}=\"{}\",", escaped(value))).collect();
        labels.pop();
        match &metric.value {
            MetricValue::Number(number) => self.sample(name, suffix, &labels, number),
            MetricValue::Summary { count, sum_ns } => self.count_and_sum(name, &labels, *count, *sum_ns),
            MetricValue::Histogram(total, exemplar) => {
                let mut exemplar = exemplar.as_ref().filter(|_| self.format == TextFormat::OpenMetrics);
                for (last_ns, count) in classic_buckets(total) {
                    let le = format!("{labels},le=\"{}\"", Seconds(u128::from(last_ns)));
                    let own = exemplar.take_if(|exemplar| exemplar.latency_ns <= last_ns);
                    self.sample(name, "_bucket", &le, format_args!("{count}{}", OptionalExemplar(own)));
                }
                let all = format_args!("{}{}", total.waits, OptionalExemplar(exemplar));
                self.sample(name, "_bucket", &format!("{labels},le=\"+Inf\""), all);
                self.count_and_sum(name, &labels, total.waits, total.sum_ns);
            }
        }
    }

    fn count_and_sum(&mut self, name: &str, labels: &str, count: u64, sum_ns: u128) {
        self.sample(name, "_sum", labels, Seconds(sum_ns));
        self.sample(name, "_count", labels, count);
    }

    /// Adds a sample; `labels` are `name="value"` pairs, separated by commas.
    fn sample(&mut self, name: &str, suffix: &str, labels: &str, value: impl Display) {
        let constant = &self.constant;
        _ = match (labels.is_empty(), constant.is_empty()) {
            (true, true) => writeln!(self.out, "{name}{suffix} {value}"),
            (false, true) => writeln!(self.out, "{name}{suffix}{{{labels}}} {value}"),
            (true, false) => writeln!(self.out, "{name}{suffix}{{{constant}}} {value}"),
            (false, false) => writeln!(self.out, "{name}{suffix}{{{labels},{constant}}} {value}"),
        };
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
