//! What waits of a random subset of tasks tell of the waits of all: pure.
//!
//! Tasks are drawn, not waits, and a task's waits resemble each other. So how far a percentile may be off is not judged from the
//! number of waits, but from how much parts of the drawn tasks differ: the drawn tasks are split at random into
//! `PARTS`, and the spread over the parts of the share of waits up to the percentile gives that share's standard error (the
//! method of random groups, Wolter, "Introduction to Variance Estimation"). The bounds are the values at which the share is that much
//! lower and higher (Woodruff 1952). Where several levels were in force, each wait stands for as many as its level says.

use std::collections::BTreeMap;

use wakelat_common::{bucket, share::scatter};

/// Parts of the drawn tasks. More would tell the spread better, of which there are as many as tasks at best.
const PARTS: u64 = 64;

/// In how many of a hundred intervals the percentile of all tasks lies, by the quantiles of `quantile`.
pub const CONFIDENCE_PERCENT: u32 = 95;

/// Waits of drawn tasks.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// By level, bucket and part.
    counts: BTreeMap<(u8, u16, u8), u64>,
    /// The highest level that was in force.
    highest: u8,
}

/// Where a percentile of the waits of all tasks lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Not below this: ns.
    pub low_ns: u64,
    /// Not above this: ns; none where the drawn tasks do not tell.
    pub high_ns: Option<u64>,
}

/// One part of the drawn tasks: its waits up to a value, and all of them, each for as many as it stands for.
#[derive(Clone, Copy, Default)]
struct Part {
    up_to: f64,
    all: f64,
}

impl Sampled {
    /// Adds a wait of `tid`, drawn at `level`.
    pub fn record(&mut self, tid: u32, level: u8, latency_ns: u64) {
        let part = (scatter(tid.into()) % PARTS) as u8;
        *self.counts.entry((level, bucket::index(latency_ns) as u16, part)).or_default() += 1;
    }

    /// Says that `level` was the highest in force, whether a task was drawn at it or not.
    pub fn drawn_up_to(&mut self, level: u8) {
        self.highest = self.highest.max(level);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.highest = self.highest.max(other.highest);
        for (key, count) in &other.counts {
            *self.counts.entry(*key).or_default() += count;
        }
    }

    /// Whether all waits stand for equally many.
    pub fn is_of_one_level(&self) -> bool {
        let levels = || self.counts.keys().map(|(level, ..)| *level);
        levels().next() == levels().next_back()
    }

    /// The waits by bucket, each for as many as it stands for; rising.
    fn weighted(&self) -> BTreeMap<u16, f64> {
        let mut buckets = BTreeMap::new();
        for ((level, bucket, _), count) in &self.counts {
            *buckets.entry(*bucket).or_default() += weight(*level) * *count as f64;
        }
        buckets
    }

    /// The percentile of the waits of all tasks: ns, the largest value of its bucket. 0 where there is no wait.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let buckets = self.weighted();
        at(&buckets, percent / 100.0).map_or(0, |bucket| bucket::upper(bucket.into()).saturating_sub(1))
    }

    /// Where the percentile of the waits of all tasks lies. None where that cannot be told from tasks of one part, or where
    /// none was drawn at the highest level: of the time in which it was in force nothing is known then.
    pub fn interval(&self, percent: f64) -> Option<Interval> {
        if self.highest > 0 && !self.counts.keys().any(|(level, ..)| *level == self.highest) {
            return None;
        }
        let share = percent / 100.0;
        let buckets = self.weighted();
        let found = at(&buckets, share)?;
        let (parts, drawn) = self.parts(found);
        let all: f64 = parts.iter().map(|part| part.all).sum();
        let found_share = parts.iter().map(|part| part.up_to).sum::<f64>() / all;
        // As many as equal ones would tell as much (Kish 1965): a few that stand for very many tell little.
        let used = all.powi(2) / parts.iter().map(|part| part.all.powi(2)).sum::<f64>();
        // The part of the waits that were not drawn, on average: what is known of all is certain.
        let unseen = 1.0 - drawn;
        if unseen <= 0.0 {
            let bucket = usize::from(found);
            return Some(Interval { low_ns: bucket::lower(bucket), high_ns: Some(bucket::upper(bucket) - 1) });
        }
        if used < 2.0 {
            return None;
        }
        let spread: f64 = parts.iter().map(|part| (part.up_to - found_share * part.all).powi(2)).sum();
        let between = spread * used / (used - 1.0) / all.powi(2);
        // Parts may agree by chance, all the more where the percentile is near an end: it is never less than for single waits.
        let waits =
            all.powi(2) / self.counts.iter().map(|((level, ..), n)| weight(*level).powi(2) * *n as f64).sum::<f64>();
        let error = (unseen * between.max(share * (1.0 - share) / waits)).sqrt();
        let width = quantile(used as usize - 1) * error;
        let low = at(&buckets, (share - width).max(0.0)).unwrap_or(0);
        let high = (share + width < 1.0).then(|| at(&buckets, share + width)).flatten();
        Some(Interval {
            low_ns: if share - width <= 0.0 { 0 } else { bucket::lower(low.into()) },
            high_ns: high.map(|bucket| bucket::upper(bucket.into()).saturating_sub(1)),
        })
    }

    /// The parts, with their waits in buckets up to `bucket`; and the share of all waits that were drawn.
    fn parts(&self, bucket: u16) -> ([Part; PARTS as usize], f64) {
        let mut parts = [Part::default(); PARTS as usize];
        let (mut drawn, mut all) = (0.0, 0.0);
        for ((level, at, part), count) in &self.counts {
            let stands_for = weight(*level) * *count as f64;
            let part = &mut parts[usize::from(*part)];
            part.all += stands_for;
            if *at <= bucket {
                part.up_to += stands_for;
            }
            drawn += *count as f64;
            all += stands_for;
        }
        (parts, drawn / all)
    }
}

/// How many waits one that was drawn at `level` stands for.
fn weight(level: u8) -> f64 {
    f64::from(1u32 << level)
}

/// The first bucket up to which at least `share` of the waits are.
fn at(buckets: &BTreeMap<u16, f64>, share: f64) -> Option<u16> {
    let all: f64 = buckets.values().sum();
    let mut up_to = 0.0;
    for (bucket, count) in buckets {
        up_to += count;
        if up_to >= share * all * (1.0 - 1e-12) {
            return Some(*bucket);
        }
    }
    buckets.keys().next_back().copied()
}

/// The quantile of Student's distribution for a two-sided interval of [`CONFIDENCE_PERCENT`].
fn quantile(freedom: usize) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    const NORMAL: f64 = 1.959_964;
    // The first terms of the expansion about the normal distribution: right to a thousandth or two from 11 on.
    let freedom_f = freedom as f64;
    let expanded = NORMAL
        + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom_f)
        + (5.0 * NORMAL.powi(5) + 16.0 * NORMAL.powi(3) + 3.0 * NORMAL) / (96.0 * freedom_f.powi(2));
    FEW.get(freedom.wrapping_sub(1)).copied().unwrap_or(expanded)
}

#[cfg(test)]
mod tests {
    use wakelat_common::share::watches;

    use super::*;

    /// The waits of task `tid`: each task has a level and a spread of its own, as tasks do.
    fn waits(tid: u32) -> impl Iterator<Item = u64> {
        let own = 1_000 + scatter(tid.into()) % 20_000;
        (0..20 + tid % 40).map(move |n| own + scatter((u64::from(tid) << 32) | u64::from(n)) % 10_000)
    }

    fn sampled(tids: impl Iterator<Item = u32>, level: u8) -> Sampled {
        let mut sampled = Sampled::default();
        tids.for_each(|tid| waits(tid).for_each(|wait| sampled.record(tid, level, wait)));
        sampled
    }

    #[test]
    fn of_a_hundred_draws_about_ninety_five_intervals_hold_the_percentile_of_all() {
        const TASKS: u32 = 800;
        let percents = [50.0, 90.0, 99.0];
        let all = sampled(0..TASKS, 0);
        let mut held = [0; 3];
        for draw in 0..100u64 {
            let salt = scatter(draw + 1);
            let drawn = sampled((0..TASKS).filter(|tid| watches(*tid, salt, 3)), 3);
            for (held, percent) in held.iter_mut().zip(percents) {
                let (exact, interval) = (all.percentile_ns(percent), drawn.interval(percent).unwrap());
                *held += u32::from(interval.low_ns <= exact && interval.high_ns.is_none_or(|high| exact <= high));
            }
        }
        // 95 ± three standard deviations; buckets round outwards, so that more is no surprise.
        assert!(held.iter().all(|held| *held >= 88), "{held:?}");
    }

    #[test]
    fn an_interval_from_waits_alone_would_be_too_narrow() {
        // Each task waits the same each time: what is known is as much as there are tasks.
        let mut drawn = Sampled::default();
        (0..40u32).for_each(|tid| (0..1_000).for_each(|_| drawn.record(tid, 3, 1_000 * u64::from(tid + 1))));
        let interval = drawn.interval(50.0).unwrap();
        assert!(interval.low_ns < 18_000 && interval.high_ns.unwrap() > 23_000, "{interval:?}");
    }

    #[test]
    fn where_all_are_watched_the_interval_is_the_bucket() {
        let all = sampled(0..100, 0);
        let interval = all.interval(50.0).unwrap();
        assert_eq!(interval.high_ns, Some(all.percentile_ns(50.0)));
        assert!(interval.high_ns.unwrap() - interval.low_ns <= interval.low_ns / 32);
    }

    #[test]
    fn what_was_drawn_at_a_higher_level_stands_for_more() {
        let mut drawn = Sampled::default();
        // 800 short waits of all tasks, and 100 long ones of an eighth of them: as many.
        (0..800).for_each(|tid| drawn.record(tid, 0, 1_000));
        (0..101).for_each(|tid| drawn.record(tid, 3, 1_000_000));
        assert!(!drawn.is_of_one_level());
        assert!(drawn.percentile_ns(49.0) < 1_100 && drawn.percentile_ns(50.5) > 900_000);
    }

    #[test]
    fn a_few_that_stand_for_very_many_tell_little() {
        let mut drawn = sampled(0..100, 0);
        (0..3).for_each(|tid| drawn.record(tid, 15, 5_000));
        let interval = drawn.interval(90.0);
        assert!(interval.is_none_or(|interval| interval.high_ns.is_none()), "{interval:?}");
    }

    #[test]
    fn a_time_in_which_nobody_was_drawn_is_not_told_of() {
        let mut drawn = sampled(0..100, 0);
        assert!(drawn.interval(50.0).is_some());
        drawn.drawn_up_to(4);
        assert_eq!(drawn.interval(50.0), None);
    }

    #[test]
    fn the_end_of_the_tail_is_open() {
        let drawn = sampled(0..4, 3);
        assert_eq!(drawn.interval(99.9).unwrap().high_ns, None);
    }

    #[test]
    fn of_one_task_nothing_is_told_of_others() {
        assert_eq!(sampled(7..8, 3).interval(50.0), None);
        assert_eq!(Sampled::default().interval(50.0), None);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (63, 1.998)] {
            assert!((quantile(freedom) - expected).abs() < 0.003, "{freedom}: {}", quantile(freedom));
        }
    }
}
