//! The figures of one group in each run of both arms.

use super::{
    latencies::LatencyCounts,
    metric::ComparedMetric,
    run::{ComparedRun, GroupName, GroupRun},
};

/// A group in each run of both arms.
pub struct Sides<'a> {
    /// The runs of base and new, each with its group.
    pub arms: [Vec<Side<'a>>; 2],
}

/// A group in one run.
pub struct Side<'a> {
    pub run: &'a ComparedRun,
    pub group: &'a GroupRun,
    /// The latencies of the whole run.
    pub latencies: LatencyCounts,
}

impl<'a> Sides<'a> {
    /// The group of this name; `None` if a run does not have it.
    pub fn of(name: &GroupName, base: &'a [ComparedRun], new: &'a [ComparedRun]) -> Option<Self> {
        let side = |run: &'a ComparedRun| {
            let group = run.groups.get(name)?;
            Some(Side { run, group, latencies: group.latencies() })
        };
        let arm = |runs: &'a [ComparedRun]| runs.iter().map(side).collect::<Option<Vec<_>>>();
        Some(Self { arms: [arm(base)?, arm(new)?] })
    }

    fn all(&self) -> impl Iterator<Item = &Side<'a>> {
        self.arms.iter().flatten()
    }

    /// Whether each run has enough waits beyond the metric.
    pub fn can_resolve(&self, metric: ComparedMetric) -> bool {
        self.all().all(|side| metric.is_resolvable(side.latencies.count()))
    }

    /// The values of a metric in the runs of both arms: ns for a percentile, and at least 1, so that it has a logarithm.
    pub fn values(&self, metric: ComparedMetric) -> [Vec<f64>; 2] {
        let least = if matches!(metric, ComparedMetric::Above(_)) { 0.0 } else { 1.0 };
        let value = |side: &Side| {
            metric
                .of(&side.latencies, side.group.sum_ns() as f64, side.run.duration_ns())
                .map_or(least, |value| value.max(least))
        };
        [0, 1].map(|arm| self.arms[arm].iter().map(value).collect())
    }

    /// The total wait of all runs: ns.
    pub fn sum_ns(&self) -> u128 {
        self.all().map(|side| side.group.sum_ns()).sum()
    }

    /// For both arms, the mean over its runs of what `of` counts, per s of wall time; `None` if a run does not have it.
    pub fn rates(&self, of: impl Fn(&GroupRun) -> Option<f64>) -> Option<[f64; 2]> {
        let rate = |side: &Side| Some(of(side.group)? / side.run.duration_ns().max(1.0) * 1e9);
        let mean = |arm: &Vec<Side>| {
            let rates: Option<Vec<f64>> = arm.iter().map(rate).collect();
            rates.map(|rates| rates.iter().sum::<f64>() / rates.len() as f64)
        };
        Some([mean(&self.arms[0])?, mean(&self.arms[1])?])
    }

    /// The longest latency of both arms: ns.
    pub fn max_ns(&self) -> [u64; 2] {
        [0, 1].map(|arm| self.arms[arm].iter().map(|side| side.group.max_ns).max().unwrap_or(0))
    }

    /// The latencies of all runs of both arms.
    pub fn latencies(&self) -> [LatencyCounts; 2] {
        [0, 1].map(|arm| {
            let mut all = LatencyCounts::default();
            self.arms[arm].iter().for_each(|side| all.add(&side.latencies));
            all
        })
    }
}
