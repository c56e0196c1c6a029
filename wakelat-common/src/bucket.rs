//! The histogram's value → bucket function.
//!
//! Log-linear: every power of two is divided into [`PER_OCTAVE`] buckets of equal width. A bucket is at
//! most 1/32 = 3.1 % of its value wide, no bucket straddles a power of two, and small values have a
//! bucket each. Every u64 has a bucket: nothing is clamped.

/// log2 of [`PER_OCTAVE`].
pub const SUB_BITS: u32 = 5;
/// Buckets in one power of two.
pub const PER_OCTAVE: u64 = 1 << SUB_BITS;
/// Number of buckets; together they cover all of u64.
pub const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// Index of the bucket that holds `value`, below [`BUCKETS`].
#[inline(always)]
pub const fn index(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    // log2(value) >= SUB_BITS here.
    let shift = log2(value) - SUB_BITS;
    // value >> shift lies in PER_OCTAVE..2 * PER_OCTAVE: its leading one adds one octave's worth of buckets.
    (((shift as u64) << SUB_BITS) + (value >> shift)) as usize
}

/// The smallest value of bucket `index`.
pub const fn lower(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * PER_OCTAVE {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    (index - (shift << SUB_BITS)) << shift
}

/// The smallest value above bucket `index`; for the last bucket `u64::MAX`, which it contains.
pub const fn upper(index: usize) -> u64 {
    if index + 1 >= BUCKETS { u64::MAX } else { lower(index + 1) }
}

/// floor(log2(value)) for value > 0: the BPF instruction set cannot count leading zeros. Without branches, because the
/// verifier follows all that comes after a branch once for each way through it.
#[inline(always)]
const fn log2(value: u64) -> u32 {
    LOG2[hash(with_ones_below(value))] as u32
}

/// `value` with all bits below its highest one set.
#[inline(always)]
const fn with_ones_below(mut value: u64) -> u64 {
    let mut by = 1;
    while by < u64::BITS {
        value |= value >> by;
        by *= 2;
    }
    value
}

/// A different number below 64 for each of the 64 numbers 2^(k+1) - 1: the highest six bits of its product with a de
/// Bruijn sequence (C. Leiserson, H. Prokop, K. Randall, "Using de Bruijn Sequences to Index a 1 in a Computer Word",
/// 1998), in which each run of six bits appears once.
#[inline(always)]
const fn hash(ones: u64) -> usize {
    (ones.wrapping_mul(0x03f7_9d71_b4cb_0a89) >> 58) as usize
}

/// k by [`hash`] of 2^(k+1) - 1.
static LOG2: [u8; 64] = {
    let mut table = [0; 64];
    let mut k = 0;
    while k < 64 {
        table[hash(u64::MAX >> (63 - k))] = k as u8;
        k += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2^k − 1, 2^k and 2^k + 1 for every k, and the largest values.
    fn boundaries() -> impl Iterator<Item = u64> {
        (0..64)
            .flat_map(|k| {
                let power = 1u64 << k;
                [power - 1, power, power + 1]
            })
            .chain([u64::MAX - 1, u64::MAX])
    }

    #[test]
    fn t19_every_power_of_two_and_its_neighbours_fall_in_their_bucket() {
        for value in boundaries() {
            let index = index(value);
            assert!(index < BUCKETS, "{value}");
            assert!(lower(index) <= value, "{value}");
            assert!(value < upper(index) || upper(index) == u64::MAX, "{value}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_logarithm_is_that_of_the_processor() {
        for value in boundaries().filter(|value| *value > 0) {
            assert_eq!(log2(value), value.ilog2(), "{value}");
        }
    }

    #[test]
    fn buckets_cover_u64_without_gap_or_overlap() {
        assert_eq!(lower(0), 0);
        for bucket in 0..BUCKETS - 1 {
            assert!(lower(bucket) < upper(bucket));
            assert_eq!(index(lower(bucket)), bucket);
            assert_eq!(index(upper(bucket) - 1), bucket);
        }
        assert_eq!(upper(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn a_power_of_two_begins_a_bucket() {
        for k in 0..64 {
            assert_eq!(lower(index(1 << k)), 1 << k);
        }
    }

    #[test]
    fn t19_quantiles_from_buckets_agree_with_hdrhistogram_within_a_bucket() {
        let mut exact = hdrhistogram::Histogram::<u64>::new_with_bounds(1, u64::MAX, 3).unwrap();
        for value in boundaries().filter(|value| *value > 0) {
            exact.clear();
            exact.record(value).unwrap();
            let bucket = index(value);
            assert!(lower(bucket) <= exact.max() && exact.min() <= upper(bucket), "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_is_at_most_a_thirty_second_of_its_value_wide(value: u64) {
            let bucket = index(value);
            prop_assert!(lower(bucket) <= value);
            prop_assert!(upper(bucket) - lower(bucket) <= (value / PER_OCTAVE).max(1));
        }
    }
}
