//! `--max-overhead`: how many tasks may be watched, from what the last slice of the account showed. Pure.
//!
//! Where the fewest are still too dear, the programs have to rest: see [`super::rest`].

use wakelat_common::share::MAX_LEVEL;

/// One task in 8. To call the programs takes about as long then as what they and the reader do for these: with fewer, much less
/// would be told, and little less taken.
const FEWEST: u8 = 3;

const _: () = assert!(FEWEST <= MAX_LEVEL);

/// Slices in a row that leave room before more tasks are watched: what they show is a sample.
const CALM: u32 = 3;

/// The part of the limit to aim at, for the same reason.
pub(super) const AIM: f64 = 0.9;

/// Watching twice as many tasks at most doubles the overhead: up to this part of the limit it still holds afterwards.
const ROOM: f64 = 0.4;

/// Keeps the overhead below a limit, by the level at which tasks are watched.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Share of the time of all CPUs.
    share: f64,
    level: u8,
    calm: u32,
}

impl Limit {
    /// Of so many millionths of the time of all CPUs. To begin with, every task is watched.
    pub fn new(ppm: u32) -> Self {
        Self { share: f64::from(ppm) / 1e6, level: 0, calm: 0 }
    }

    /// The level in force.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether as few tasks are watched as can be.
    pub fn is_at_fewest(&self) -> bool {
        self.level == FEWEST
    }

    /// Whether `share` is too much, and nothing is to be had by watching fewer tasks.
    pub fn is_exceeded_by(&self, share: f64) -> bool {
        self.is_at_fewest() && share > AIM * self.share
    }

    /// Measuring took `share` of the time of all CPUs while the programs were attached. Returns whether another level is in force from now on.
    pub fn step(&mut self, share: f64) -> bool {
        let before = self.level;
        if share > AIM * self.share {
            // What is to be had by watching fewer is proportional to them, at best.
            let halvings = (share / (AIM * self.share)).log2().ceil().max(1.0) as u8;
            self.level = self.level.saturating_add(halvings).min(FEWEST);
            self.calm = 0;
        } else {
            self.calm = if share <= ROOM * self.share { self.calm + 1 } else { 0 };
            if self.calm >= CALM && self.level > 0 {
                self.level -= 1;
                self.calm = 0;
            }
        }
        self.level != before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What measuring takes at `level`: a share for all tasks, and one for each wait watched.
    fn overhead(floor: f64, watched: f64, level: u8) -> f64 {
        floor + watched / f64::from(1u32 << level)
    }

    #[test]
    fn little_load_is_watched_whole() {
        let mut limit = Limit::new(5_000);
        assert!(!(0..100).any(|_| limit.step(0.004)));
        assert_eq!(limit.level(), 0);
    }

    #[test]
    fn where_the_events_alone_exceed_the_limit_as_few_as_can_be_are_watched() {
        let mut limit = Limit::new(5_000);
        (0..20).for_each(|_| {
            limit.step(0.02);
        });
        assert!(limit.is_at_fewest());
    }

    proptest! {
        #[test]
        fn a_steady_load_is_below_the_limit_after_a_few_slices_or_watched_least(
            ppm in 1_000..100_000u32, floor in 0.0..0.85, watched in 0.0..0.5,
        ) {
            let limit_share = f64::from(ppm) / 1e6;
            let floor = floor * limit_share;
            let mut limit = Limit::new(ppm);
            let mut shares: Vec<f64> = Vec::new();
            for _ in 0..200 {
                let share = overhead(floor, watched, limit.level());
                shares.push(share);
                limit.step(share);
            }
            prop_assert!(
                shares[16..].iter().all(|share| *share <= limit_share)
                    || limit.is_at_fewest() && shares[16..].iter().all(|share| *share == shares[16]),
                "{shares:?}"
            );
        }

        #[test]
        fn a_load_that_has_gone_is_watched_whole_again(watched in 0.01..0.5) {
            let mut limit = Limit::new(5_000);
            (0..20).for_each(|_| {
                limit.step(overhead(0.0, watched, limit.level()));
            });
            (0..100).for_each(|_| {
                limit.step(0.0);
            });
            prop_assert_eq!(limit.level(), 0);
        }
    }
}
