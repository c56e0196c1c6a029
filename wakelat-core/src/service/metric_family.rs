//! A family of metrics, whatever the format: its name, its type and its values.

use std::rc::Rc;

use super::{cgroup_labels::Labels, exemplar::WaitExemplar};
use crate::why::counted::GroupTotal;

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

/// What the numbers of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Times.
    Seconds,
    /// Parts of a whole.
    Ratio,
    /// Numbers of this, in the singular.
    Number(&'static str),
}

/// Metrics with one name.
pub struct MetricFamily<'a> {
    /// The name, of a counter without the suffix `_total`. It ends in `_seconds` if that is the unit.
    pub name: &'static str,
    /// The type.
    pub kind: FamilyKind,
    /// The unit.
    pub unit: MetricUnit,
    /// The meaning.
    pub help: &'static str,
    /// One metric for each combination of labels.
    pub metrics: Vec<FamilyMetric<'a>>,
}

/// A metric of a family.
pub struct FamilyMetric<'a> {
    /// Labels that several metrics share.
    pub labels: Rc<Labels>,
    /// The label that this metric has besides them.
    pub label: Option<(&'static str, &'static str)>,
    /// The number of its series ([`super::series::WaitSeries::number`]), or 0 if it lasts as long as the service.
    pub series: u64,
    /// Since when its value is counted, if that can be before its series began: ns since 1970-01-01 UTC.
    pub since_unix_ns: Option<u64>,
    /// The value.
    pub value: MetricValue<'a>,
}

/// The value of a metric.
pub enum MetricValue<'a> {
    /// Of a counter or a gauge.
    Number(MetricNumber),
    /// Of a histogram: the waits, and one as an example.
    Histogram(&'a GroupTotal, Option<WaitExemplar>),
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

impl FamilyMetric<'_> {
    /// A metric that lasts as long as the service.
    pub(super) fn number(
        labels: &Rc<Labels>,
        label: Option<(&'static str, &'static str)>,
        number: MetricNumber,
    ) -> Self {
        let value = MetricValue::Number(number);
        Self { labels: Rc::clone(labels), label, series: 0, since_unix_ns: None, value }
    }
}
