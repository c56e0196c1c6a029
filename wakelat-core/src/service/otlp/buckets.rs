//! The kernel's buckets of waits as base-2 exponential buckets, as in OTLP's exponential histograms.
//!
//! The kernel divides each power of two of ns linearly into four buckets (`coarse_upper`); scale 2 divides it
//! geometrically into four. Each bucket of the kernel becomes the one with the same number, so no count is divided or
//! estimated, and both agree at every power of two. In between, an exponential bucket ends up to 5.8 % below its bucket
//! of the kernel: 2^(1/4) = 1.189 and 1.25, 1.414 and 1.5, 1.682 and 1.75.

use wakelat_common::cause_sums::coarse_upper;

/// The scale: a bucket ends at 2^(1/4) times its beginning.
pub const SCALE: i32 = 2;

/// Buckets in a power of two.
const PER_OCTAVE: u64 = 4;

/// Values up to this are in the zero bucket: ns. The kernel's first bucket has all values below it.
pub const ZERO_THRESHOLD_NS: u64 = coarse_upper(0);

/// The counts of an exponential histogram of ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpBuckets {
    /// The number of values in the zero bucket.
    pub zero_count: u64,
    /// The index of the first of `counts`. The bucket `index` has the values above 2^(`index` / 4) ns, up to
    /// 2^((`index` + 1) / 4) ns.
    pub offset: i32,
    /// The number of values in each bucket; neither the first nor the last is 0.
    pub counts: Vec<u64>,
}

/// The exponential bucket of the kernel's bucket `index`, which is not 0.
fn exponential_index(index: usize) -> i32 {
    let largest = coarse_upper(index) - 1;
    let octave = largest.ilog2();
    let quarter = (u128::from(largest - (1 << octave)) * u128::from(PER_OCTAVE)) >> octave;
    (u64::from(octave) * PER_OCTAVE) as i32 + quarter as i32
}

impl OtlpBuckets {
    /// From the kernel's buckets with values, in rising order: the index of each, and the number of values.
    pub fn from_counts(kernel: impl Iterator<Item = (usize, u64)>) -> Self {
        let mut buckets = Self::default();
        for (index, count) in kernel {
            if index == 0 {
                buckets.zero_count = count;
                continue;
            }
            let exponential = exponential_index(index);
            if buckets.counts.is_empty() {
                buckets.offset = exponential;
            }
            // Below 32 ns the kernel has fewer buckets than scale 2.
            let at = (exponential - buckets.offset) as usize;
            buckets.counts.resize(at + 1, 0);
            buckets.counts[at] += count;
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::cause_sums::{COARSE_BUCKETS, GroupSums};

    use super::*;

    fn of(waits: &[u64]) -> OtlpBuckets {
        let mut sums = GroupSums::EMPTY;
        waits.iter().for_each(|ns| sums.begin_wait(*ns));
        let used = sums.buckets.into_iter().enumerate().filter(|(_, count)| *count > 0);
        OtlpBuckets::from_counts(used)
    }

    #[test]
    fn each_bucket_of_the_kernel_has_its_own_and_powers_of_two_agree() {
        for power in 5..63u32 {
            let base = 1u64 << power;
            for quarter in 0..4 {
                let buckets = of(&[base + base / 4 * quarter, base + base / 4 * (quarter + 1) - 1]);
                let offset = (power * 4) as i32 + quarter as i32;
                assert_eq!(buckets, OtlpBuckets { zero_count: 0, offset, counts: vec![2] });
            }
        }
        assert_eq!(of(&[]), OtlpBuckets::default());
        assert_eq!(of(&[0, 7]).zero_count, 2);
        assert_eq!(of(&[8, 15]).offset, 15);
        assert_eq!(of(&[u64::MAX]).offset, 255);
    }

    proptest! {
        #[test]
        fn no_count_is_lost_and_a_value_is_near_its_bucket(
            ns in prop_oneof![32..u64::MAX, 32..1_000_000u64],
            others in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let buckets = of(&[ns]);
            let end = ((f64::from(buckets.offset) + 1.0) / 4.0).exp2();
            // Against the bounds of this file: up to a fifth too high, 5.8 % too low; 1e-9 for rounding to a double.
            prop_assert!(end / ns as f64 > 1.0 / 1.0607 - 1e-9 && end / (ns as f64) < 1.1893, "{} {}", ns, end);
            let all = of(&others);
            prop_assert_eq!(all.zero_count + all.counts.iter().sum::<u64>(), others.len() as u64);
            prop_assert!(all.counts.first() != Some(&0) && all.counts.last() != Some(&0));
            prop_assert!(all.counts.len() <= COARSE_BUCKETS);
        }
    }
}
