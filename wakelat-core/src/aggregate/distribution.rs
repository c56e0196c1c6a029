//! The distribution of one group's waits.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use wakelat_common::{
    Sample,
    bucket::{self, BUCKETS},
    group::GroupElement,
    histogram::Histogram as Counted,
};

use super::{
    estimate::{Period, SampledDistribution, SamplingState},
    latency_store::{BucketCounts, Values},
    percentile_rank::Percentile,
};
use crate::wait::Comm;

/// The waits of one group: exact count, sum, minimum and maximum; percentiles to three significant
/// digits, or to the width of a bucket if the kernel aggregated the waits.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    /// The longest wait, unless its task is unknown.
    max: Option<Maximum>,
    values: Values,
    /// Estimates for all tasks, if only sampled tasks were measured.
    sampled: Option<Box<SampledDistribution>>,
}

/// The longest wait, and the task that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maximum {
    /// Its latency: ns.
    pub latency_ns: u64,
    /// When it ended: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Thread that waited.
    pub tid: u32,
    /// Name of that thread.
    pub comm: Comm,
    /// CPU on which the wait ended.
    pub cpu: u32,
}

/// One bucket of a distribution: `from_ns <= value < to_ns`; the topmost one includes `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value: ns.
    pub from_ns: u64,
    /// Smallest value above the bucket: ns.
    pub to_ns: u64,
    /// Number of waits in the bucket.
    pub count: u64,
}

impl Maximum {
    fn of(sample: &Sample) -> Self {
        Self {
            latency_ns: sample.latency_ns,
            at_ns: sample.at_ns,
            tid: sample.pid,
            comm: Comm::new(&sample.comm),
            cpu: sample.cpu,
        }
    }
}

impl Distribution {
    /// The distribution that one CPU aggregated for one class.
    pub fn counted(counted: &Counted) -> Self {
        let longest = counted.worst().iter().max_by_key(|sample| (sample.latency_ns, Reverse(sample.at_ns)));
        let mut buckets = [0; BUCKETS];
        buckets.copy_from_slice(&counted.buckets[..BUCKETS]);
        Self {
            count: counted.count(),
            sum_ns: counted.sum_ns.into(),
            min_ns: counted.min_ns(),
            max_ns: longest.map_or(0, |sample| sample.latency_ns),
            max: longest.map(Maximum::of),
            values: Values::Buckets(BucketCounts::of_all(&buckets)),
            sampled: None,
        }
    }

    /// The distribution that one CPU aggregated for the waits of a group that are in one octave.
    pub fn of_element(element: &GroupElement) -> Self {
        Self {
            count: element.count(),
            sum_ns: element.sum_ns.into(),
            min_ns: element.min_ns,
            max_ns: element.longest.latency_ns,
            max: Some(Maximum::of(&element.longest)),
            values: Values::Buckets(BucketCounts::of_octave(element.octave(), &element.buckets)),
            sampled: None,
        }
    }

    /// Adds a wait to the estimates: its task `tid` was sampled with `shift` in `period`. The wait
    /// itself is added with [`Self::record`].
    pub fn record_sampled(&mut self, tid: u32, shift: u8, period: Period, latency_ns: u64) {
        self.sampled.get_or_insert_default().record(tid, shift, period, latency_ns);
    }

    /// Adds all waits, which the kernel aggregated, to the estimates: they are those of all tasks in `period`.
    pub fn measured_in(mut self, period: Period) -> Self {
        let sampled = self.sampled.get_or_insert_default();
        self.values.for_each(|value, count| sampled.record_counted(period, value, count));
        self
    }

    /// Sets how much of the current period has been measured so far: ns.
    pub fn measured(&mut self, length_ns: u64) {
        if let Some(sampled) = &mut self.sampled {
            sampled.measured(length_ns);
        }
    }

    /// Ends the current period, in which `length_ns` were measured.
    pub fn end_period(&mut self, length_ns: u64) {
        if let Some(sampled) = &mut self.sampled {
            sampled.end_period(length_ns);
        }
    }

    /// Adds the sampling that was in force.
    pub fn add_sampling_state(&mut self, state: SamplingState) {
        if let Some(sampled) = &mut self.sampled {
            sampled.add_state(state);
        }
    }

    /// The estimates for all tasks, if only sampled tasks were measured.
    pub fn sampled(&self) -> Option<&SampledDistribution> {
        self.sampled.as_deref()
    }

    /// Adds one wait.
    pub fn record(&mut self, wait: Maximum) {
        let latency_ns = wait.latency_ns;
        self.min_ns = if self.count == 0 { latency_ns } else { self.min_ns.min(latency_ns) };
        if self.count == 0 || latency_ns > self.max_ns {
            (self.max_ns, self.max) = (latency_ns, Some(wait));
        }
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        self.values.record(latency_ns);
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all latencies: ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The average latency: ns, rounded down; 0 if there is no wait.
    pub fn avg_ns(&self) -> u64 {
        u64::try_from(self.sum_ns / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// The shortest latency, exact: ns; 0 if there is no wait.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The longest latency, exact: ns; 0 if there is no wait.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The longest wait, and the task that waited; `None` if there is no wait, or if the task is unknown.
    pub fn max(&self) -> Option<Maximum> {
        self.max
    }

    /// The smallest value that at least this share of the waits does not exceed: ns, to three
    /// significant digits, or at most 1/32 too high if the kernel aggregated the waits, and never
    /// outside the exact minimum and maximum. 0 if there is no wait.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        if let Some(sampled) = self.sampled().filter(|sampled| !sampled.is_even()) {
            return sampled.percentile_ns(percentile).clamp(self.min_ns(), self.max_ns());
        }
        let found = self.values.percentile(percentile, self.count);
        found.unwrap_or(0).clamp(self.min_ns(), self.max_ns())
    }

    /// The waits by bucket ([`bucket`]), in ascending order, without empty buckets. Their counts add up
    /// to [`Self::count`].
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

    /// Calls `visit` with latencies (ns) in ascending order and the number of their waits: as exact as they are kept, and
    /// waits of a bucket at its lower end. A latency can come several times.
    pub fn for_each_value(&self, visit: impl FnMut(u64, u64)) {
        self.values.for_each(visit);
    }

    /// Adds all waits of `other`.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.add_figures(other.count, (other.sum_ns, other.min_ns, other.max_ns), other.max);
        if let Some(sampled) = other.sampled() {
            self.sampled.get_or_insert_default().add(sampled);
        }
        self.values.add(&other.values);
    }

    /// Adds at least one wait: how many are in each of these [`bucket`]s, and exactly their sum, the
    /// shortest and the longest in ns. `longest` is the wait of that length, if its task is known.
    pub fn add_buckets(
        &mut self,
        buckets: impl Iterator<Item = (usize, u64)> + Clone,
        figures: (u128, u64, u64),
        longest: Option<Maximum>,
    ) {
        let count = buckets.clone().fold(0, |count: u64, (_, more)| count.saturating_add(more));
        self.add_figures(count, figures, longest);
        self.values.add_counts(buckets);
    }

    fn add_figures(&mut self, count: u64, (sum_ns, min_ns, max_ns): (u128, u64, u64), max: Option<Maximum>) {
        self.min_ns = if self.count == 0 { min_ns } else { self.min_ns.min(min_ns) };
        self.max_ns = self.max_ns.max(max_ns);
        let longest = self.max.into_iter().chain(max).filter(|max| max.latency_ns == self.max_ns);
        self.max = longest.min_by_key(|max| max.at_ns);
        // The figures of a recording can be any numbers.
        self.count = self.count.saturating_add(count);
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }
}

#[cfg(test)]
mod tests;
