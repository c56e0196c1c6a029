//! The histograms of an interval, in few bytes: most groups have few waits in a second.
//!
//! They are a list of numbers, which postcard encodes with seven bits a byte. The first is the time to which other times
//! refer. For each histogram follow:
//!
//! - eight times the number of its buckets, plus 4 if numbers of groups are skipped since the histogram before, plus 2 if the
//!   sum needs two numbers, plus 1 if the task of the longest wait is known;
//! - if numbers of groups are skipped: how many;
//! - for each bucket, twice the distance of its index from the bucket before, plus 1 if it has several waits, and then their
//!   number;
//! - unless there are two waits: the sum of the waits, less the lower bound of the bucket of each;
//! - if there are several waits: the shortest and the longest, less the lower bounds of their buckets;
//! - if the task of the longest wait is known: the time before the first number at which that wait ended, its thread and CPU.

use serde::{Deserialize, Serialize};
use wakelat_common::bucket::{self, BUCKETS};

use crate::aggregate::{
    distribution::{Distribution, Maximum},
    key::Names,
};

/// The largest number of groups: the name of a group is a number below it.
pub const MAX_GROUPS: u32 = 1 << 16;

/// Number of the flags below the number of buckets.
const FLAGS: u32 = 3;
/// Numbers of groups are skipped.
const SKIPS: u64 = 4;
/// The sum needs two numbers.
const TWO_NUMBERS: u64 = 2;
/// The task of the longest wait is known.
const WITH_TASK: u64 = 1;

/// Histograms of different groups, by ascending number of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct IntervalHistograms(Vec<GroupHistogram>);

/// The waits of a group in an interval, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHistogram {
    /// The number of the group.
    pub group: u32,
    /// Index and number of waits of each [`bucket`] with waits, ascending.
    pub buckets: Vec<(u16, u64)>,
    /// The sum of the waits: ns.
    pub sum_ns: u128,
    /// The shortest wait: ns.
    pub min_ns: u64,
    /// The longest wait: ns.
    pub max_ns: u64,
    /// The task of the longest wait, if it is known.
    pub longest: Option<Longest>,
}

/// The task of the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// When the wait ended: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its thread.
    pub tid: u32,
    /// The CPU on which it ended.
    pub cpu: u32,
}

impl GroupHistogram {
    /// The waits of `distribution`, which has at least one, as those of `group`. `with_task`: with the task of the longest.
    pub fn new(group: u32, distribution: &Distribution, with_task: bool) -> Self {
        let buckets = distribution.buckets();
        let longest = distribution.max().filter(|_| with_task);
        Self {
            group,
            buckets: buckets.iter().map(|one| (bucket::index(one.from_ns) as u16, one.count)).collect(),
            sum_ns: distribution.sum_ns(),
            min_ns: distribution.min_ns(),
            max_ns: distribution.max_ns(),
            longest: longest.map(|Maximum { at_ns, tid, cpu, .. }| Longest { at_ns, tid, cpu }),
        }
    }

    /// Adds the waits to `distribution`.
    pub fn add_to(&self, distribution: &mut Distribution, names: &dyn Names) {
        let buckets = self.buckets.iter().map(|(index, count)| (usize::from(*index), *count));
        let longest = self.longest.map(|Longest { at_ns, tid, cpu }| Maximum {
            latency_ns: self.max_ns,
            at_ns,
            tid,
            comm: names.comm(tid).unwrap_or_default(),
            cpu,
        });
        distribution.add_buckets(buckets, (self.sum_ns, self.min_ns, self.max_ns), longest);
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |count, (_, more)| count.saturating_add(*more))
    }

    /// At most as many bytes as the histogram takes in a frame.
    pub(super) fn max_bytes(&self) -> usize {
        const NUMBER: usize = 10;
        (10 + 2 * self.buckets.len()) * NUMBER
    }

    /// The lower bounds of the buckets of all waits together: ns.
    fn lower_sum_ns(&self) -> u128 {
        let of = |(index, count): &(u16, u64)| u128::from(bucket::lower((*index).into())) * u128::from(*count);
        self.buckets.iter().fold(0, |sum: u128, one| sum.saturating_add(of(one)))
    }

    /// Appends the numbers of this histogram; `next` is the smallest number that its group can have.
    fn pack(&self, next: u32, base_ns: u64, numbers: &mut Vec<u64>) {
        let rest_ns = self.sum_ns.saturating_sub(self.lower_sum_ns());
        let high = (rest_ns >> 64) as u64;
        let skipped = u64::from(self.group.wrapping_sub(next));
        let flags = [(skipped > 0, SKIPS), (high > 0, TWO_NUMBERS), (self.longest.is_some(), WITH_TASK)];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        numbers.push((self.buckets.len() as u64) << FLAGS | flags);
        numbers.extend((skipped > 0).then_some(skipped));
        let mut last = 0;
        for (index, count) in &self.buckets {
            numbers.push(u64::from(index - last) << 1 | u64::from(*count > 1));
            numbers.extend((*count > 1).then_some(*count));
            last = *index;
        }
        let count = self.count();
        numbers.extend((count != 2).then_some(rest_ns as u64));
        numbers.extend((high > 0).then_some(high));
        if count > 1 {
            let offset = |ns: u64| ns - bucket::lower(bucket::index(ns));
            numbers.extend([offset(self.min_ns), offset(self.max_ns)]);
        }
        if let Some(Longest { at_ns, tid, cpu }) = self.longest {
            numbers.extend([base_ns.wrapping_sub(at_ns), tid.into(), cpu.into()]);
        }
    }

    /// The next histogram of `numbers`; `next` is the smallest number that its group can have.
    fn unpack(next: u32, base_ns: u64, numbers: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let shape = numbers.next()?;
        let has = |flag| shape & flag == flag;
        let skipped = if has(SKIPS) { numbers.next().filter(|skipped| *skipped > 0)? } else { 0 };
        let group = next.checked_add(u32::try_from(skipped).ok()?)?;
        let (mut buckets, mut index) = (Vec::new(), 0u64);
        if shape >> FLAGS == 0 || shape >> FLAGS > BUCKETS as u64 {
            return None;
        }
        for at in 0..shape >> FLAGS {
            let number = numbers.next()?;
            let (distance, has_several) = (number >> 1, number & 1 == 1);
            index = index.checked_add(distance).filter(|index| *index < BUCKETS as u64 && (at == 0 || distance > 0))?;
            let count = if has_several { numbers.next().filter(|count| *count > 1)? } else { 1 };
            buckets.push((index as u16, count));
        }
        let mut histogram = Self { group, buckets, sum_ns: 0, min_ns: 0, max_ns: 0, longest: None };
        let count = histogram.count();
        let low = if count == 2 { 0 } else { numbers.next()? };
        let high = if has(TWO_NUMBERS) { numbers.next().filter(|high| *high > 0 && count > 2)? } else { 0 };
        let ((first, _), (last, _)) = (*histogram.buckets.first()?, *histogram.buckets.last()?);
        (histogram.min_ns, histogram.max_ns) = if count > 1 {
            (value(first, numbers.next()?)?, value(last, numbers.next()?)?)
        } else {
            let only = value(first, low)?;
            (only, only)
        };
        histogram.sum_ns = if count == 2 {
            u128::from(histogram.min_ns) + u128::from(histogram.max_ns)
        } else {
            histogram.lower_sum_ns().checked_add(u128::from(high) << 64 | u128::from(low))?
        };
        if has(WITH_TASK) {
            let at_ns = base_ns.wrapping_sub(numbers.next()?);
            let (tid, cpu) = (u32::try_from(numbers.next()?).ok()?, u32::try_from(numbers.next()?).ok()?);
            histogram.longest = Some(Longest { at_ns, tid, cpu });
        }
        Some(histogram)
    }
}

/// The value that is this much above the lower bound of bucket `index`, if it is in that bucket.
fn value(index: u16, offset_ns: u64) -> Option<u64> {
    let value = bucket::lower(index.into()).checked_add(offset_ns)?;
    (bucket::index(value) == usize::from(index)).then_some(value)
}

impl IntervalHistograms {
    /// Of these histograms, which are in order.
    pub fn new(histograms: Vec<GroupHistogram>) -> Self {
        debug_assert!(histograms.is_sorted_by(|one, next| one.group < next.group));
        Self(histograms)
    }

    /// The histograms, by ascending number of the group.
    pub fn iter(&self) -> impl Iterator<Item = &GroupHistogram> {
        self.0.iter()
    }

    /// Mutable references to the histograms.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut GroupHistogram> {
        self.0.iter_mut()
    }
}

impl From<IntervalHistograms> for Vec<u64> {
    fn from(histograms: IntervalHistograms) -> Self {
        let base_ns = histograms.iter().filter_map(|one| one.longest).map(|longest| longest.at_ns).max();
        let (base_ns, mut next) = (base_ns.unwrap_or(0), 0);
        let mut numbers = vec![base_ns];
        for histogram in histograms.iter() {
            histogram.pack(next, base_ns, &mut numbers);
            next = histogram.group.wrapping_add(1);
        }
        numbers
    }
}

impl TryFrom<Vec<u64>> for IntervalHistograms {
    type Error = &'static str;

    fn try_from(numbers: Vec<u64>) -> Result<Self, Self::Error> {
        const NOT_VALID: &str = "not the histograms of an interval";
        let mut numbers = numbers.into_iter().peekable();
        let base_ns = numbers.next().ok_or(NOT_VALID)?;
        let (mut next, mut histograms) = (0, Vec::new());
        while numbers.peek().is_some() {
            let histogram = GroupHistogram::unpack(next, base_ns, &mut numbers);
            let histogram = histogram.filter(|histogram| histogram.group < MAX_GROUPS).ok_or(NOT_VALID)?;
            next = histogram.group + 1;
            histograms.push(histogram);
        }
        Ok(Self(histograms))
    }
}
