//! The lengths of many waits, in as little memory as they need.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use wakelat_common::{
    bucket::{self, BUCKETS},
    group::{ELEMENT_BUCKETS, octave},
};

use super::percentile_rank::Percentile;

/// Up to this many values are kept one by one: most groups of a run are small, and a histogram of one
/// value is as large as that of a million.
const FEW: usize = 64;

/// Significant decimal digits of a percentile.
const DIGITS: u8 = 3;

/// Values in ns: exact if they are few, to three significant digits if they are many, or to the width of
/// a bucket if the kernel aggregated them.
#[derive(Clone, Debug)]
pub enum Values {
    /// Each value, in no particular order.
    Few(Vec<u64>),
    /// To three significant digits.
    Many(Box<Histogram<u64>>),
    /// Counted by bucket in the kernel; the values themselves are unknown.
    Buckets(BucketCounts),
}

/// The number of values in each [`bucket`], for the octaves that have any: the values of most groups are in few
/// of the 60.
#[derive(Clone, Debug, Default)]
pub struct BucketCounts(BTreeMap<u8, Box<[u64; ELEMENT_BUCKETS]>>);

impl BucketCounts {
    /// The counts of all buckets, by index.
    pub fn of_all(counts: &[u64; BUCKETS]) -> Self {
        let mut buckets = Self::default();
        for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            buckets.add(index, *count);
        }
        buckets
    }

    /// The counts of the buckets of one octave.
    pub fn of_octave(octave: u8, counts: &[u32; ELEMENT_BUCKETS]) -> Self {
        Self(BTreeMap::from([(octave, Box::new(counts.map(u64::from)))]))
    }

    /// Adds `count` to bucket `index`.
    fn add(&mut self, index: usize, count: u64) {
        let octave = self.0.entry(octave(index)).or_insert_with(|| Box::new([0; ELEMENT_BUCKETS]));
        let bucket = &mut octave[index % ELEMENT_BUCKETS];
        *bucket = bucket.saturating_add(count);
    }

    /// Index and count of each bucket that has values, ascending.
    fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        let indexed = self.0.iter().flat_map(|(octave, counts)| {
            let first = usize::from(*octave) * ELEMENT_BUCKETS;
            (first..).zip(counts.iter().copied())
        });
        indexed.filter(|(_, count)| *count > 0)
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Values {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        match self {
            Self::Few(values) if values.len() < FEW => values.push(value),
            Self::Few(values) => {
                let mut many = histogram(values);
                record_n(&mut many, value, 1);
                *self = Self::Many(many);
            }
            Self::Many(histogram) => record_n(histogram, value, 1),
            Self::Buckets(buckets) => buckets.add(bucket::index(value), 1),
        }
    }

    /// Adds all values of `other`. The result is in buckets if either is.
    pub fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Few(values), Self::Few(others)) if values.len() + others.len() <= FEW => values.extend(others),
            (Self::Buckets(buckets), _) => other.for_each(|value, count| buckets.add(bucket::index(value), count)),
            (_, Self::Buckets(others)) => {
                let mut buckets = others.clone();
                self.for_each(|value, count| buckets.add(bucket::index(value), count));
                *self = Self::Buckets(buckets);
            }
            (Self::Many(many), _) => other.for_each(|value, count| record_n(many, value, count)),
            (Self::Few(values), _) => {
                let mut many = histogram(values);
                other.for_each(|value, count| record_n(&mut many, value, count));
                *self = Self::Many(many);
            }
        }
    }

    /// Adds counts of buckets, by index. The result is in buckets.
    pub fn add_counts(&mut self, counts: impl Iterator<Item = (usize, u64)>) {
        if !matches!(self, Self::Buckets(_)) {
            self.add(&Self::Buckets(BucketCounts::default()));
        }
        if let Self::Buckets(buckets) = self {
            counts.for_each(|(index, count)| buckets.add(index, count));
        }
    }

    /// The value of a percentile of all `count` values: the largest of its histogram slot or bucket.
    /// None if there is no value.
    pub fn percentile(&self, percentile: Percentile, count: u64) -> Option<u64> {
        match self {
            Self::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                percentile.find(count, sorted.into_iter().map(|value| (value, 1)))
            }
            // Not with the crate's own quantiles: they compute the rank as a product of floating-point
            // numbers.
            Self::Many(histogram) => {
                let slots = histogram.iter_recorded();
                percentile.find(count, slots.map(|slot| (slot.value_iterated_to(), slot.count_at_value())))
            }
            Self::Buckets(buckets) => {
                let found = percentile.find(count, buckets.iter());
                found.map(|index| bucket::upper(index).saturating_sub(1))
            }
        }
    }

    /// Calls `visit` with values in ascending order and their counts; equal values can come one by one.
    pub fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        match self {
            Self::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted.into_iter().for_each(|value| visit(value, 1));
            }
            Self::Many(histogram) => {
                for step in histogram.iter_recorded() {
                    // The lower end of the histogram's own slot: it never lies in a bucket above the value's.
                    visit(histogram.lowest_equivalent(step.value_iterated_to()), step.count_at_value());
                }
            }
            Self::Buckets(buckets) => buckets.iter().for_each(|(index, count)| visit(bucket::lower(index), count)),
        }
    }
}

fn histogram(values: &[u64]) -> Box<Histogram<u64>> {
    let mut histogram = Histogram::new(DIGITS).expect("3 digits are within the crate's limits");
    histogram.auto(true);
    values.iter().for_each(|value| record_n(&mut histogram, *value, 1));
    Box::new(histogram)
}

fn record_n(histogram: &mut Histogram<u64>, value: u64, count: u64) {
    histogram.record_n(value, count).expect("an auto-resizing histogram takes any u64");
}
