//! What waits of a random subset of tasks, and of random parts of the time, tell of the waits of all: pure.
//!
//! Tasks are drawn, not waits, and a task's waits resemble each other. So how far a percentile may be off is not judged from the
//! number of waits, but from how much parts of the drawn tasks differ: the drawn tasks are split at random into
//! `PARTS`, and the spread over the parts of the share of waits up to the percentile gives that share's standard error (the
//! method of random groups, Wolter, "Introduction to Variance Estimation"). The same is done with the periods in which waits
//! were watched, where there were rests between them, and the two variances are added: what both have in common counts twice, so
//! that the sum is rather too large (Ohlsson 1996, on samples crossed like these). The bounds are the values at which the share is that much
//! lower and higher (Woodruff 1952). Each wait stands for as many as its level and its period say.

use std::collections::BTreeMap;

use wakelat_common::{bucket, share::scatter};

use super::rank::{Percentile, first};

/// Parts of the drawn tasks, and of the periods. More would tell the spread better, of which there are as many as tasks at best.
const PARTS: usize = 64;

/// In how many of a hundred intervals the percentile of all tasks lies, by the quantiles of `quantile`.
pub const CONFIDENCE_PERCENT: u32 = 95;

/// A stretch of time in which waits were watched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// The how manieth of the run.
    pub number: u64,
    /// For how much it stands, of its own length: 1, and the rest before it.
    pub stands_for: f64,
}

impl Period {
    /// The first, with no rest before it.
    pub const FIRST: Self = Self { number: 0, stands_for: 1.0 };
}

/// What was in force in a window, whether there was a wait or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Tasks were drawn at levels up to this.
    pub up_to: u8,
    /// There were rests.
    pub with_rests: bool,
}

/// Waits of drawn tasks.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// For how many they stand, by bucket and part of the tasks.
    by_task: BTreeMap<(u16, u8), f64>,
    /// The same by part of the periods, of those with a rest before them: the others stand for themselves.
    by_period: BTreeMap<(u16, u8), f64>,
    sums: Sums,
    /// What was in force, and what of that was in force when a wait was recorded.
    drawn: (Drawn, Drawn),
}

/// Of all waits.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    recorded: f64,
    stand_for: f64,
    squares: f64,
    /// For how many they stand of the tasks that were drawn.
    of_drawn: f64,
    /// Of those with a rest before them, for how many they stand, and for how many of the time that was watched.
    after_rests: f64,
    of_watched: f64,
    /// The least and the most that one stands for.
    least: f64,
    most: f64,
}

/// Where a percentile of the waits of all tasks lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Not below this: ns.
    pub low_ns: u64,
    /// Not above this: ns; none where the drawn tasks do not tell.
    pub high_ns: Option<u64>,
}

/// One part of what was drawn: its waits up to a value, and all of them, each for as many as it stands for.
#[derive(Clone, Copy, Default)]
struct Part {
    up_to: f64,
    all: f64,
}

impl Sampled {
    /// Adds a wait of `tid`, drawn at `level` and watched in `period`.
    pub fn record(&mut self, tid: u32, level: u8, period: Period, latency_ns: u64) {
        let bucket = bucket::index(latency_ns) as u16;
        let of_level = f64::from(1u32 << level);
        let stands_for = of_level * period.stands_for;
        *self.by_task.entry((bucket, part(tid.into()))).or_default() += stands_for;
        let is_after_rest = period.stands_for > 1.0;
        if is_after_rest {
            *self.by_period.entry((bucket, part(period.number))).or_default() += stands_for;
        }
        self.drawn.1.add(Drawn { up_to: level, with_rests: is_after_rest });
        self.sums.add(&Sums {
            recorded: 1.0,
            stand_for: stands_for,
            squares: stands_for.powi(2),
            of_drawn: period.stands_for,
            after_rests: if is_after_rest { stands_for } else { 0.0 },
            of_watched: if is_after_rest { of_level } else { 0.0 },
            least: stands_for,
            most: stands_for,
        });
    }

    /// Says what was in force.
    pub fn draw(&mut self, drawn: Drawn) {
        self.drawn.0.add(drawn);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.drawn.0.add(other.drawn.0);
        self.drawn.1.add(other.drawn.1);
        self.sums.add(&other.sums);
        for (ours, theirs) in [(&mut self.by_task, &other.by_task), (&mut self.by_period, &other.by_period)] {
            theirs.iter().for_each(|(key, stand_for)| *ours.entry(*key).or_default() += stand_for);
        }
    }

    /// Whether all waits stand for equally many.
    pub fn is_even(&self) -> bool {
        self.sums.least == self.sums.most
    }

    /// The waits by bucket, each for as many as it stands for; rising.
    fn weighted(&self) -> BTreeMap<u16, f64> {
        let mut buckets = BTreeMap::new();
        self.by_task.iter().for_each(|((bucket, _), stand_for)| *buckets.entry(*bucket).or_default() += stand_for);
        buckets
    }

    /// The percentile of the waits of all tasks: ns, the largest value of its bucket. 0 where there is no wait.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        let buckets = self.weighted();
        percentile.find_weighted(&buckets).map_or(0, |bucket| bucket::upper(bucket.into()).saturating_sub(1))
    }

    /// Where the percentile of the waits of all tasks lies. None where that cannot be told from tasks of one part or periods of one,
    /// or where no task was drawn at the highest level, or watched after a rest: of the time in which that was so nothing is known
    /// then.
    pub fn interval(&self, percentile: Percentile) -> Option<Interval> {
        let (in_force, known) = self.drawn;
        if in_force.up_to > known.up_to || in_force.with_rests && !known.with_rests {
            return None;
        }
        let share = percentile.share();
        let buckets = self.weighted();
        let found = percentile.find_weighted(&buckets)?;
        let Sums { recorded, stand_for, squares, of_drawn, after_rests, of_watched, .. } = self.sums;
        // What is known of all is certain: only the part that was not seen can differ.
        let unseen = |seen: f64, of: f64| if seen < of { 1.0 - seen / of } else { 0.0 };
        let unseen_waits = unseen(recorded, stand_for);
        if unseen_waits == 0.0 {
            let bucket = usize::from(found);
            return Some(Interval { low_ns: bucket::lower(bucket), high_ns: Some(bucket::upper(bucket) - 1) });
        }
        let tasks = parts(&self.by_task, found);
        let found_share = tasks.iter().map(|part| part.up_to).sum::<f64>() / stand_for;
        let mut freedom = usize::MAX;
        let mut between = 0.0;
        let periods = parts(&self.by_period, found);
        for (parts, unseen) in [(tasks, unseen(of_drawn, stand_for)), (periods, unseen(of_watched, after_rests))] {
            if unseen > 0.0 {
                let (variance, used) = spread(&parts, found_share)?;
                between += unseen * variance / stand_for.powi(2);
                freedom = freedom.min(used - 1);
            }
        }
        // Parts may agree by chance, all the more where the percentile is near an end: it is never less than for single waits.
        let of_waits = unseen_waits * share * (1.0 - share) * squares / stand_for.powi(2);
        let width = quantile(freedom) * between.max(of_waits).sqrt();
        let low = at(&buckets, (share - width).max(0.0)).unwrap_or(0);
        let high = (share + width < 1.0).then(|| at(&buckets, share + width)).flatten();
        Some(Interval {
            low_ns: if share - width <= 0.0 { 0 } else { bucket::lower(low.into()) },
            high_ns: high.map(|bucket| bucket::upper(bucket.into()).saturating_sub(1)),
        })
    }
}

impl Drawn {
    fn add(&mut self, other: Self) {
        self.up_to = self.up_to.max(other.up_to);
        self.with_rests |= other.with_rests;
    }
}

impl Sums {
    fn add(&mut self, other: &Self) {
        if self.recorded == 0.0 {
            *self = *other;
        } else if other.recorded > 0.0 {
            self.recorded += other.recorded;
            self.stand_for += other.stand_for;
            self.squares += other.squares;
            self.of_drawn += other.of_drawn;
            self.after_rests += other.after_rests;
            self.of_watched += other.of_watched;
            self.least = self.least.min(other.least);
            self.most = self.most.max(other.most);
        }
    }
}

/// The part to which what has this number belongs.
fn part(number: u64) -> u8 {
    (scatter(number) % PARTS as u64) as u8
}

/// The parts, with their waits in buckets up to `bucket`.
fn parts(counts: &BTreeMap<(u16, u8), f64>, bucket: u16) -> [Part; PARTS] {
    let mut parts = [Part::default(); PARTS];
    for ((at, part), stand_for) in counts {
        let part = &mut parts[usize::from(*part)];
        part.all += stand_for;
        if *at <= bucket {
            part.up_to += stand_for;
        }
    }
    parts
}

/// The variance of the number of waits up to a value, where of all of them it is `share`; and how many equal parts would tell
/// as much (Kish 1965): a few that stand for very many tell little. None where it is less than two.
fn spread(parts: &[Part; PARTS], share: f64) -> Option<(f64, usize)> {
    let all: f64 = parts.iter().map(|part| part.all).sum();
    let used = all.powi(2) / parts.iter().map(|part| part.all.powi(2)).sum::<f64>();
    // Not a number where there is no wait.
    let is_enough = used >= 2.0;
    let spread: f64 = parts.iter().map(|part| (part.up_to - share * part.all).powi(2)).sum();
    is_enough.then_some((spread * used / (used - 1.0), used as usize))
}

/// The first bucket up to which at least `share` of the waits are.
fn at(buckets: &BTreeMap<u16, f64>, share: f64) -> Option<u16> {
    first(buckets, |up_to, all| up_to >= share * all)
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
mod tests;
