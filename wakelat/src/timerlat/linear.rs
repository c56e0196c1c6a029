//! Counts in buckets of one width, as rtla's histograms have them (`--bucket-size`, `--entries`).

use std::collections::BTreeMap;

/// The buckets of a histogram: from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// How wide each is: ns.
    pub width_ns: u64,
    /// How many there are.
    pub entries: u64,
}

/// What was counted in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearHistogram {
    /// By the number of the bucket, without empty ones.
    pub counts: BTreeMap<u64, u64>,
    /// What is beyond the last bucket.
    pub over: u64,
}

impl LinearHistogram {
    /// Counts a value.
    pub fn record(&mut self, bins: Bins, ns: u64) {
        match ns / bins.width_ns.max(1) {
            bin if bin < bins.entries => *self.counts.entry(bin).or_default() += 1,
            _ => self.over += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_bucket_that_rtla_puts_it_in() {
        let mut linear = LinearHistogram::default();
        let bins = Bins { width_ns: 2_000, entries: 3 };
        [0, 1_999, 2_000, 5_999, 6_000, u64::MAX].into_iter().for_each(|ns| linear.record(bins, ns));
        assert_eq!((linear.counts, linear.over), ([(0, 2), (1, 1), (2, 1)].into(), 2));
    }
}
