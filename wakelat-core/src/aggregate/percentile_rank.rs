//! Percentiles by rank, in integers: a fraction such as 99.9 / 100 has no exact `f64`, and a rank that
//! is rounded up must not depend on its last bit.

use std::{collections::BTreeMap, fmt};

/// A percentile, in thousandths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u32);

/// 100 %.
const WHOLE: u32 = 100_000;

impl Percentile {
    /// The median.
    pub const P50: Self = Self(50_000);
    /// The value that 90 % do not exceed.
    pub const P90: Self = Self(90_000);
    /// The value that 99 % do not exceed.
    pub const P99: Self = Self(99_000);
    /// The value that 99.9 % do not exceed.
    pub const P99_9: Self = Self(99_900);
    /// The value that 99.99 % do not exceed.
    pub const P99_99: Self = Self(99_990);
    /// The maximum.
    pub const MAX: Self = Self(WHOLE);

    /// The value that `per_mille` of a thousand do not exceed: at most 1,000.
    pub const fn per_mille(per_mille: u16) -> Self {
        assert!(per_mille <= 1000, "a percentile is at most 100 %");
        Self(per_mille as u32 * (WHOLE / 1000))
    }

    /// The percentile as a share, 0 to 1. For statistics only: a rank is never computed from it.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// The rank of this percentile among `count` sorted values, from 1: the smallest rank such that at
    /// least this share of the values is at or below it.
    pub fn rank(self, count: u64) -> u64 {
        let rank = (u128::from(count) * u128::from(self.0)).div_ceil(WHOLE.into());
        // At most `count`.
        (rank as u64).max(1)
    }

    /// The first of the weighted values that reaches this percentile. Whole-number weights are compared
    /// exactly, others up to the rounding of their sum.
    pub fn find_weighted<T: Copy>(self, weights: &BTreeMap<T, f64>) -> Option<T> {
        const ROUNDING: f64 = 1e-12;
        let of_all = f64::from(self.0) * (1.0 - ROUNDING);
        first(weights, |up_to, all| up_to * f64::from(WHOLE) >= all * of_all)
    }

    /// The first of `counts` that reaches this percentile among `count` values: values in ascending
    /// order, each with the number of its occurrences.
    pub fn find<T>(self, count: u64, counts: impl IntoIterator<Item = (T, u64)>) -> Option<T> {
        let rank = self.rank(count);
        let mut up_to: u64 = 0;
        counts.into_iter().find_map(|(value, count)| {
            up_to = up_to.saturating_add(count);
            (up_to >= rank).then_some(value)
        })
    }
}

/// The first of the weighted values for which `is_enough` holds, given the weight up to and including it
/// and the total weight; the last one if rounding leaves none.
pub fn first<T: Copy>(weights: &BTreeMap<T, f64>, is_enough: impl Fn(f64, f64) -> bool) -> Option<T> {
    let all: f64 = weights.values().sum();
    let mut up_to = 0.0;
    let found = weights.iter().find(|(_, weight)| {
        up_to += **weight;
        is_enough(up_to, all)
    });
    found.or(weights.iter().next_back()).map(|(value, _)| *value)
}

/// In percent: `50`, `99.9`.
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ONE: u32 = WHOLE / 100;
        match (self.0 / ONE, self.0 % ONE) {
            (percent, 0) => write!(f, "{percent}"),
            (percent, part) => write!(f, "{percent}.{}", format!("{part:03}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_written_in_percent() {
        let all = [Percentile::P50, Percentile::P99_9, Percentile::P99_99, Percentile::MAX, Percentile::per_mille(5)];
        assert_eq!(all.map(|percentile| percentile.to_string()), ["50", "99.9", "99.99", "100", "0.5"]);
    }

    #[test]
    fn a_multiple_of_a_thousand_values_has_a_rank_without_rounding() {
        for thousands in 1..=200 {
            let ranks = [Percentile::P50, Percentile::P90, Percentile::P99, Percentile::P99_9, Percentile::MAX]
                .map(|percentile| percentile.rank(thousands * 1000));
            assert_eq!(ranks, [500, 900, 990, 999, 1000].map(|of_a_thousand| of_a_thousand * thousands));
        }
    }

    #[test]
    fn equal_weights_reach_a_percentile_at_its_rank() {
        for count in (1..3_000).chain([100_000, 199_000]) {
            let rank = Percentile::P99_9.rank(count);
            for (up_to, expected) in [(rank, 0), (rank - 1, 1)] {
                let weights = [up_to, count - up_to].map(|values| values as f64 * 3.0);
                let found = Percentile::P99_9.find_weighted(&(0..).zip(weights).collect());
                assert_eq!(found, Some(expected), "{up_to} of {count}");
            }
        }
    }

    #[test]
    fn the_largest_count_has_a_rank() {
        assert_eq!(Percentile::MAX.rank(u64::MAX), u64::MAX);
        assert_eq!(Percentile::P50.rank(u64::MAX), 1 << 63);
        assert_eq!(Percentile::P50.rank(0), 1);
    }

    proptest! {
        #[test]
        fn a_rank_is_the_first_that_has_the_share(count in 1..300_000u64, per_mille in 1..=1000u16) {
            let rank = u128::from(Percentile::per_mille(per_mille).rank(count));
            let (count, per_mille) = (u128::from(count), u128::from(per_mille));
            prop_assert!(rank * 1000 >= count * per_mille);
            prop_assert!((rank - 1) * 1000 < count * per_mille);
        }
    }
}
