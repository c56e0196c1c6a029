//! Estimates the percentiles of all waits from the waits of a random subset of tasks, in random periods of time: pure.
//!
//! **Weights.** A wait is recorded if its task is sampled and if it begins and ends in one period. Its weight is the inverse of the
//! probability of that (Horvitz and Thompson 1952): the sampling rate of its task, and for a period of length `P` after a
//! pause `R`, `(R + P) / (P - L)` for a wait of length `L`. Long waits are cut off by the beginning of a period more often than short ones: of the instants
//! at which a wait of length `L` can end in the period, it is seen from its beginning at `P - L` only (the weights of Miles and
//! Lantuéjoul for objects that lie wholly within a window; Baddeley 1999, "Spatial sampling and censoring").
//!
//! **Variance.** Tasks and periods are sampled, not waits, and the waits of one task or period resemble each other. So tasks and periods are
//! split into `RANDOM_GROUPS`, and the spread over the parts of the share of waits up to the percentile gives the variance of
//! that share (random groups; Wolter, "Introduction to Variance Estimation"). The variances by tasks and by periods are added; what both have in
//! common counts twice, and is taken off as if waits were independent otherwise (Cameron, Gelbach and Miller 2011).
//!
//! **Interval.** The variance is that of so many independent waits (the effective sample size), fewer where few parts show
//! it (by the squared ratio of the normal quantile to Student's; Korn and Graubard 1998). The interval is that of order statistics for as many independent waits
//! (Hahn and Meeker, "Statistical Intervals", 5.2): it needs no assumption about the distribution, and it is open where the sample is
//! too small to bound the percentile.

use std::{borrow::Cow, collections::BTreeMap};

use wakelat_common::{bucket, share::fmix64};

use super::rank::{Percentile, first};

/// Parts of the sampled tasks, and of the periods.
const RANDOM_GROUPS: usize = 64;

/// The probability with which an interval holds the percentile of all waits: percent.
pub const CONFIDENCE_PERCENT: u32 = 95;

/// A wait that is longer than this part of its period has the weight of one that is not: few are seen, and each would weigh too much.
const MAX_LATENCY_SHARE: f64 = 0.9;

/// A stretch of time in which waits are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Periods of the run before it.
    pub number: u64,
    /// The pause before it: ns; 0 for none.
    pub pause_ns: u64,
}

impl Period {
    /// The first, with no pause before it.
    pub const FIRST: Self = Self { number: 0, pause_ns: 0 };

    /// The weight of a wait in this period, of which `length_ns` were measured.
    fn weight(self, length_ns: u64, latency_ns: f64) -> f64 {
        if self.pause_ns == 0 {
            return 1.0;
        }
        let length_ns = length_ns.max(1) as f64;
        (self.pause_ns as f64 + length_ns) / (length_ns - latency_ns.min(MAX_LATENCY_SHARE * length_ns))
    }
}

/// What was in force in a window, whether there was a wait or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingState {
    /// Tasks were drawn at levels up to this.
    pub max_shift: u8,
    /// There were rests.
    pub with_pauses: bool,
}

/// Waits of sampled tasks.
#[derive(Clone, Debug, Default)]
pub struct SampledDistribution {
    /// Their weight, by bucket and part of the tasks.
    by_task: BTreeMap<(u16, u8), f64>,
    /// Their weight by bucket and part of the periods, only for periods with a pause before them: the others are certain.
    by_period: BTreeMap<(u16, u8), f64>,
    sums: WeightSums,
    /// What was in force, and what of that was in force when a wait was recorded.
    in_force_and_recorded: (SamplingState, SamplingState),
    current: Current,
}

/// The period under way: its waits have no weight before its length is known.
#[derive(Clone, Debug, Default)]
struct Current {
    period: Period,
    /// What was measured of it so far: ns.
    length_ns: u64,
    /// Waits by bucket, level and part of the tasks.
    waits: BTreeMap<(u16, u8, u8), u64>,
}

/// Of all waits.
#[derive(Clone, Copy, Debug, Default)]
struct WeightSums {
    recorded: f64,
    weight: f64,
    squared_weights: f64,
    /// For how many they stand of the tasks that were drawn.
    period_weight: f64,
    /// Of those with a rest before them, for how many they stand, and for how many of the time that was watched.
    weight_after_pauses: f64,
    shift_weight_after_pauses: f64,
    /// The least and the most that one stands for.
    min_weight: f64,
    max_weight: f64,
}

/// Where a percentile of the waits of all tasks lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfidenceInterval {
    /// Not below this: ns.
    pub low_ns: u64,
    /// Not above this: ns; none where the drawn tasks do not tell.
    pub high_ns: Option<u64>,
}

/// One part of what was drawn: its waits up to a value, and all of them, each for as many as it stands for.
#[derive(Clone, Copy, Default)]
struct RandomGroup {
    up_to: f64,
    all: f64,
}

impl SampledDistribution {
    /// Adds a wait of `tid`, sampled at `level` in `period`.
    pub fn record(&mut self, tid: u32, level: u8, period: Period, latency_ns: u64) {
        self.current.period = period;
        *self.current.waits.entry((bucket::index(latency_ns) as u16, level, random_group(tid.into()))).or_default() +=
            1;
    }

    /// `length_ns` of the period under way were measured so far.
    pub fn measured(&mut self, length_ns: u64) {
        self.current.length_ns = length_ns;
    }

    /// The period under way has ended, of which `length_ns` were measured.
    pub fn end_period(&mut self, length_ns: u64) {
        let Current { period, waits, .. } = std::mem::take(&mut self.current);
        let is_after_rest = period.pause_ns > 0;
        for ((bucket, level, part), count) in waits {
            let middle_ns = middle_ns(bucket);
            let (count, of_level) = (count as f64, f64::from(1u32 << level));
            let of_period = period.weight(length_ns, middle_ns);
            let stands_for = of_level * of_period;
            *self.by_task.entry((bucket, part)).or_default() += count * stands_for;
            if is_after_rest {
                *self.by_period.entry((bucket, (period.number % RANDOM_GROUPS as u64) as u8)).or_default() +=
                    count * stands_for;
            }
            self.in_force_and_recorded.1.add(SamplingState { max_shift: level, with_pauses: is_after_rest });
            self.sums.add(&WeightSums {
                recorded: count,
                weight: count * stands_for,
                squared_weights: count * stands_for.powi(2),
                period_weight: count * of_period,
                weight_after_pauses: if is_after_rest { count * stands_for } else { 0.0 },
                shift_weight_after_pauses: if is_after_rest { count * of_level } else { 0.0 },
                min_weight: stands_for,
                max_weight: stands_for,
            });
        }
    }

    /// The same with the period under way as if it had ended.
    fn ended(&self) -> Cow<'_, Self> {
        if self.current.waits.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut ended = self.clone();
        ended.end_period(self.current.length_ns);
        Cow::Owned(ended)
    }

    /// Says what was in force.
    pub fn add_state(&mut self, drawn: SamplingState) {
        self.in_force_and_recorded.0.add(drawn);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.in_force_and_recorded.0.add(other.in_force_and_recorded.0);
        self.in_force_and_recorded.1.add(other.in_force_and_recorded.1);
        self.sums.add(&other.sums);
        for (ours, theirs) in [(&mut self.by_task, &other.by_task), (&mut self.by_period, &other.by_period)] {
            theirs.iter().for_each(|(key, stand_for)| *ours.entry(*key).or_default() += stand_for);
        }
        if !other.current.waits.is_empty() {
            (self.current.period, self.current.length_ns) = (other.current.period, other.current.length_ns);
        }
        other.current.waits.iter().for_each(|(key, count)| *self.current.waits.entry(*key).or_default() += count);
    }

    /// Whether all waits stand for equally many.
    pub fn is_even(&self) -> bool {
        let WeightSums { min_weight: least, max_weight: most, .. } = self.ended().sums;
        least == most
    }

    /// The waits by bucket, each for as many as it stands for; rising.
    fn weighted(&self) -> BTreeMap<u16, f64> {
        let mut buckets = BTreeMap::new();
        self.by_task.iter().for_each(|((bucket, _), stand_for)| *buckets.entry(*bucket).or_default() += stand_for);
        buckets
    }

    /// The percentile of the waits of all tasks: ns, the largest value of its bucket. 0 where there is no wait.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        let buckets = self.ended().weighted();
        percentile.find_weighted(&buckets).map_or(0, |bucket| bucket::upper(bucket.into()).saturating_sub(1))
    }

    /// Where the percentile of the waits of all tasks lies. None where one part of the tasks or of the periods has all waits,
    /// or where no wait was recorded at the highest level, or after a pause, although they were in force.
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
            // The shortest and the longest of all: no sample bounds them.
            return None;
        }
        let buckets = self.weighted();
        let found = percentile.find_weighted(&buckets)?;
        let WeightSums {
            recorded,
            weight: stand_for,
            squared_weights: squares,
            period_weight: of_drawn,
            weight_after_pauses: after_rests,
            shift_weight_after_pauses: of_watched,
            ..
        } = self.sums;
        // Only what was not seen can differ.
        let unseen = |seen: f64, of: f64| if seen < of { 1.0 - seen / of } else { 0.0 };
        let unseen_waits = unseen(recorded, stand_for);
        if unseen_waits == 0.0 {
            let bucket = usize::from(found);
            return Some(ConfidenceInterval {
                low_ns: bucket::lower(bucket),
                high_ns: Some(bucket::upper(bucket) - 1),
            });
        }
        let found_share = random_groups(&self.by_task, found).iter().map(|part| part.up_to).sum::<f64>() / stand_for;
        // Never less than of independent waits: parts may agree by chance, all the more where the percentile is near an end.
        let of_waits = unseen_waits * of_one * squares / stand_for.powi(2);
        let by = |parts: &BTreeMap<_, _>, unseen: f64| {
            if unseen == 0.0 {
                return Some((0.0, 1.0));
            }
            let (variance, used) = spread(&self::random_groups(parts, found), found_share)?;
            Some((unseen * variance / stand_for.powi(2), used - 1.0))
        };
        let (by_task, of_tasks) = by(&self.by_task, unseen(of_drawn, stand_for))?;
        let (by_period, of_periods) = by(&self.by_period, unseen(of_watched, after_rests))?;
        let in_both = if by_task > 0.0 && by_period > 0.0 { of_waits } else { 0.0 };
        let variance = (by_task + by_period - in_both).max(of_waits);
        // Of the two degrees of freedom, that of their sum (Satterthwaite 1946).
        let freedom = (by_task + by_period).powi(2) / (by_task.powi(2) / of_tasks + by_period.powi(2) / of_periods);
        let effective = of_one / variance * (NORMAL / quantile(freedom)).powi(2);
        let (below, up_to) = ranks(effective, share);
        let low = below.and_then(|share| at(&buckets, share));
        let high = up_to.and_then(|share| at(&buckets, share));
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

/// The part to which the task of this number belongs.
fn random_group(number: u64) -> u8 {
    (fmix64(number) % RANDOM_GROUPS as u64) as u8
}

/// The parts, with their waits in buckets up to `bucket`.
fn random_groups(counts: &BTreeMap<(u16, u8), f64>, bucket: u16) -> [RandomGroup; RANDOM_GROUPS] {
    let mut parts = [RandomGroup::default(); RANDOM_GROUPS];
    for ((at, part), stand_for) in counts {
        let part = &mut parts[usize::from(*part)];
        part.all += stand_for;
        if *at <= bucket {
            part.up_to += stand_for;
        }
    }
    parts
}

/// The variance of the number of waits up to a value, where of all of them it is `share`; and how many equal parts would tell
/// as much (Kish 1965): a few that stand for very many tell little. None where it is less than two.
fn spread(parts: &[RandomGroup; RANDOM_GROUPS], share: f64) -> Option<(f64, f64)> {
    let all: f64 = parts.iter().map(|part| part.all).sum();
    let used = all.powi(2) / parts.iter().map(|part| part.all.powi(2)).sum::<f64>();
    // Not a number where there is no wait.
    let is_enough = used >= 2.0;
    let spread: f64 = parts.iter().map(|part| (part.up_to - share * part.all).powi(2)).sum();
    is_enough.then_some((spread * used / (used - 1.0), used))
}

/// The first bucket up to which at least `share` of the waits are.
fn at(buckets: &BTreeMap<u16, f64>, share: f64) -> Option<u16> {
    first(buckets, |up_to, all| up_to >= share * all)
}

/// The shares of the sample between which the percentile of all lies, where the sample is as good as `size` independent waits; none where it may
/// lie below the shortest or above the longest of them.
fn ranks(size: f64, share: f64) -> (Option<f64>, Option<f64>) {
    let (low, high) = ranks_from(size, share.min(1.0 - share));
    let mirrored = |share: Option<f64>| share.map(|share| 1.0 - share);
    if share <= 0.5 { (low, high) } else { (mirrored(high), mirrored(low)) }
}

/// The same for a share of at most a half.
fn ranks_from(size: f64, share: f64) -> (Option<f64>, Option<f64>) {
    const TAIL: f64 = (1.0 - CONFIDENCE_PERCENT as f64 / 100.0) / 2.0;
    /// From this variance on, a binomial number is normal.
    const MANY: f64 = 100.0;
    if size * share * (1.0 - share) > MANY {
        let width = NORMAL * (share * (1.0 - share) / size).sqrt();
        return (Some(share - width), Some(share + width));
    }
    // How many of the waits are up to the percentile is binomial: the wait of rank `r` is above it if fewer than `r` are, and
    // below it if `r` or more are.
    let size = size.floor();
    let mut probability = (1.0 - share).powf(size);
    let mut fewer = probability;
    let mut low = None;
    for rank in (1..=size as u32).map(f64::from) {
        if fewer <= TAIL {
            low = Some(rank / size);
        }
        if 1.0 - fewer <= TAIL {
            return (low, Some(rank / size));
        }
        probability *= (size - rank + 1.0) / rank * share / (1.0 - share);
        fewer += probability;
    }
    (low, None)
}

/// The quantile of the normal distribution for a two-sided interval of [`CONFIDENCE_PERCENT`].
const NORMAL: f64 = 1.959_964;

/// The quantile of Student's distribution for a two-sided interval of [`CONFIDENCE_PERCENT`].
fn quantile(freedom: f64) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    // The first terms of the expansion about the normal distribution: right to a thousandth or two from 11 on.
    let expanded = NORMAL
        + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom)
        + (5.0 * NORMAL.powi(5) + 16.0 * NORMAL.powi(3) + 3.0 * NORMAL) / (96.0 * freedom.powi(2));
    // Not a number where nothing differs.
    if freedom.is_nan() { NORMAL } else { FEW.get((freedom as usize).max(1) - 1).copied().unwrap_or(expanded) }
}

#[cfg(test)]
mod tests;
