//! Estimates the percentiles of all waits from the waits of a random subset of tasks, in random periods
//! of time. Pure.
//!
//! **Weights.** A wait is recorded if its task is sampled and if it begins and ends in one period. Its
//! weight is the inverse of the probability of that (Horvitz and Thompson 1952): the inverse sampling
//! rate of its task, times `(R + P) / (P - L)` for a wait of length `L` in a period of length `P` after
//! a pause `R`. Long waits are cut off by the beginning of a period more often than short ones: of the
//! instants at which a wait of length `L` can end in the period, it is seen from its beginning only at
//! `P - L` (the weights of Miles and Lantuéjoul for objects that lie wholly within a window; Baddeley
//! 1999, "Spatial sampling and censoring").
//!
//! **Variance.** Tasks and periods are sampled, not waits, and the waits of one task or period resemble
//! each other. So tasks and periods are split into `RANDOM_GROUPS` groups, and the spread over the
//! groups of the share of waits up to the percentile gives the variance of that share (random groups;
//! Wolter, "Introduction to Variance Estimation"). The variances by tasks and by periods are added; what
//! they have in common counts twice, and is subtracted as if waits were otherwise independent (Cameron,
//! Gelbach and Miller 2011).
//!
//! **Interval.** The variance equals that of some number of independent waits, the effective sample
//! size, which is reduced if few groups show it (by the squared ratio of the normal quantile to
//! Student's; Korn and Graubard 1998). The interval is that of order statistics for as many independent
//! waits (Hahn and Meeker, "Statistical Intervals", 5.2): it needs no assumption about the distribution,
//! and it is open if the sample is too small to bound the percentile.
//!
//! If all tasks are measured, as in waits that the kernel aggregated, only periods are sampled.
//!
//! **Few pauses.** A single period shows no spread. The waits in the pauses, a known share of all, may then be all
//! shorter or all longer than the percentile, so the interval is widened by that share on both sides.

use std::{borrow::Cow, collections::BTreeMap};

use wakelat_common::{bucket, task_sampling::fmix64};

mod ranks;

use self::ranks::{NORMAL, quantile, ranks};
use super::percentile_rank::{Percentile, first};

/// Number of random groups of the sampled tasks, and of the periods.
const RANDOM_GROUPS: usize = 64;

/// The probability that an interval contains the percentile of all waits: percent.
pub const CONFIDENCE_PERCENT: u32 = 95;

/// A wait longer than this share of its period gets the weight of a wait of this share: few such waits
/// are seen, and each would weigh too much.
const MAX_LATENCY_SHARE: f64 = 0.9;

/// The time between two pauses, in which waits are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Number of periods before it in the run.
    pub number: u64,
    /// Length of the pause before it: ns; 0 for none.
    pub pause_ns: u64,
}

impl Period {
    /// The first period, with no pause before it.
    pub const FIRST: Self = Self { number: 0, pause_ns: 0 };

    /// The weight of a wait of `latency_ns` in this period, in which `length_ns` were measured.
    fn weight(self, length_ns: u64, latency_ns: f64) -> f64 {
        if self.pause_ns == 0 {
            return 1.0;
        }
        let length_ns = length_ns.max(1) as f64;
        (self.pause_ns as f64 + length_ns) / (length_ns - latency_ns.min(MAX_LATENCY_SHARE * length_ns))
    }
}

/// The sampling in force in a window, whether or not a wait was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingState {
    /// Tasks were sampled with shifts up to this.
    pub max_shift: u8,
    /// There were pauses.
    pub with_pauses: bool,
}

/// The waits of sampled tasks.
#[derive(Clone, Debug, Default)]
pub struct SampledDistribution {
    /// Their weight, by bucket and random group of the task.
    by_task: BTreeMap<(u16, u8), f64>,
    /// Their weight, by bucket and random group of the period, only for periods after a pause: the
    /// others are certain to be seen.
    by_period: BTreeMap<(u16, u8), f64>,
    sums: WeightSums,
    /// The sampling in force, and the part of it for which waits were recorded.
    in_force_and_recorded: (SamplingState, SamplingState),
    current: Current,
}

/// The current period: its waits have no weight until its length is known.
#[derive(Clone, Debug, Default)]
struct Current {
    period: Period,
    /// How much of it was measured so far: ns.
    length_ns: u64,
    /// Number of waits by bucket, sampling shift and random group of the task.
    waits: BTreeMap<(u16, u8, u8), u64>,
}

/// Sums over all recorded waits.
#[derive(Clone, Copy, Debug, Default)]
struct WeightSums {
    recorded: f64,
    weight: f64,
    squared_weights: f64,
    /// The weight without that of the task: an estimate of the waits of the sampled tasks.
    period_weight: f64,
    /// Of waits in periods after a pause: the weight, and the weight without that of the period, an
    /// estimate of the waits in the measured time.
    weight_after_pauses: f64,
    shift_weight_after_pauses: f64,
    /// The smallest and the largest weight of a wait.
    min_weight: f64,
    max_weight: f64,
}

/// The bounds of a percentile of the waits of all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfidenceInterval {
    /// The percentile is not below this: ns.
    pub low_ns: u64,
    /// The percentile is not above this: ns; none if the sample gives no upper bound.
    pub high_ns: Option<u64>,
}

/// One random group of tasks or periods: the weight of its waits up to a value, and of all its waits.
#[derive(Clone, Copy, Default)]
struct RandomGroup {
    up_to: f64,
    all: f64,
}

impl SampledDistribution {
    /// Adds a wait of task `tid`, sampled with `shift` in `period`.
    pub fn record(&mut self, tid: u32, shift: u8, period: Period, latency_ns: u64) {
        self.add_waits(period, (bucket::index(latency_ns) as u16, shift, random_group(tid.into())), 1);
    }

    /// Adds `count` waits of `latency_ns`, to the width of a bucket, which the kernel aggregated in `period`. As all tasks
    /// are measured, their random group does not matter.
    pub fn record_counted(&mut self, period: Period, latency_ns: u64, count: u64) {
        self.add_waits(period, (bucket::index(latency_ns) as u16, 0, 0), count);
    }

    fn add_waits(&mut self, period: Period, key: (u16, u8, u8), count: u64) {
        self.current.period = period;
        *self.current.waits.entry(key).or_default() += count;
    }

    /// Sets how much of the current period has been measured so far: ns.
    pub fn measured(&mut self, length_ns: u64) {
        self.current.length_ns = length_ns;
    }

    /// Ends the current period, in which `length_ns` were measured: its waits get their weights.
    pub fn end_period(&mut self, length_ns: u64) {
        let Current { period, waits, .. } = std::mem::take(&mut self.current);
        let after_pause = period.pause_ns > 0;
        for ((bucket, shift, group), count) in waits {
            let middle_ns = middle_ns(bucket);
            let (count, shift_weight) = (count as f64, f64::from(1u32 << shift));
            let period_weight = period.weight(length_ns, middle_ns);
            let weight = shift_weight * period_weight;
            *self.by_task.entry((bucket, group)).or_default() += count * weight;
            if after_pause {
                *self.by_period.entry((bucket, (period.number % RANDOM_GROUPS as u64) as u8)).or_default() +=
                    count * weight;
            }
            self.in_force_and_recorded.1.add(SamplingState { max_shift: shift, with_pauses: after_pause });
            self.sums.add(&WeightSums {
                recorded: count,
                weight: count * weight,
                squared_weights: count * weight.powi(2),
                period_weight: count * period_weight,
                weight_after_pauses: if after_pause { count * weight } else { 0.0 },
                shift_weight_after_pauses: if after_pause { count * shift_weight } else { 0.0 },
                min_weight: weight,
                max_weight: weight,
            });
        }
    }

    /// The distribution as if the current period had ended now.
    fn ended(&self) -> Cow<'_, Self> {
        if self.current.waits.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut ended = self.clone();
        ended.end_period(self.current.length_ns);
        Cow::Owned(ended)
    }

    /// Adds the sampling that was in force.
    pub fn add_state(&mut self, state: SamplingState) {
        self.in_force_and_recorded.0.add(state);
    }

    /// Adds all waits of `other`.
    pub fn add(&mut self, other: &Self) {
        self.in_force_and_recorded.0.add(other.in_force_and_recorded.0);
        self.in_force_and_recorded.1.add(other.in_force_and_recorded.1);
        self.sums.add(&other.sums);
        for (ours, theirs) in [(&mut self.by_task, &other.by_task), (&mut self.by_period, &other.by_period)] {
            theirs.iter().for_each(|(key, weight)| *ours.entry(*key).or_default() += weight);
        }
        if !other.current.waits.is_empty() {
            (self.current.period, self.current.length_ns) = (other.current.period, other.current.length_ns);
        }
        other.current.waits.iter().for_each(|(key, count)| *self.current.waits.entry(*key).or_default() += count);
    }

    /// Whether all waits have the same weight.
    pub fn is_even(&self) -> bool {
        let WeightSums { min_weight, max_weight, .. } = self.ended().sums;
        min_weight == max_weight
    }

    /// The weight by bucket, in ascending order.
    fn weighted(&self) -> BTreeMap<u16, f64> {
        let mut buckets = BTreeMap::new();
        self.by_task.iter().for_each(|((bucket, _), weight)| *buckets.entry(*bucket).or_default() += weight);
        buckets
    }

    /// The percentile of the waits of all tasks: ns, the largest value of its bucket. 0 if there is no
    /// wait.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        let buckets = self.ended().weighted();
        percentile.find_weighted(&buckets).map_or(0, |bucket| bucket::upper(bucket.into()).saturating_sub(1))
    }

    /// The confidence interval of a percentile of the waits of all tasks. None if one random group of
    /// the tasks has all waits, if no wait was recorded with the largest shift, or
    /// after a pause, although they were in force, or for the minimum and the maximum.
    pub fn interval(&self, percentile: Percentile) -> Option<ConfidenceInterval> {
        self.ended().interval_of_ended(percentile)
    }

    fn interval_of_ended(&self, percentile: Percentile) -> Option<ConfidenceInterval> {
        let (in_force, known) = self.in_force_and_recorded;
        if in_force.max_shift > known.max_shift || in_force.with_pauses && !known.with_pauses {
            return None;
        }
        let share = percentile.fraction();
        let of_one = share * (1.0 - share);
        if of_one == 0.0 {
            // No sample bounds the minimum and the maximum of all waits.
            return None;
        }
        let buckets = self.weighted();
        let found = percentile.find_weighted(&buckets)?;
        let WeightSums {
            recorded,
            weight,
            squared_weights,
            period_weight,
            weight_after_pauses,
            shift_weight_after_pauses,
            ..
        } = self.sums;
        // Only the unseen share can differ from the sample.
        let unseen = |seen: f64, all: f64| if seen < all { 1.0 - seen / all } else { 0.0 };
        let unseen_waits = unseen(recorded, weight);
        if unseen_waits == 0.0 {
            let bucket = usize::from(found);
            return Some(ConfidenceInterval {
                low_ns: bucket::lower(bucket),
                high_ns: Some(bucket::upper(bucket) - 1),
            });
        }
        let found_share = random_groups(&self.by_task, found).iter().map(|group| group.up_to).sum::<f64>() / weight;
        // At least the variance of independent waits: groups can agree by chance, especially for a
        // percentile near 0 or 100 %.
        let of_waits = unseen_waits * of_one * squared_weights / weight.powi(2);
        const NONE: (f64, f64) = (0.0, 1.0);
        let by = |groups: &BTreeMap<_, _>, unseen: f64| {
            if unseen == 0.0 {
                return Some(NONE);
            }
            let (variance, used) = spread(&self::random_groups(groups, found), found_share)?;
            Some((unseen * variance / weight.powi(2), used - 1.0))
        };
        let (by_task, of_tasks) = by(&self.by_task, unseen(period_weight, weight))?;
        let by_period = by(&self.by_period, unseen(shift_weight_after_pauses, weight_after_pauses));
        let in_pauses = (weight_after_pauses - shift_weight_after_pauses).max(0.0) / weight;
        let widened_by = if by_period.is_none() { in_pauses } else { 0.0 };
        let (by_period, of_periods) = by_period.unwrap_or(NONE);
        let in_both = if by_task > 0.0 && by_period > 0.0 { of_waits } else { 0.0 };
        let variance = (by_task + by_period - in_both).max(of_waits);
        // Of the two degrees of freedom, that of their sum (Satterthwaite 1946).
        let freedom = (by_task + by_period).powi(2) / (by_task.powi(2) / of_tasks + by_period.powi(2) / of_periods);
        let effective = of_one / variance * (NORMAL / quantile(freedom)).powi(2);
        let (below, up_to) = ranks(effective, share);
        let low =
            below.map(|share| share - widened_by).filter(|share| *share > 0.0).and_then(|share| at(&buckets, share));
        let high =
            up_to.map(|share| share + widened_by).filter(|share| *share <= 1.0).and_then(|share| at(&buckets, share));
        if low.is_none() && high.is_none() {
            return None;
        }
        Some(ConfidenceInterval {
            low_ns: low.map_or(0, |low| bucket::lower(low.into())),
            high_ns: high.map(|bucket| bucket::upper(bucket.into()).saturating_sub(1)),
        })
    }
}

impl SamplingState {
    fn add(&mut self, other: Self) {
        self.max_shift = self.max_shift.max(other.max_shift);
        self.with_pauses |= other.with_pauses;
    }
}

impl WeightSums {
    fn add(&mut self, other: &Self) {
        if self.recorded == 0.0 {
            *self = *other;
        } else if other.recorded > 0.0 {
            self.recorded += other.recorded;
            self.weight += other.weight;
            self.squared_weights += other.squared_weights;
            self.period_weight += other.period_weight;
            self.weight_after_pauses += other.weight_after_pauses;
            self.shift_weight_after_pauses += other.shift_weight_after_pauses;
            self.min_weight = self.min_weight.min(other.min_weight);
            self.max_weight = self.max_weight.max(other.max_weight);
        }
    }
}

/// The middle of a bucket: ns.
fn middle_ns(bucket: u16) -> f64 {
    let bucket = usize::from(bucket);
    (bucket::lower(bucket) as f64 + bucket::upper(bucket) as f64) / 2.0
}

/// The random group of the task with this id.
fn random_group(tid: u64) -> u8 {
    (fmix64(tid) % RANDOM_GROUPS as u64) as u8
}

/// The random groups, with the weight of their waits in buckets up to `bucket`.
fn random_groups(weights: &BTreeMap<(u16, u8), f64>, bucket: u16) -> [RandomGroup; RANDOM_GROUPS] {
    let mut groups = [RandomGroup::default(); RANDOM_GROUPS];
    for ((at, group), weight) in weights {
        let group = &mut groups[usize::from(*group)];
        group.all += weight;
        if *at <= bucket {
            group.up_to += weight;
        }
    }
    groups
}

/// The variance of the weight of the waits up to a value, which are `share` of all; and the number of
/// equal groups that would give as much information (Kish 1965): a few waits of very large weight give
/// little. None if that number is less than two.
fn spread(groups: &[RandomGroup; RANDOM_GROUPS], share: f64) -> Option<(f64, f64)> {
    let all: f64 = groups.iter().map(|group| group.all).sum();
    let used = all.powi(2) / groups.iter().map(|group| group.all.powi(2)).sum::<f64>();
    // NaN if there is no wait: the comparison is false.
    let is_enough = used >= 2.0;
    let spread: f64 = groups.iter().map(|group| (group.up_to - share * group.all).powi(2)).sum();
    is_enough.then_some((spread * used / (used - 1.0), used))
}

/// The first bucket up to which there is at least `share` of the weight.
fn at(buckets: &BTreeMap<u16, f64>, share: f64) -> Option<u16> {
    first(buckets, |up_to, all| up_to >= share * all)
}

#[cfg(test)]
mod tests;
