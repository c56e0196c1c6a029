//! What decides whether the new arm is worse: margins and limits.

use super::metric::ComparedMetric;
use crate::aggregate::percentile_rank::Percentile;

/// What decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Criteria {
    /// How much larger a percentile of the new arm may be, as a share of that of the base; `None` if only limits and
    /// `margins` decide.
    pub margin: Option<f64>,
    /// Other margins, by metric.
    pub margins: Vec<(ComparedMetric, f64)>,
    /// Limits of the new arm.
    pub limits: Vec<Limit>,
    /// The level of the tests: 0.05 for intervals of 95 %.
    pub level: f64,
    /// Whether a comparison of one run per arm has a verdict.
    pub accepts_single_runs: bool,
    /// Number of groups that are compared: those with the most waiting time.
    pub max_groups: usize,
    /// The seed of everything random.
    pub seed: u64,
}

/// A limit of the new arm: what is to be below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The metric.
    pub metric: ComparedMetric,
    /// Its limit, in the unit of the metric.
    pub bound: f64,
}

impl Default for Criteria {
    fn default() -> Self {
        Self {
            margin: Some(0.05),
            margins: Vec::new(),
            limits: Vec::new(),
            level: 0.05,
            accepts_single_runs: false,
            max_groups: 10,
            seed: 1,
        }
    }
}

impl Criteria {
    /// Whether the metric has a margin that is not that of all percentiles.
    pub fn has_own_margin(&self, metric: ComparedMetric) -> bool {
        self.margins.iter().any(|(of, _)| *of == metric)
    }

    /// The margin of a metric, if one decides.
    pub fn margin_of(&self, metric: ComparedMetric) -> Option<f64> {
        let own = self.margins.iter().rev().find(|(of, _)| *of == metric).map(|(_, margin)| *margin);
        own.or(self.margin.filter(|_| matches!(metric, ComparedMetric::Percentile(_))))
    }

    /// The metrics that are compared: the usual ones, and percentiles of margins.
    pub fn ratios(&self) -> Vec<ComparedMetric> {
        let mut metrics: Vec<ComparedMetric> =
            ComparedMetric::RATIOS.into_iter().chain(self.margins.iter().map(|(of, _)| *of)).collect();
        metrics.retain(|metric| {
            !matches!(metric, ComparedMetric::Above(_)) && *metric != ComparedMetric::Percentile(Percentile::MAX)
        });
        metrics.sort();
        metrics.dedup();
        metrics
    }
}
