//! The stationary bootstrap of one run per arm: what the change of each metric would have been if the run had had other
//! blocks of its own intervals (D. Politis, J. Romano, "The stationary bootstrap", 1994). It shows how much the metrics
//! vary within a run, and nothing about another run.

use super::{evidence::Evidence, latencies::LatencyCounts, metric::ComparedMetric, random::SplitMix};

/// Number of replicates.
pub const REPLICATES: usize = 1_000;

/// Fewer intervals than this show no variation.
pub const MIN_INTERVALS: usize = 10;

/// The length of a block in units of the correlation time of the intervals: shorter blocks would hide a part of the
/// variation, because they end what belongs together.
const CORRELATION_TIMES: f64 = 4.0;

/// (z² + 1) / 4 for the z of a simultaneous interval, 2.4.
const STUDENT: f64 = 1.7;

/// A block is at most this share of the run.
const MAX_SHARE: f64 = 0.2;

/// The most intervals of a run: consecutive ones of a longer run are put together. Blocks are up to a fifth of the run.
const MAX_INTERVALS: usize = 1_000;

/// The waits of an interval of a run.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// The latencies.
    pub latencies: LatencyCounts,
    /// Their sum: ns.
    pub sum_ns: f64,
    /// The length of the interval: ns.
    pub duration_ns: f64,
}

/// The value of metrics in the replicates of a run: `NaN` for a replicate without waits.
#[derive(Clone, Debug)]
pub struct Replicates {
    /// The value of each metric in the run itself.
    pub actual: Vec<f64>,
    /// For each replicate the value of each metric.
    pub values: Vec<Vec<f64>>,
    /// The mean length of a block: intervals.
    pub block: f64,
    /// The number of intervals.
    pub intervals: usize,
}

/// The changes of metrics between two runs, each with its own replicates.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    estimates: Vec<f64>,
    scales: Vec<f64>,
    /// Of each replicate, the largest distance of a metric from its estimate, in units of its scale; ascending.
    largest: Vec<f64>,
}

impl Interval {
    /// Adds the waits of the interval that follows it.
    fn extend(&mut self, next: &Self) {
        self.latencies.add(&next.latencies);
        self.sum_ns += next.sum_ns;
        self.duration_ns += next.duration_ns;
    }
}

/// The intervals of a run, at most 1,000.
pub fn merged(intervals: &[Interval]) -> Vec<Interval> {
    let merge = |part: &[Interval]| {
        let mut merged = Interval::default();
        part.iter().for_each(|interval| merged.extend(interval));
        merged
    };
    intervals.chunks(intervals.len().div_ceil(MAX_INTERVALS).max(1)).map(merge).collect()
}

/// The time over which the values of a series are correlated, in its steps: 1 for independent ones.
pub fn correlation_time(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    let mean = series.iter().sum::<f64>() / n;
    let covariance = |lag: usize| series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1.0;
    }
    // The first correlation that is not more than noise ends the sum.
    let noise = 1.0 / n.sqrt();
    let correlations = (1..series.len() / 2).map(|lag| covariance(lag) / variance);
    1.0 + 2.0 * correlations.take_while(|correlation| *correlation > noise).sum::<f64>()
}

/// The mean length of a block for a run with these intervals.
pub fn block_length(intervals: &[Interval]) -> f64 {
    let series = |of: &dyn Fn(&Interval) -> f64| intervals.iter().map(of).collect::<Vec<f64>>();
    let load = series(&|interval| (1.0 + interval.sum_ns).ln());
    let count = series(&|interval| interval.latencies.count() as f64);
    let time = correlation_time(&load).max(correlation_time(&count));
    (CORRELATION_TIMES * time).clamp(1.0, (intervals.len() as f64 * MAX_SHARE).max(1.0))
}

/// The replicates of a run: of each metric its value, if the run had had other blocks of its intervals.
pub fn replicates(intervals: &[Interval], metrics: &[ComparedMetric], block: f64, seed: u64) -> Replicates {
    let mut random = SplitMix::new(seed);
    let mut all = LatencyCounts::default();
    intervals.iter().for_each(|interval| all.add(&interval.latencies));
    let lengths: Vec<u64> = all.iter().map(|(ns, _)| ns).collect();
    let place = |ns: u64| lengths.partition_point(|length| *length < ns);
    let placed: Vec<Vec<(usize, u64)>> = intervals
        .iter()
        .map(|interval| interval.latencies.iter().map(|(ns, count)| (place(ns), count)).collect())
        .collect();
    let value = |times: &[u64]| -> Vec<f64> {
        let (mut counts, mut sum_ns, mut duration_ns) = (vec![0; lengths.len()], 0.0, 0.0);
        for ((interval, placed), times) in intervals.iter().zip(&placed).zip(times).filter(|(_, times)| **times > 0) {
            placed.iter().for_each(|(place, count)| counts[*place] += count * times);
            sum_ns += interval.sum_ns * *times as f64;
            duration_ns += interval.duration_ns * *times as f64;
        }
        let latencies = LatencyCounts::of_ascending(lengths.iter().copied().zip(counts).collect());
        metrics.iter().map(|metric| metric.of(&latencies, sum_ns, duration_ns).unwrap_or(f64::NAN)).collect()
    };
    let actual = value(&vec![1; intervals.len()]);
    let values = (0..REPLICATES).map(|_| {
        let mut times = vec![0; intervals.len()];
        let mut at = 0;
        for drawn in 0..intervals.len() {
            let begins = drawn == 0 || random.unit() * block < 1.0;
            at = if begins { random.below(intervals.len()) } else { (at + 1) % intervals.len() };
            times[at] += 1;
        }
        value(&times)
    });
    Replicates { actual, values: values.collect(), block, intervals: intervals.len() }
}

impl Replicates {
    /// How much wider intervals are because the run has few blocks: their variation is underestimated, and itself known
    /// only from these blocks. The second factor is the ratio of the quantiles of Student's t and the normal distribution,
    /// to its first order.
    fn widening(&self) -> f64 {
        let blocks = self.intervals as f64 / self.block;
        let freedom = (blocks - 1.0).max(1.0);
        (blocks / freedom).sqrt() * (1.0 + STUDENT / freedom)
    }
}

/// The logarithm of a latency or rate, which counts as 1 if it is less; `NaN` for `NaN`.
pub fn logarithm(value: f64) -> f64 {
    // Not `max`, which takes 1 of `NaN` and 1.
    if value < 1.0 { 0.0 } else { value.ln() }
}

impl Bootstrap {
    /// The changes of metrics from `base` to `new`: the differences of logarithms.
    pub fn of_change(base: &Replicates, new: &Replicates) -> Self {
        let change = |base: &[f64], new: &[f64]| -> Vec<f64> {
            base.iter().zip(new).map(|(base, new)| logarithm(*new) - logarithm(*base)).collect()
        };
        let values = base.values.iter().zip(&new.values).map(|(base, new)| change(base, new)).collect();
        Self::new(change(&base.actual, &new.actual), values, base.widening().max(new.widening()))
    }

    /// The metrics of one run on the scale of `of`.
    pub fn of_run(run: &Replicates, of: impl Fn(f64) -> f64) -> Self {
        let scaled = |values: &Vec<f64>| values.iter().map(|value| of(*value)).collect::<Vec<f64>>();
        Self::new(scaled(&run.actual), run.values.iter().map(scaled).collect(), run.widening())
    }

    fn new(estimates: Vec<f64>, values: Vec<Vec<f64>>, widening: f64) -> Self {
        let finite: Vec<Vec<f64>> = values.into_iter().filter(|of| of.iter().all(|value| value.is_finite())).collect();
        let scale = |metric: usize| {
            let squares: f64 = finite.iter().map(|of| (of[metric] - estimates[metric]).powi(2)).sum();
            (squares / finite.len().max(1) as f64).sqrt() * widening
        };
        let scales: Vec<f64> = (0..estimates.len()).map(scale).collect();
        let distance = |of: &Vec<f64>, metric: usize| match scales[metric] {
            0.0 => 0.0,
            scale => (of[metric] - estimates[metric]).abs() * widening / scale,
        };
        let mut largest: Vec<f64> =
            finite.iter().map(|of| (0..scales.len()).map(|metric| distance(of, metric)).fold(0.0, f64::max)).collect();
        largest.sort_by(f64::total_cmp);
        Self { estimates, scales, largest }
    }
}

impl Evidence for Bootstrap {
    fn estimate(&self, metric: usize) -> f64 {
        self.estimates[metric]
    }

    fn p_value(&self, metric: usize, shift: f64) -> f64 {
        let distance = (self.estimates[metric] - shift).abs() / self.scales[metric].max(f64::MIN_POSITIVE);
        let below = self.largest.partition_point(|largest| *largest < distance * (1.0 - 1e-12));
        (1 + self.largest.len() - below) as f64 / (1 + self.largest.len()) as f64
    }

    fn scale(&self, metric: usize) -> f64 {
        self.scales[metric]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_a_long_run_are_put_together_and_none_is_lost() {
        let interval = |ns: u64| {
            let mut latencies = LatencyCounts::default();
            latencies.record(ns % 7, 1);
            Interval { latencies, sum_ns: ns as f64, duration_ns: 1.0 }
        };
        for (count, expected) in [(0, 0), (999, 999), (1_000, 1_000), (1_001, 501), (86_400, 994)] {
            let intervals: Vec<Interval> = (0..count).map(interval).collect();
            let merged = merged(&intervals);
            assert_eq!(merged.len(), expected, "{count}");
            let sum = |of: fn(&Interval) -> f64| [&intervals, &merged].map(|all| all.iter().map(of).sum::<f64>());
            for [before, after] in [
                sum(|interval| interval.sum_ns),
                sum(|interval| interval.duration_ns),
                sum(|interval| interval.latencies.count() as f64),
            ] {
                assert_eq!(before, after);
            }
        }
    }

    #[test]
    fn a_replicate_without_waits_has_no_value_instead_of_the_shortest() {
        // All waits are in one interval, which about a third of the replicates do not draw.
        let mut waits = LatencyCounts::default();
        waits.record(50_000, 30);
        let full = Interval { latencies: waits, sum_ns: 1.5e6, duration_ns: 1e9 };
        let empty = Interval { duration_ns: 1e9, ..Interval::default() };
        let intervals: Vec<Interval> = (0..20).map(|at| if at == 7 { full.clone() } else { empty.clone() }).collect();
        let p50 = ComparedMetric::Percentile(crate::aggregate::percentile_rank::Percentile::P50);
        let replicates = replicates(&intervals, &[p50], 1.0, 1);
        assert!(replicates.values.iter().any(|of| of[0].is_nan()));
        assert_eq!(Bootstrap::of_run(&replicates, logarithm).scales, [0.0]);
        assert_eq!(Bootstrap::of_change(&replicates, &replicates).scales, [0.0]);
    }
}
