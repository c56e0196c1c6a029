//! Compares the distribution of the waits after a wakeup by the tracepoints with that by the run queue's own clock. Pure:
//! [`super::queue_clock_side`] measures.
//!
//! Both instruments time the same waits, at slightly different points. If no two lengths of a wait are further apart than
//! a distance, each wait that one instrument has above `bound + distance` is above `bound` by the other. So the first
//! number is at most the second, plus
//!
//! - the waits that only the first instrument may have ([`OneSidedWaits`]);
//! - the waits that may be further apart, because an interrupt or a hypervisor came in between ([`FURTHER_APART_SHARE`]).
//!
//! The rule is checked at each power of two and in both directions.

use std::cmp::Reverse;

use wakelat_common::bucket;
use wakelat_core::render::units;

use super::{
    checks::{Check, CheckOutcome},
    compare::CLOCK_NS,
};

/// The name of the check in JSON.
pub const NAME: &str = "distributions";

/// How far the two lengths of a wait may be apart, in ns. For 98 of 100 measured waits after a wakeup, the tracepoints show
/// at most 3.7 µs less and 19.3 µs more than the queue clock (docs/queue-clock.md).
const DISTANCE_NS: u64 = 20_000;

/// One wait in this many, and always [`FURTHER_APART_LEAST`], may be further apart, in each direction: twice as many as
/// measured.
const FURTHER_APART_SHARE: u64 = 50;

/// Number of waits that may be further apart in a window of any size.
const FURTHER_APART_LEAST: u64 = 2;

/// The bounds: powers of two from 1 µs to 18 minutes. The first includes nearly all waits.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=40;

/// The number of waits in each [`bucket`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketTally(Vec<u64>);

impl Default for BucketTally {
    fn default() -> Self {
        Self(vec![0; bucket::BUCKETS])
    }
}

impl BucketTally {
    /// Adds a wait.
    pub fn add(&mut self, latency_ns: u64) {
        self.0[bucket::index(latency_ns)] += 1;
    }

    /// Adds the numbers of waits in each bucket.
    pub fn add_buckets(&mut self, counts: &[u64]) {
        self.0.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    /// Replaces the lengths of all waits, each by that of its bucket's lower bound.
    #[must_use]
    pub fn map(&self, length_ns: impl Fn(u64) -> u64) -> Self {
        let mut mapped = Self::default();
        for (index, count) in self.0.iter().enumerate() {
            mapped.0[bucket::index(length_ns(bucket::lower(index)))] += count;
        }
        mapped
    }

    fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The waits that are certainly `least_ns` or longer. Exact if it is the bound of a bucket, as each power of two is.
    fn at_least(&self, least_ns: u64) -> u64 {
        let first = bucket::index(least_ns) + usize::from(bucket::lower(bucket::index(least_ns)) < least_ns);
        self.0[first..].iter().sum()
    }
}

/// How many waits only one of the two instruments may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneSidedWaits {
    /// Waits that the queue clock may lack.
    pub by_tracepoints: u64,
    /// Waits that the tracepoints may lack.
    pub by_queue_clock: u64,
}

/// The rule at one bound and in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BoundComparison {
    bound_ns: u64,
    /// The instrument whose waits above `bound_ns` plus the distance are counted.
    longer: &'static str,
    /// The other instrument, whose waits above `bound_ns` are counted.
    shorter: &'static str,
    above_longer: u64,
    above_shorter: u64,
    /// By how much `above_longer` may exceed `above_shorter`.
    allowed: u64,
}

impl BoundComparison {
    fn more(&self) -> u64 {
        self.above_longer.saturating_sub(self.above_shorter)
    }

    /// How many waits more than allowed; negative if there are fewer.
    fn excess(&self) -> i128 {
        i128::from(self.above_longer) - i128::from(self.above_shorter) - i128::from(self.allowed)
    }
}

/// How far the two lengths of a wait may be apart, in ns, on a machine with this clock tolerance in ns: if that is
/// longer than usual, everything takes longer there, and so does the way from one instrument to the other.
pub fn distance_ns(clock_ns: u64) -> u64 {
    DISTANCE_NS.max(DISTANCE_NS / CLOCK_NS * clock_ns)
}

/// Judges the two distributions, whose waits may be `distance_ns` apart. Names the bound with the largest difference, of
/// several the lowest.
pub fn check(tracepoints: &BucketTally, queue_clock: &BucketTally, only: OneSidedWaits, distance_ns: u64) -> Check {
    let waits = tracepoints.count().max(queue_clock.count());
    let further_apart = (waits / FURTHER_APART_SHARE).max(FURTHER_APART_LEAST);
    let sides = [
        (("queue clock", queue_clock), ("tracepoints", tracepoints), only.by_queue_clock),
        (("tracepoints", tracepoints), ("queue clock", queue_clock), only.by_tracepoints),
    ];
    let worst = BOUNDS
        .flat_map(|power| sides.map(|side| (1u64 << power, side)))
        .map(|(bound_ns, ((longer, longer_waits), (shorter, shorter_waits), only))| BoundComparison {
            bound_ns,
            longer,
            shorter,
            above_longer: longer_waits.at_least(bound_ns.saturating_add(distance_ns)),
            above_shorter: shorter_waits.at_least(bound_ns),
            allowed: only + further_apart,
        })
        .max_by_key(|comparison| (comparison.excess(), Reverse(comparison.bound_ns)));
    // Without waits, there is nothing to compare.
    let Some(worst) = worst.filter(|_| waits > 0) else {
        return Check {
            name: NAME,
            outcome: CheckOutcome::Unknown,
            found: "no task was woken within the window".to_owned(),
            numbers: Vec::new(),
        };
    };
    let time = |ns: u64| units::duration(u128::from(ns), false);
    let found = format!(
        "waits after a wakeup: {} by the tracepoints, {} by the queue clock; the largest difference is at {}: {} by the \
         {} are more than {} above it, and {} by the {} are above it, {} more (limit: {}, because of {} that only one of \
         the two may have and {} that may be further apart)",
        units::thousands(tracepoints.count()),
        units::thousands(queue_clock.count()),
        time(worst.bound_ns),
        units::thousands(worst.above_longer),
        worst.longer,
        time(distance_ns),
        units::thousands(worst.above_shorter),
        worst.shorter,
        units::thousands(worst.more()),
        units::thousands(worst.allowed),
        units::thousands(worst.allowed - further_apart),
        units::thousands(further_apart),
    );
    let numbers = vec![
        ("bound_ns", worst.bound_ns),
        ("distance_ns", distance_ns),
        ("waits_above_longer", worst.above_longer),
        ("waits_above_shorter", worst.above_shorter),
        ("waits_more", worst.more()),
        ("waits_allowed", worst.allowed),
    ];
    let outcome = if worst.excess() > 0 { CheckOutcome::Disagree } else { CheckOutcome::Agree };
    Check { name: NAME, outcome, found, numbers }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(lengths_ns: impl IntoIterator<Item = u64>) -> BucketTally {
        let mut tally = BucketTally::default();
        lengths_ns.into_iter().for_each(|length_ns| tally.add(length_ns));
        tally
    }

    fn outcome(tracepoints: &BucketTally, queue_clock: &BucketTally) -> CheckOutcome {
        check(tracepoints, queue_clock, OneSidedWaits::default(), DISTANCE_NS).outcome
    }

    fn both_ways(one: &BucketTally, other: &BucketTally) -> [CheckOutcome; 2] {
        [outcome(one, other), outcome(other, one)]
    }

    #[test]
    fn each_one_sided_wait_explains_one_and_no_more() {
        for power in [17, 20, 30] {
            let (bound_ns, longer) = (1u64 << power, 100 + FURTHER_APART_LEAST);
            let one = tally(std::iter::repeat_n(10, 100).chain(std::iter::repeat_n(2 * bound_ns, longer as usize)));
            let other = tally(std::iter::repeat_n(10, 100 + longer as usize));
            let allowed = (100 + longer) / FURTHER_APART_SHARE;
            for (more, expected) in [(0, CheckOutcome::Agree), (1, CheckOutcome::Disagree)] {
                let only = OneSidedWaits { by_queue_clock: longer - allowed - more, by_tracepoints: 0 };
                assert_eq!(check(&other, &one, only, DISTANCE_NS).outcome, expected);
                let only = OneSidedWaits { by_tracepoints: longer - allowed - more, by_queue_clock: 0 };
                assert_eq!(check(&one, &other, only, DISTANCE_NS).outcome, expected);
            }
        }
    }

    #[test]
    fn the_worst_bound_is_named() {
        let one = tally(std::iter::repeat_n(1_000_000, 100));
        let check = check(&one, &tally(std::iter::repeat_n(10, 100)), OneSidedWaits::default(), DISTANCE_NS);
        assert_eq!(check.outcome, CheckOutcome::Disagree);
        assert!(check.found.contains(": 100 by the tracepoints are more than "), "{check:?}");
        let waits: Vec<u64> = check.numbers.iter().skip(2).map(|(_, number)| *number).collect();
        assert_eq!(waits, [100, 0, 100, 2]);
    }

    #[test]
    fn the_distance_is_20_us_and_grows_with_the_clock_tolerance_of_a_slow_machine() {
        assert_eq!([0, 5_000, 5_001, 50_000].map(distance_ns), [20_000, 20_000, 20_004, 200_000]);
    }

    #[test]
    fn without_waits_the_outcome_is_unknown() {
        assert_eq!(outcome(&tally([]), &tally([])), CheckOutcome::Unknown);
    }

    proptest! {
        #[test]
        fn waits_within_the_distance_agree(
            pairs in prop::collection::vec((0..1u64 << 36, 0..2 * DISTANCE_NS + 1), 1..300)
        ) {
            let one = tally(pairs.iter().map(|(length_ns, _)| *length_ns));
            let apart = |(length_ns, by_ns): &(u64, u64)| (length_ns + by_ns).saturating_sub(DISTANCE_NS);
            prop_assert_eq!(both_ways(&one, &tally(pairs.iter().map(apart))), [CheckOutcome::Agree; 2]);
        }

        #[test]
        fn a_shift_of_one_power_of_two_is_found(power in 16u32..34, count in 100u64..1_000) {
            // In one octave, so that all of them cross the bound above.
            let lengths = || (0..count).map(|index| (1u64 << power) + ((1u64 << power) / count) * index);
            let shifted = tally(lengths().map(|length_ns| 2 * length_ns));
            prop_assert_eq!(both_ways(&tally(lengths()), &shifted), [CheckOutcome::Disagree; 2]);
        }

        #[test]
        fn a_lost_tail_is_found(power in 16u32..34, count in 100u64..1_000, percent in 5u64..100) {
            let tail = count * percent / 100;
            let whole = tally((0..count).map(|index| if index < tail { 3 << power } else { 100 }));
            let cut = tally((0..count).map(|_| 100));
            prop_assert_eq!(both_ways(&whole, &cut), [CheckOutcome::Disagree; 2]);
        }

        #[test]
        fn waits_above_a_power_of_two_are_counted_exactly(
            lengths_ns in prop::collection::vec(0..u64::MAX, 0..100), power in 0u32..64
        ) {
            let least_ns = 1u64 << power;
            let expected = lengths_ns.iter().filter(|length_ns| **length_ns >= least_ns).count() as u64;
            prop_assert_eq!(tally(lengths_ns).at_least(least_ns), expected);
        }
    }
}
