//! Histograms with buckets of equal width, as in rtla (`--bucket-size`, `--entries`).

use std::collections::BTreeMap;

/// The buckets of a histogram; the first begins at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// The width of each bucket: ns.
    pub width_ns: u64,
    /// The number of buckets.
    pub entries: u64,
}

/// The counts of a histogram with buckets of equal width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearHistogram {
    /// The counts by index of the bucket, without empty buckets.
    pub counts: BTreeMap<u64, u64>,
    /// The number of values beyond the last bucket.
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
    fn values_are_in_the_same_buckets_as_in_rtla() {
        let mut linear = LinearHistogram::default();
        let bins = Bins { width_ns: 2_000, entries: 3 };
        [0, 1_999, 2_000, 5_999, 6_000, u64::MAX].into_iter().for_each(|ns| linear.record(bins, ns));
        assert_eq!((linear.counts, linear.over), ([(0, 2), (1, 1), (2, 1)].into(), 2));
    }
}
