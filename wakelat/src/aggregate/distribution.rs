//! The distribution of one group's waits.

use std::cmp::Reverse;

use hdrhistogram::Histogram;
use wakelat_common::{
    bucket::{self, BUCKETS},
    histogram::Histogram as Counted,
};

use super::sampled::Sampled;
use crate::wait::Comm;

/// A group keeps its values themselves up to this many: most groups of a run are small, and the histogram of one value
/// is as large as that of a million.
const FEW: usize = 64;

/// Significant decimal digits of a percentile.
const DIGITS: u8 = 3;

/// Waits of one group: exact count, sum, minimum and maximum, percentiles to three significant digits; or, where the
/// kernel counted them, to the width of a bucket.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max: Option<Maximum>,
    values: Values,
    /// Where only drawn tasks were watched: what they tell of all.
    sampled: Option<Box<Sampled>>,
}

/// The longest wait and whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maximum {
    /// How long: ns.
    pub latency_ns: u64,
    /// When it ended: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Thread that waited.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// CPU on which it went on.
    pub cpu: u32,
}

#[derive(Clone, Debug)]
enum Values {
    Few(Vec<u64>),
    Many(Box<Histogram<u64>>),
    /// What the kernel counted: nothing is known of a value but its bucket.
    Buckets(Box<[u64; BUCKETS]>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// One bucket of a distribution: `from_ns <= value < to_ns`; the topmost one includes `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value: ns.
    pub from_ns: u64,
    /// Smallest value above: ns.
    pub to_ns: u64,
    /// Waits in it.
    pub count: u64,
}

impl Distribution {
    /// What one CPU has counted of one class.
    pub fn counted(counted: &Counted) -> Self {
        let longest = counted.worst().iter().max_by_key(|sample| (sample.latency_ns, Reverse(sample.at_ns)));
        let max = longest.map(|sample| Maximum {
            latency_ns: sample.latency_ns,
            at_ns: sample.at_ns,
            tid: sample.pid,
            comm: Comm::new(&sample.comm),
            cpu: sample.cpu,
        });
        let mut buckets = Box::new([0; BUCKETS]);
        buckets.copy_from_slice(&counted.buckets[..BUCKETS]);
        Self {
            count: counted.count,
            sum_ns: counted.sum_ns.into(),
            min_ns: counted.min_ns,
            max,
            values: Values::Buckets(buckets),
            sampled: None,
        }
    }

    /// Says of a wait that was recorded that its task `tid` was drawn at `level`.
    pub fn record_sampled(&mut self, tid: u32, level: u8, latency_ns: u64) {
        self.sampled.get_or_insert_default().record(tid, level, latency_ns);
    }

    /// Says that tasks were drawn at levels up to `level`.
    pub fn drawn_up_to(&mut self, level: u8) {
        if let Some(sampled) = &mut self.sampled {
            sampled.drawn_up_to(level);
        }
    }

    /// What the drawn tasks tell of all, where only drawn ones were watched.
    pub fn sampled(&self) -> Option<&Sampled> {
        self.sampled.as_deref()
    }

    /// Adds one wait.
    pub fn record(&mut self, wait: Maximum) {
        let latency_ns = wait.latency_ns;
        self.min_ns = if self.count == 0 { latency_ns } else { self.min_ns.min(latency_ns) };
        if self.max.is_none_or(|max| latency_ns > max.latency_ns) {
            self.max = Some(wait);
        }
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        match &mut self.values {
            Values::Few(values) if values.len() < FEW => values.push(latency_ns),
            Values::Few(values) => {
                let mut many = histogram();
                for value in values.iter().copied().chain([latency_ns]) {
                    record(&mut many, value);
                }
                self.values = Values::Many(many);
            }
            Values::Many(histogram) => record(histogram, latency_ns),
            Values::Buckets(buckets) => buckets[bucket::index(latency_ns)] += 1,
        }
    }

    /// How many waits.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together: ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The mean: ns, rounded down; 0 where there is none.
    pub fn mean_ns(&self) -> u64 {
        u64::try_from(self.sum_ns / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// The shortest, exactly: ns; 0 where there is none.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The longest, exactly: ns; 0 where there is none.
    pub fn max_ns(&self) -> u64 {
        self.max.map_or(0, |max| max.latency_ns)
    }

    /// The longest and whose it was.
    pub fn max(&self) -> Option<Maximum> {
        self.max
    }

    /// The smallest value that at least `percent` % of the waits do not exceed: ns, to three significant digits, or no more
    /// than 1/32 above where the kernel counted, and never outside the exact minimum and maximum. 0 where there is none.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if let Some(sampled) = self.sampled().filter(|sampled| !sampled.is_of_one_level()) {
            return sampled.percentile_ns(percent).clamp(self.min_ns(), self.max_ns());
        }
        let value = match &self.values {
            Values::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
                sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
            }
            Values::Many(histogram) => histogram.value_at_percentile(percent),
            Values::Buckets(buckets) => {
                let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
                let mut up_to = 0;
                let found = buckets.iter().position(|count| {
                    up_to += count;
                    up_to >= rank
                });
                // The largest value that the bucket takes.
                found.map_or(0, |index| bucket::upper(index).saturating_sub(1))
            }
        };
        value.clamp(self.min_ns(), self.max_ns())
    }

    /// The waits by bucket ([`bucket`]): rising, without the empty ones. Their counts add up to [`Self::count`].
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        self.values.for_each(|value, count| {
            let index = bucket::index(value);
            let from_ns = bucket::lower(index);
            match buckets.last_mut() {
                Some(last) if last.from_ns == from_ns => last.count += count,
                _ => buckets.push(Bucket { from_ns, to_ns: bucket::upper(index), count }),
            }
        });
        buckets
    }

    /// Adds all of `other`'s waits.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        if other.max_ns() > self.max_ns() || self.max.is_none() {
            self.max = other.max;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        if let Some(sampled) = other.sampled() {
            self.sampled.get_or_insert_default().add(sampled);
        }
        let mut many = match (std::mem::take(&mut self.values), &other.values) {
            (Values::Buckets(buckets), _) => return self.add_buckets(buckets, other),
            (values, Values::Buckets(_)) => {
                let mut buckets = Box::new([0; BUCKETS]);
                values.for_each(|value, count| buckets[bucket::index(value)] += count);
                return self.add_buckets(buckets, other);
            }
            (Values::Many(many), _) => many,
            (Values::Few(values), _) => {
                let mut many = histogram();
                values.into_iter().for_each(|value| record(&mut many, value));
                many
            }
        };
        other.values.for_each(|value, count| {
            many.record_n(value, count).expect("an auto-resizing histogram takes any u64");
        });
        self.values = Values::Many(many);
    }

    /// Takes `buckets` and those of `other` for its values.
    fn add_buckets(&mut self, mut buckets: Box<[u64; BUCKETS]>, other: &Self) {
        other.values.for_each(|value, count| buckets[bucket::index(value)] += count);
        self.values = Values::Buckets(buckets);
    }
}

impl Values {
    /// Calls `visit` with each distinct value and its count, rising.
    fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        match self {
            Values::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted.into_iter().for_each(|value| visit(value, 1));
            }
            Values::Many(histogram) => {
                for step in histogram.iter_recorded() {
                    // The lower end of the histogram's own slot: it never lies in a bucket above the value's.
                    visit(histogram.lowest_equivalent(step.value_iterated_to()), step.count_at_value());
                }
            }
            Values::Buckets(buckets) => {
                let used = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
                used.for_each(|(index, count)| visit(bucket::lower(index), *count));
            }
        }
    }
}

fn histogram() -> Box<Histogram<u64>> {
    let mut histogram = Histogram::new(DIGITS).expect("3 digits are within the crate's limits");
    histogram.auto(true);
    Box::new(histogram)
}

fn record(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("an auto-resizing histogram takes any u64");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use wakelat_common::Sample;

    use super::*;

    fn wait(latency_ns: u64) -> Maximum {
        Maximum { latency_ns, at_ns: latency_ns, tid: 1, comm: Comm::default(), cpu: 0 }
    }

    fn distribution(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::default();
        values.into_iter().for_each(|value| distribution.record(wait(value)));
        distribution
    }

    #[test]
    fn t19_no_value_is_clamped_or_lost() {
        let values = (0..64).map(|k| 1u64 << k).chain([0, u64::MAX, u64::MAX - 1]);
        let repeated = values.clone().chain(values.clone());
        let all = distribution(repeated.clone());
        assert_eq!(all.count(), repeated.clone().count() as u64);
        assert_eq!(all.sum_ns(), repeated.map(u128::from).sum::<u128>());
        assert_eq!((all.min_ns(), all.max_ns()), (0, u64::MAX));
        assert_eq!(all.buckets().iter().map(|bucket| bucket.count).sum::<u64>(), all.count());
    }

    #[test]
    fn t22_a_wait_of_fifteen_seconds_is_data() {
        let waits = distribution((0..1000).map(|_| 1000).chain([15_000_000_000]));
        assert_eq!(waits.max_ns(), 15_000_000_000);
        assert_eq!(waits.percentile_ns(100.0), 15_000_000_000);
        assert_eq!(waits.buckets().last().map(|bucket| bucket.count), Some(1));
    }

    #[test]
    fn an_empty_distribution_is_all_zeros() {
        let none = Distribution::default();
        assert_eq!((none.count(), none.min_ns(), none.max_ns(), none.mean_ns()), (0, 0, 0, 0));
        assert_eq!(none.percentile_ns(99.0), 0);
        assert!(none.buckets().is_empty());
    }

    /// As the kernel would have counted them.
    fn counted(values: &[u64]) -> Distribution {
        let mut counted = Box::new(Counted::EMPTY);
        values.iter().for_each(|value| {
            let sample = || Sample { latency_ns: *value, at_ns: *value, pid: 1, ..Sample::NONE };
            counted.record(*value, sample);
        });
        Distribution::counted(&counted)
    }

    proptest! {
        #[test]
        fn the_same_waits_by_samples_and_counted_in_the_kernel_are_the_same_report(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (8 + v % 52)), 1..300), cut in 0usize..300) {
            let samples = distribution(values.iter().copied());
            let (one, other) = values.split_at(cut.min(values.len()));
            let mut aggregate = counted(one);
            aggregate.add(&counted(other));
            prop_assert_eq!(aggregate.count(), samples.count());
            prop_assert_eq!(aggregate.sum_ns(), samples.sum_ns());
            prop_assert_eq!((aggregate.min_ns(), aggregate.max()), (samples.min_ns(), samples.max()));
            prop_assert_eq!(aggregate.buckets(), samples.buckets());
            let mut sorted = values;
            sorted.sort_unstable();
            for percent in [0.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                let rank = ((percent / 100.0 * sorted.len() as f64).ceil() as usize).max(1);
                let (got, exact) = (aggregate.percentile_ns(percent), sorted[rank - 1]);
                prop_assert!(got >= exact && got - exact <= exact / 32, "p{percent}: {got} for {exact}");
            }
        }

        #[test]
        fn percentiles_are_right_to_three_digits(mut values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 60)), 1..300)) {
            let all = distribution(values.iter().copied());
            values.sort_unstable();
            for percent in [0.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
                let (got, exact) = (all.percentile_ns(percent), values[rank - 1]);
                prop_assert!(got.abs_diff(exact) <= exact / 1000 + 1, "p{percent}: {got} for {exact}");
            }
        }

        #[test]
        fn buckets_hold_the_values_that_were_recorded(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 60)), 0..300)) {
            let all = distribution(values.iter().copied());
            let mut expected = std::collections::BTreeMap::new();
            for value in values {
                *expected.entry(bucket::lower(bucket::index(value))).or_insert(0u64) += 1;
            }
            let got: std::collections::BTreeMap<_, _> = all.buckets().iter().map(|bucket| (bucket.from_ns, bucket.count)).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn adding_is_as_if_recorded_together(a in prop::collection::vec(0..1_000_000u64, 0..100), b in prop::collection::vec(0..1_000_000u64, 0..100)) {
            let mut sum = distribution(a.iter().copied());
            sum.add(&distribution(b.iter().copied()));
            let together = distribution(a.into_iter().chain(b));
            prop_assert_eq!(sum.count(), together.count());
            prop_assert_eq!(sum.sum_ns(), together.sum_ns());
            prop_assert_eq!((sum.min_ns(), sum.max_ns()), (together.min_ns(), together.max_ns()));
            prop_assert_eq!(sum.buckets(), together.buckets());
        }
    }
}
