//! The histograms of an interval, in few bytes: most groups have few waits in a second.
//!
//! They are [bits](super::bits): numbers of a given length, and elastic ones, which are short if they are small. First come
//! what all histograms have in common: the smallest index of a first bucket, how many bits the others need above it, the
//! shift of the elastic distances between buckets, and, after a bit for whether the task of a longest wait is known at all,
//! the time to which such times refer. Then comes the number of histograms. Each of them has:
//!
//! - how many numbers of groups are skipped since the histogram before;
//! - whether the task of the longest wait is known;
//! - whether it has a single wait;
//! - unless it has: the number of its buckets, less one;
//! - the index of its first bucket, and the distance of each other one from the bucket before, less one;
//! - unless it has a single wait: the number of waits of each bucket, less one, as a number that is usually as long as that of
//!   the bucket before;
//! - the lowest bits of the shortest wait, which its bucket does not determine;
//! - if there are several waits: the same of the longest;
//! - if there are more than two: whether the sum is one that such waits can have, and then what it is above the smallest such
//!   sum, in as many bits as the largest needs; or else all of it;
//! - if the task of the longest wait is known: the time before the common one at which that wait ended, its thread and CPU.

use serde::{Deserialize, Serialize};
use wakelat_common::bucket::{self, BUCKETS};

use super::bits::{BitReader, BitWriter, elastic_bits};
use crate::aggregate::{
    distribution::{Distribution, Maximum},
    key::Names,
};

/// The largest number of groups: the name of a group is a number below it.
pub const MAX_GROUPS: u32 = 1 << 16;

/// Number of bits of a bucket's index, and of the number of these bits.
const INDEX_BITS: u32 = usize::BITS - (BUCKETS - 1).leading_zeros();
const LENGTH_BITS: u32 = 4;
/// Number of bits of the shift of distances.
const SHIFT_BITS: u32 = 3;
/// The shift of the elastic number of histograms.
const COUNT_SHIFT: u32 = 4;
/// The shifts of elastic times, threads and CPUs.
const TIME_SHIFT: u32 = 27;
const TID_SHIFT: u32 = 14;
const CPU_SHIFT: u32 = 2;

/// Histograms of different groups, by ascending number of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
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

    /// The smallest sum that the waits in these buckets can have, given the shortest and the longest wait, and how much larger
    /// it can be: ns. Only for more than two waits.
    fn sum_range_ns(&self) -> Option<(u128, u128)> {
        let ((first, _), (last, _)) = (*self.buckets.first()?, *self.buckets.last()?);
        let (mut low, mut range) = (0u128, 0u128);
        for (index, count) in &self.buckets {
            let is_end = |of: u16| u64::from(of == *index);
            // The waits of this bucket that are neither the shortest nor the longest.
            let others = u128::from(count.checked_sub(is_end(first) + is_end(last))?);
            low = low.checked_add(others.checked_mul(bucket::lower((*index).into()).into())?)?;
            range = range.checked_add(others.checked_mul((1 << offset_bits(*index)) - 1)?)?;
        }
        let ends = u128::from(self.min_ns) + u128::from(self.max_ns);
        Some((low.checked_add(ends)?, range))
    }

    /// Appends this histogram; `next` is the smallest number that its group can have.
    fn append(&self, next: u32, common: &Common, bits: &mut BitWriter) {
        let Some(((first, _), (last, _))) = self.buckets.first().copied().zip(self.buckets.last().copied()) else {
            return;
        };
        let count = self.count();
        bits.elastic(self.group.wrapping_sub(next).into(), 0);
        bits.bits(self.longest.is_some().into(), 1);
        bits.bits((count == 1).into(), 1);
        if count > 1 {
            bits.elastic(self.buckets.len() as u64 - 1, 0);
        }
        bits.bits((first - common.low).into(), common.index_bits);
        self.distances().for_each(|distance| bits.elastic(distance, common.shift));
        if count > 1 {
            let mut last = 1;
            for (_, count) in &self.buckets {
                bits.elastic(count - 1, u64::ilog2(last));
                last = *count;
            }
        }
        let offset = |index: u16, ns: u64| u128::from(ns.wrapping_sub(bucket::lower(index.into())));
        bits.bits(offset(first, self.min_ns), offset_bits(first));
        if count > 1 {
            bits.bits(offset(last, self.max_ns), offset_bits(last));
        }
        if count > 2 {
            let above = self.sum_range_ns().and_then(|(low, range)| Some((self.sum_ns.checked_sub(low)?, range)));
            match above.filter(|(above, range)| above <= range) {
                Some((above, range)) => {
                    bits.bits(1, 1);
                    bits.bits(above, bits_of(range));
                }
                None => {
                    bits.bits(0, 1);
                    bits.bits(self.sum_ns, u128::BITS);
                }
            }
        }
        if let Some(Longest { at_ns, tid, cpu }) = self.longest {
            bits.elastic(common.base_ns.wrapping_sub(at_ns), TIME_SHIFT);
            bits.elastic(tid.into(), TID_SHIFT);
            bits.elastic(cpu.into(), CPU_SHIFT);
        }
    }

    /// The distances of all buckets but the first from the one before, less one.
    fn distances(&self) -> impl Iterator<Item = u64> {
        self.buckets.windows(2).map(|pair| u64::from(pair[1].0 - pair[0].0 - 1))
    }

    /// The next histogram; `next` is the smallest number that its group can have.
    fn read(next: u32, common: &Common, bits: &mut BitReader<'_>) -> Option<Self> {
        let group = next.checked_add(u32::try_from(bits.elastic(0)?).ok()?).filter(|group| *group < MAX_GROUPS)?;
        let has_task = bits.flag()?;
        let is_single = bits.flag()?;
        let others = if is_single { 0 } else { bits.elastic(0)? };
        let first = u64::from(common.low) + bits.short(common.index_bits)?;
        let (mut index, mut buckets) = (first, Vec::new());
        let mut add = |index: u64| {
            let index = u16::try_from(index).ok().filter(|index| usize::from(*index) < BUCKETS)?;
            buckets.push((index, 1));
            Some(())
        };
        add(index)?;
        for _ in 0..others {
            index = index.checked_add(bits.elastic(common.shift)?)?.checked_add(1)?;
            add(index)?;
        }
        if !is_single {
            let mut last = 1;
            for (_, count) in &mut buckets {
                *count = bits.elastic(u64::ilog2(last))?.checked_add(1)?;
                last = *count;
            }
        }
        let ((first, _), (last, _)) = (*buckets.first()?, *buckets.last()?);
        let min_ns = bucket::lower(first.into()) + bits.short(offset_bits(first))?;
        let mut histogram = Self { group, buckets, sum_ns: min_ns.into(), min_ns, max_ns: min_ns, longest: None };
        let count = histogram.count();
        if !is_single && count == 1 {
            return None;
        }
        if count > 1 {
            histogram.max_ns = bucket::lower(last.into()) + bits.short(offset_bits(last))?;
            histogram.sum_ns += u128::from(histogram.max_ns);
        }
        if histogram.max_ns < min_ns {
            return None;
        }
        if count > 2 {
            histogram.sum_ns = if bits.flag()? {
                let (low, range) = histogram.sum_range_ns()?;
                low.checked_add(bits.bits(bits_of(range))?)?
            } else {
                bits.bits(u128::BITS)?
            };
        }
        if has_task {
            let at_ns = common.base_ns.wrapping_sub(bits.elastic(TIME_SHIFT)?);
            let (tid, cpu) = (u32::try_from(bits.elastic(TID_SHIFT)?).ok()?, bits.elastic(CPU_SHIFT)?);
            histogram.longest = Some(Longest { at_ns, tid, cpu: u32::try_from(cpu).ok()? });
        }
        Some(histogram)
    }
}

/// What the histograms of an interval have in common.
#[derive(Debug)]
struct Common {
    /// The smallest index of a first bucket.
    low: u16,
    /// How many bits the index of a first bucket needs above it.
    index_bits: u32,
    /// The shift of elastic distances between buckets.
    shift: u32,
    /// The latest end of a longest wait whose task is known: ns of CLOCK_MONOTONIC.
    base_ns: u64,
}

impl Common {
    fn of(histograms: &[GroupHistogram]) -> Self {
        let firsts = histograms.iter().filter_map(|one| one.buckets.first()).map(|(index, _)| *index);
        let low = firsts.clone().min().unwrap_or(0);
        let range = firsts.max().unwrap_or(low) - low;
        let bits = |shift| -> u64 {
            histograms.iter().flat_map(GroupHistogram::distances).map(|one| u64::from(elastic_bits(one, shift))).sum()
        };
        let base_ns = histograms.iter().filter_map(|one| one.longest).map(|longest| longest.at_ns).max();
        Self {
            low,
            index_bits: bits_of(range.into()),
            shift: (0..1 << SHIFT_BITS).min_by_key(|shift| bits(*shift)).unwrap_or(0),
            base_ns: base_ns.unwrap_or(0),
        }
    }

    fn append(&self, bits: &mut BitWriter) {
        bits.bits(self.low.into(), INDEX_BITS);
        bits.bits(self.index_bits.into(), LENGTH_BITS);
        bits.bits(self.shift.into(), SHIFT_BITS);
        bits.bits((self.base_ns > 0).into(), 1);
        if self.base_ns > 0 {
            bits.bits(self.base_ns.into(), u64::BITS);
        }
    }

    fn read(bits: &mut BitReader<'_>) -> Option<Self> {
        let low = u16::try_from(bits.bits(INDEX_BITS)?).ok()?;
        let (index_bits, shift) = (bits.bits(LENGTH_BITS)? as u32, bits.bits(SHIFT_BITS)? as u32);
        let base_ns = if bits.flag()? { bits.short(u64::BITS)? } else { 0 };
        Some(Self { low, index_bits, shift, base_ns })
    }
}

/// How many of the lowest bits of a value its bucket does not determine.
fn offset_bits(index: u16) -> u32 {
    (u32::from(index) >> bucket::SUB_BITS).saturating_sub(1)
}

/// The number of bits of a number.
fn bits_of(number: u128) -> u32 {
    u128::BITS - number.leading_zeros()
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

impl From<IntervalHistograms> for Vec<u8> {
    fn from(IntervalHistograms(mut histograms): IntervalHistograms) -> Self {
        histograms.retain(|histogram| !histogram.buckets.is_empty());
        let (common, mut bits, mut next) = (Common::of(&histograms), BitWriter::default(), 0);
        common.append(&mut bits);
        bits.elastic(histograms.len() as u64, COUNT_SHIFT);
        for histogram in &histograms {
            histogram.append(next, &common, &mut bits);
            next = histogram.group.wrapping_add(1);
        }
        bits.finish()
    }
}

impl TryFrom<Vec<u8>> for IntervalHistograms {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        let read = || {
            let mut bits = BitReader::new(&bytes);
            let (common, mut next, mut histograms) = (Common::read(&mut bits)?, 0, Vec::new());
            for _ in 0..bits.elastic(COUNT_SHIFT)? {
                let histogram = GroupHistogram::read(next, &common, &mut bits)?;
                next = histogram.group + 1;
                histograms.push(histogram);
            }
            bits.is_at_end().then_some(Self(histograms))
        };
        read().ok_or("not the histograms of an interval")
    }
}
