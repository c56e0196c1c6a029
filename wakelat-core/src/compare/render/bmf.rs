//! The new arm in the Bencher Metric Format: <https://bencher.dev/docs/reference/bencher-metric-format/>.

use serde_json::{Map, Value, json};

use super::super::{comparison::ArmComparison, metric::ComparedMetric};

/// The percentiles of each group of the new arm, as the measure `latency` in ns. The ends are those of the base's value
/// times the interval of the ratio, if both are known.
pub fn bmf(comparison: &ArmComparison) -> String {
    let mut all = Map::new();
    for group in &comparison.groups {
        for metric in group.metrics.iter().filter(|metric| matches!(metric.metric, ComparedMetric::Percentile(_))) {
            if metric.ratio.is_none() {
                continue;
            }
            let mut latency = json!({"value": metric.values[1]});
            for (name, end) in ["lower_value", "upper_value"].into_iter().zip(metric.interval) {
                if let Some(end) = end {
                    latency[name] = Value::from(metric.values[0] * end);
                }
            }
            all.insert(format!("{}: {}", group.name, metric.metric), json!({"latency": latency}));
        }
    }
    format!("{}\n", Value::Object(all))
}
