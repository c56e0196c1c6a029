//! The permutation test of two arms of runs, and the intervals that it gives.
//!
//! If the arms do not differ, each way to label the runs as base and new is as likely as the actual one. The statistic of a
//! metric is the difference of the arms' means in units of its standard error. An interval has the shifts of the new arm
//! that the test does not reject. Of several metrics, the largest statistic counts (max-T), so that all intervals hold at
//! once: Westfall and Young, "Resampling-based multiple testing", 1993.

use super::{evidence::Evidence, random::SplitMix};

/// Up to this many arrangements of the labels are all tried; otherwise this many random ones.
const MAX_ARRANGEMENTS: u128 = 20_000;

/// Arrangements that differ by less than this share have equal statistics: rounding.
const ROUNDING: f64 = 1e-9;

/// The ways to label runs: for each, whether a run belongs to the new arm. The first is the actual one.
#[derive(Clone, Debug)]
pub struct Arrangements {
    new: Vec<Vec<bool>>,
    is_exact: bool,
}

/// The number of ways to choose `few` of `all`, at most `limit`.
fn choose(all: usize, few: usize, limit: u128) -> u128 {
    (0..few).fold(1u128, |ways, n| if ways > limit { ways } else { ways * (all - n) as u128 / (n + 1) as u128 })
}

impl Arrangements {
    /// The arrangements of `base` and `new` runs: all of them, or a random sample.
    pub fn of(base: usize, new: usize, seed: u64) -> Self {
        let all = base + new;
        let actual: Vec<bool> = (0..all).map(|run| run >= base).collect();
        if choose(all, new, MAX_ARRANGEMENTS) > MAX_ARRANGEMENTS {
            let mut random = SplitMix::new(seed);
            let mut arrangements = vec![actual.clone()];
            while (arrangements.len() as u128) < MAX_ARRANGEMENTS {
                let mut shuffled = actual.clone();
                (1..all).rev().for_each(|last| shuffled.swap(last, random.below(last + 1)));
                arrangements.push(shuffled);
            }
            return Self { new: arrangements, is_exact: false };
        }
        let mut arrangements = vec![actual.clone()];
        let mut chosen: Vec<usize> = (0..new).collect();
        loop {
            let mut labels = vec![false; all];
            chosen.iter().for_each(|run| labels[*run] = true);
            if labels != actual {
                arrangements.push(labels);
            }
            let Some(at) = (0..new).rev().find(|at| chosen[*at] < all - new + at) else { break };
            chosen[at] += 1;
            (at + 1..new).for_each(|next| chosen[next] = chosen[next - 1] + 1);
        }
        Self { new: arrangements, is_exact: true }
    }

    /// The number of arrangements.
    pub fn count(&self) -> usize {
        self.new.len()
    }

    /// Whether these are all arrangements, not a sample.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

/// The values of several metrics in the runs of both arms.
#[derive(Clone, Debug)]
pub struct Permutation<'a> {
    arrangements: &'a Arrangements,
    base_runs: usize,
    /// For each metric its value in each run, the runs of the base first.
    values: Vec<Vec<f64>>,
    estimates: Vec<f64>,
    /// For each metric and arrangement, the largest statistic of the other metrics, with their estimated shifts removed.
    others: Vec<Vec<f64>>,
}

impl<'a> Permutation<'a> {
    /// Compares metrics: for each, its values in the runs of the base and of the new arm.
    pub fn new(arrangements: &'a Arrangements, metrics: &[(Vec<f64>, Vec<f64>)]) -> Self {
        let estimates: Vec<f64> = metrics.iter().map(|(base, new)| mean(new) - mean(base)).collect();
        let values: Vec<Vec<f64>> = metrics.iter().map(|(base, new)| [&base[..], new].concat()).collect();
        let base_runs = metrics.first().map_or(0, |(base, _)| base.len());
        let mut permutation = Self { arrangements, base_runs, values, estimates, others: Vec::new() };
        let aligned: Vec<Vec<f64>> = (0..permutation.values.len())
            .map(|metric| permutation.statistics(metric, permutation.estimates[metric]))
            .collect();
        permutation.others = (0..aligned.len())
            .map(|metric| {
                let largest = |at: usize| {
                    let others = aligned.iter().enumerate().filter(|(other, _)| *other != metric);
                    others.map(|(_, of)| of[at]).fold(0.0, f64::max)
                };
                (0..arrangements.count()).map(largest).collect()
            })
            .collect();
        permutation
    }

    /// The statistic of a metric in each arrangement, with `shift` removed from the new arm.
    fn statistics(&self, metric: usize, shift: f64) -> Vec<f64> {
        let values = self.values[metric].iter().enumerate();
        let shifted: Vec<f64> =
            values.map(|(run, value)| if run >= self.base_runs { value - shift } else { *value }).collect();
        self.arrangements.new.iter().map(|labels| statistic(&shifted, labels)).collect()
    }
}

impl Evidence for Permutation<'_> {
    fn estimate(&self, metric: usize) -> f64 {
        self.estimates[metric]
    }

    fn p_value(&self, metric: usize, shift: f64) -> f64 {
        let statistics = self.statistics(metric, shift);
        let least = statistics[0] * (1.0 - ROUNDING);
        let largest = statistics.iter().zip(&self.others[metric]).map(|(own, others)| own.max(*others));
        largest.filter(|largest| *largest >= least).count() as f64 / statistics.len() as f64
    }

    fn scale(&self, metric: usize) -> f64 {
        let (base, new) = self.values[metric].split_at(self.base_runs);
        let squares = |values: &[f64]| values.iter().map(|value| (value - mean(values)).powi(2)).sum::<f64>();
        let runs = self.values[metric].len() as f64;
        ((squares(base) + squares(new)) / (runs - 2.0).max(1.0) * (1.0 / base.len() as f64 + 1.0 / new.len() as f64))
            .sqrt()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The absolute difference of the means of both labels, in units of its standard error.
fn statistic(values: &[f64], is_new: &[bool]) -> f64 {
    let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
    for (value, is_new) in values.iter().zip(is_new) {
        sums[usize::from(*is_new)] += value;
        counts[usize::from(*is_new)] += 1.0;
    }
    let means = [sums[0] / counts[0], sums[1] / counts[1]];
    let squares: f64 =
        values.iter().zip(is_new).map(|(value, is_new)| (value - means[usize::from(*is_new)]).powi(2)).sum();
    let variance = squares / (counts[0] + counts[1] - 2.0).max(1.0) * (1.0 / counts[0] + 1.0 / counts[1]);
    let difference = (means[1] - means[0]).abs();
    // Differences that come from rounding are none.
    let size = means[0].abs().max(means[1].abs());
    if difference <= size * 1e-12 { 0.0 } else { difference / variance.sqrt().max(size * 1e-12).max(f64::MIN_POSITIVE) }
}
