//! Waits in buckets that grow by a constant factor, as native histograms of Prometheus and exponential histograms of
//! OpenTelemetry have them.

use crate::why::counted::GroupTotal;

/// The schema of Prometheus and the scale of OpenTelemetry: bucket `i` has the values from above 2^((i - 1) / 2^SCHEMA) to
/// 2^(i / 2^SCHEMA) seconds. Eight buckets to a power of two.
///
/// The kernel counts in buckets that are at most a quarter of their values wide, and at other bounds. Each becomes the one
/// here that contains the geometric mean of its bounds, and no two become the same. With a finer schema, a bucket here
/// would be narrower, but not the error, most of which comes from the kernel's.
pub const SCHEMA: i32 = 3;

/// Waits up to this are in the zero bucket: ns. The kernel's first buckets end here.
pub const ZERO_NS: u64 = 7;

/// Waits by exponential buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExponentialBuckets {
    /// Waits of at most [`ZERO_NS`].
    pub zero: u64,
    /// The index of each other bucket with waits, in rising order, and their number.
    pub buckets: Vec<(i32, u64)>,
}

impl ExponentialBuckets {
    /// The waits of `total`.
    pub fn of(total: &GroupTotal) -> Self {
        let mut found = Self::default();
        for (from_ns, to_ns, waits) in total.buckets() {
            if to_ns <= ZERO_NS + 1 {
                found.zero += waits;
                continue;
            }
            let mean_s = ((from_ns.max(1) as f64) * (to_ns as f64)).sqrt() / 1e9;
            let index = (mean_s.log2() * f64::from(1 << SCHEMA)).ceil() as i32;
            match found.buckets.last_mut() {
                Some((last, count)) if *last == index => *count += waits,
                _ => found.buckets.push((index, waits)),
            }
        }
        found
    }
}

/// The upper bound of the bucket `index`: seconds.
pub fn upper_s(index: i32) -> f64 {
    (f64::from(index) / f64::from(1 << SCHEMA)).exp2()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::cause_sums::{COARSE_BUCKETS, GroupSums, coarse_upper};

    use super::*;

    /// The highest relative error of a value: half a kernel's bucket and a whole one here, as factors.
    fn largest_factor() -> f64 {
        1.25f64.sqrt() * upper_s(1)
    }

    #[test]
    fn no_two_buckets_of_the_kernel_become_one_from_8_ns_on() {
        let index = |to_ns: u64, from_ns: u64| {
            let mut total = GroupTotal::default();
            let mut sums = GroupSums::EMPTY;
            sums.begin_wait(to_ns - 1);
            total.merge(&GroupTotal::from(&sums));
            let found = ExponentialBuckets::of(&total);
            assert_eq!((found.zero, found.buckets.len()), (u64::from(from_ns < 8), usize::from(from_ns >= 8)));
            found.buckets.first().map(|(index, _)| *index)
        };
        let bounds: Vec<u64> = (0..COARSE_BUCKETS).map(coarse_upper).take_while(|upper| *upper < 1 << 62).collect();
        let indices: Vec<i32> = bounds.windows(2).filter_map(|pair| index(pair[1], pair[0])).collect();
        assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "{indices:?}");
    }

    proptest! {
        #[test]
        fn the_bucket_of_a_quantile_is_within_the_bound_of_the_true_one(
            mut waits in prop::collection::vec(32..1u64 << 40, 1..200), percent in 1..=100usize,
        ) {
            let mut sums = GroupSums::EMPTY;
            waits.iter().for_each(|ns| sums.begin_wait(*ns));
            let found = ExponentialBuckets::of(&GroupTotal::from(&sums));
            prop_assert_eq!(found.buckets.iter().map(|(_, count)| count).sum::<u64>(), waits.len() as u64);
            waits.sort_unstable();
            let rank = (waits.len() * percent).div_ceil(100);
            let exact_s = waits[rank - 1] as f64 / 1e9;
            let mut seen = 0;
            let of_rank = found.buckets.iter().find(|(_, count)| {
                seen += count;
                seen >= rank as u64
            });
            let (index, _) = of_rank.expect("the rank is within the waits");
            // Prometheus interpolates within the bucket.
            for estimate_s in [upper_s(index - 1), upper_s(*index)] {
                let factor = (estimate_s / exact_s).max(exact_s / estimate_s);
                prop_assert!(factor <= largest_factor(), "{} for {}: {}", estimate_s, exact_s, factor);
            }
        }
    }
}
