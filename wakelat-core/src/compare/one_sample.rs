//! The test of the runs of one arm against a limit, and the interval that it gives: each run's distance from a value is as
//! likely above as below it.

use super::{evidence::Evidence, random::SplitMix};

/// Up to this many runs, all signs are tried; otherwise this many random ones.
const MAX_EXACT_RUNS: usize = 14;
const MAX_SIGNS: usize = 20_000;

/// The values of one metric in the runs of one arm.
#[derive(Clone, Debug)]
pub struct OneSample {
    values: Vec<f64>,
    signs: Vec<Vec<bool>>,
}

impl OneSample {
    /// The values of a metric in each run.
    pub fn new(values: Vec<f64>, seed: u64) -> Self {
        let runs = values.len();
        let signs = if runs <= MAX_EXACT_RUNS {
            (0..1usize << runs).map(|bits| (0..runs).map(|run| bits >> run & 1 == 1).collect()).collect()
        } else {
            let mut random = SplitMix::new(seed);
            let none = vec![false; runs];
            let others = (1..MAX_SIGNS).map(|_| (0..runs).map(|_| random.below(2) == 1).collect());
            std::iter::once(none).chain(others).collect()
        };
        Self { values, signs }
    }
}

impl Evidence for OneSample {
    fn estimate(&self, _: usize) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    fn p_value(&self, _: usize, shift: f64) -> f64 {
        let distances: Vec<f64> = self.values.iter().map(|value| value - shift).collect();
        let sum = |signs: &Vec<bool>| {
            let signed = distances
                .iter()
                .zip(signs)
                .map(|(distance, is_flipped)| if *is_flipped { -distance } else { *distance });
            signed.sum::<f64>().abs()
        };
        let size: f64 = distances.iter().map(|distance| distance.abs()).sum();
        let least = sum(&self.signs[0]) - size * 1e-12;
        self.signs.iter().filter(|signs| sum(signs) >= least).count() as f64 / self.signs.len() as f64
    }

    fn scale(&self, metric: usize) -> f64 {
        let mean = self.estimate(metric);
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (self.values.len() as f64 - 1.0).max(1.0) / self.values.len() as f64).sqrt()
    }
}
