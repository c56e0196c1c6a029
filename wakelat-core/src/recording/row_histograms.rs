//! The histograms of an interval as format 7 has them: one after another.
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

use wakelat_common::bucket::{self, BUCKETS};

use super::{
    GroupHistogram,
    histograms::{Longest, MAX_GROUPS, value},
};

/// Number of the flags below the number of buckets.
const FLAGS: u32 = 3;
/// Numbers of groups are skipped.
const SKIPS: u64 = 4;
/// The sum needs two numbers.
const TWO_NUMBERS: u64 = 2;
/// The task of the longest wait is known.
const WITH_TASK: u64 = 1;

/// The histograms, by ascending number of the group; `None` if `numbers` are none.
pub(super) fn unpack(numbers: Vec<u64>) -> Option<Vec<GroupHistogram>> {
    let mut numbers = numbers.into_iter().peekable();
    let base_ns = numbers.next()?;
    let (mut next, mut histograms) = (0, Vec::new());
    while numbers.peek().is_some() {
        let histogram = histogram(next, base_ns, &mut numbers).filter(|histogram| histogram.group < MAX_GROUPS)?;
        next = histogram.group + 1;
        histograms.push(histogram);
    }
    Some(histograms)
}

/// The next histogram of `numbers`; `next` is the smallest number that its group can have.
fn histogram(next: u32, base_ns: u64, numbers: &mut impl Iterator<Item = u64>) -> Option<GroupHistogram> {
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
    let mut histogram = GroupHistogram { group, buckets, sum_ns: 0, min_ns: 0, max_ns: 0, longest: None };
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
        lower_sum_ns(&histogram).checked_add(u128::from(high) << 64 | u128::from(low))?
    };
    if has(WITH_TASK) {
        let at_ns = base_ns.wrapping_sub(numbers.next()?);
        let (tid, cpu) = (u32::try_from(numbers.next()?).ok()?, u32::try_from(numbers.next()?).ok()?);
        histogram.longest = Some(Longest { at_ns, tid, cpu });
    }
    Some(histogram)
}

/// The lower bounds of the buckets of all waits together: ns.
fn lower_sum_ns(histogram: &GroupHistogram) -> u128 {
    let of = |(index, count): &(u16, u64)| u128::from(bucket::lower((*index).into())) * u128::from(*count);
    histogram.buckets.iter().fold(0, |sum: u128, one| sum.saturating_add(of(one)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::layout_tests::two_histograms, *};

    #[test]
    fn the_histograms_of_an_earlier_format_are_read() {
        let numbers = vec![1_000, 12, 1, 80, 0, 21, 298, 11, 2, 310, 1, 0, 0, 0, 300, 3];
        assert_eq!(unpack(numbers), Some(two_histograms()));
    }

    proptest! {
        #[test]
        fn no_numbers_are_misread(
            numbers in prop::collection::vec(any::<u64>().prop_map(|bits| bits >> (bits % 64)), 0..40),
        ) {
            for histogram in unpack(numbers).unwrap_or_default() {
                prop_assert!(histogram.group < MAX_GROUPS && histogram.count() > 0);
                prop_assert!(histogram.min_ns <= histogram.max_ns);
            }
        }
    }
}
