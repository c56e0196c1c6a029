//! What is compared of the waits of a group.

use std::fmt;

use super::latencies::LatencyCounts;
use crate::aggregate::percentile_rank::Percentile;

/// A figure of a group that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparedMetric {
    /// A percentile of the latency: ns.
    Percentile(Percentile),
    /// Wait per wall time: ns per s.
    WaitRate,
    /// The share of waits of at least this length (ns): 0 to 1.
    Above(u64),
}

/// Waits of a run that must be above a percentile, so that it can be compared.
pub const MIN_BEYOND: f64 = 10.0;

impl ComparedMetric {
    /// The metrics that every comparison has.
    pub const RATIOS: [Self; 5] = [
        Self::Percentile(Percentile::P50),
        Self::Percentile(Percentile::P90),
        Self::Percentile(Percentile::P99),
        Self::Percentile(Percentile::P99_9),
        Self::WaitRate,
    ];

    /// The name on the command line and in JSON.
    pub fn name(&self) -> String {
        match self {
            Self::Percentile(percentile) => format!("p{percentile}"),
            Self::WaitRate => "wait".to_owned(),
            Self::Above(ns) => format!("above({})", short(*ns)),
        }
    }

    /// The value of the metric for these waits, which add up to `sum_ns` in `duration_ns`; `None` without waits.
    pub fn of(&self, waits: &LatencyCounts, sum_ns: f64, duration_ns: f64) -> Option<f64> {
        match self {
            Self::Percentile(percentile) => waits.percentile_ns(*percentile).map(|ns| ns as f64),
            Self::WaitRate => (duration_ns > 0.0 && waits.count() > 0).then(|| sum_ns / duration_ns * 1e9),
            Self::Above(ns) => waits.share_above(*ns),
        }
    }

    /// Whether a run with so many waits has enough of them beyond the metric.
    pub fn is_resolvable(&self, waits: u64) -> bool {
        match self {
            Self::Percentile(percentile) => waits as f64 * (1.0 - percentile.fraction()) + 1e-6 >= MIN_BEYOND,
            Self::WaitRate | Self::Above(_) => waits > 0,
        }
    }
}

impl fmt::Display for ComparedMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A length in the largest unit in which it is a whole number, as on the command line: `10ms`.
pub fn short(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fitting = units.into_iter().find(|(size, _)| ns.is_multiple_of(*size) && ns >= *size);
    fitting.map_or_else(|| format!("{ns}ns"), |(size, unit)| format!("{}{unit}", ns / size))
}
