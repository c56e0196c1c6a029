//! Samples of which all is known.

use wakelat_common::share::watches;

use super::*;

/// The waits of task `tid`: each task has a level and a spread of its own, as tasks do.
fn waits(tid: u32) -> impl Iterator<Item = u64> {
    let own = 1_000 + scatter(tid.into()) % 20_000;
    (0..20 + tid % 40).map(move |n| own + scatter((u64::from(tid) << 32) | u64::from(n)) % 10_000)
}

fn sampled(tids: impl Iterator<Item = u32>, level: u8) -> Sampled {
    let mut sampled = Sampled::default();
    tids.for_each(|tid| waits(tid).for_each(|wait| sampled.record(tid, level, Period::FIRST, wait)));
    sampled.end_period(0);
    sampled
}

/// Independent samples.
const DRAWS: u64 = 200;

/// How many of [`DRAWS`] intervals held their percentile.
#[derive(Default)]
struct Held {
    whole: u64,
    /// Intervals made a quarter as wide, about the percentile of the sample.
    quarter: u64,
}

impl Held {
    fn count(&mut self, exact_ns: u64, sample: &Sampled, percent: Percentile) {
        let (found_ns, interval) = (sample.percentile_ns(percent), sample.interval(percent).expect("enough is known"));
        let holds = |low: u64, high: Option<u64>| low <= exact_ns && high.is_none_or(|high| exact_ns <= high);
        self.whole += u64::from(holds(interval.low_ns, interval.high_ns));
        let low = found_ns - (found_ns - interval.low_ns) / 4;
        self.quarter += u64::from(holds(low, interval.high_ns.map(|high| found_ns + (high - found_ns) / 4)));
    }

    /// 95 of 100 hold it, less 3.5 standard deviations of that count; buckets round outwards, so that all may. Intervals that are right
    /// are not much too wide either: of those a quarter as wide, some 38 of 100 hold it where the bounds are no buckets.
    fn assert_as_many_as_said(&self, percent: Percentile) {
        assert!(self.whole >= 179, "{percent:?}: {} of {DRAWS} hold it", self.whole);
        assert!(self.quarter <= 150, "{percent:?}: {} of {DRAWS} a quarter as wide hold it", self.quarter);
    }
}

#[test]
fn ninety_five_of_a_hundred_intervals_hold_the_percentile_of_all_tasks_and_few_do_that_are_a_quarter_as_wide() {
    const TASKS: u32 = 800;
    let all = sampled(0..TASKS, 0);
    for percent in [Percentile::P50, Percentile::P90, Percentile::P99] {
        let mut held = Held::default();
        for draw in 0..DRAWS {
            let salt = scatter(draw + 1);
            let sample = sampled((0..TASKS).filter(|tid| watches(*tid, salt, 3)), 3);
            held.count(all.percentile_ns(percent), &sample, percent);
        }
        held.assert_as_many_as_said(percent);
    }
}

#[test]
fn an_interval_from_waits_alone_would_be_too_narrow() {
    // Each task waits the same each time: what is known is as much as there are tasks.
    let mut drawn = Sampled::default();
    (0..40u32).for_each(|tid| (0..1_000).for_each(|_| drawn.record(tid, 3, Period::FIRST, 1_000 * u64::from(tid + 1))));
    let interval = drawn.interval(Percentile::P50).unwrap();
    assert!(interval.low_ns < 18_000 && interval.high_ns.unwrap() > 23_000, "{interval:?}");
}

#[test]
fn where_all_are_watched_the_interval_is_the_bucket() {
    let all = sampled(0..100, 0);
    let interval = all.interval(Percentile::P50).unwrap();
    assert_eq!(interval.high_ns, Some(all.percentile_ns(Percentile::P50)));
    assert!(interval.high_ns.unwrap() - interval.low_ns <= interval.low_ns / 32);
}

#[test]
fn what_was_drawn_at_a_higher_level_stands_for_more() {
    let mut drawn = Sampled::default();
    // 800 short waits of all tasks, and 100 long ones of an eighth of them: as many.
    (0..800).for_each(|tid| drawn.record(tid, 0, Period::FIRST, 1_000));
    (0..101).for_each(|tid| drawn.record(tid, 3, Period::FIRST, 1_000_000));
    assert!(!drawn.is_even());
    assert!(
        drawn.percentile_ns(Percentile::per_mille(490)) < 1_100
            && drawn.percentile_ns(Percentile::per_mille(505)) > 900_000
    );
}

#[test]
fn a_few_that_stand_for_very_many_tell_little() {
    let mut drawn = sampled(0..100, 0);
    (0..3).for_each(|tid| drawn.record(tid, 15, Period::FIRST, 5_000));
    let interval = drawn.interval(Percentile::P90);
    assert!(interval.is_none_or(|interval| interval.high_ns.is_none()), "{interval:?}");
}

#[test]
fn a_time_in_which_nobody_was_drawn_is_not_told_of() {
    let drawn = sampled(0..100, 0);
    assert!(drawn.interval(Percentile::P50).is_some());
    for in_force in [Drawn { up_to: 4, with_rests: false }, Drawn { up_to: 0, with_rests: true }] {
        let mut drawn = drawn.clone();
        drawn.draw(in_force);
        assert_eq!(drawn.interval(Percentile::P50), None);
    }
}

#[test]
fn the_end_of_the_tail_is_open() {
    let drawn = sampled(0..4, 3);
    assert_eq!(drawn.interval(Percentile::P99_9).unwrap().high_ns, None);
}

#[test]
fn of_one_task_nothing_is_told_of_others() {
    assert_eq!(sampled(7..8, 3).interval(Percentile::P50), None);
    assert_eq!(Sampled::default().interval(Percentile::P50), None);
}

/// A wait of the simulated load.
#[derive(Clone, Copy)]
struct Simulated {
    tid: u32,
    began_at_ns: u64,
    latency_ns: u64,
}

/// Numbers from 0 to 1, drawn from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = scatter(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.0 as f64 / u64::MAX as f64
    }

    /// Exponential, of this mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).max(1e-12).ln()
    }
}

const MS: u64 = 1_000_000;

/// A load whose waits are of a scale that changes every `phase_ns` or so, by up to nine times, and of a scale of the task, by up to two times.
fn simulate(random: &mut Random, length_ns: u64, phase_ns: f64) -> Vec<Simulated> {
    const EVERY_NS: f64 = 1e6;
    let (mut at_ns, mut phase_ends_ns, mut scale_ns) = (0.0, 0.0, 0.0);
    let mut waits = Vec::new();
    while at_ns < length_ns as f64 {
        if at_ns >= phase_ends_ns {
            phase_ends_ns = at_ns + random.exponential(phase_ns);
            scale_ns = 4e5 * 3f64.powf(2.0 * random.next() - 1.0);
        }
        let tid = (random.next() * 200.0) as u32;
        let of_task = 2f64.powf((scatter(tid.into()) % 100) as f64 / 100.0);
        let latency_ns = random.exponential(scale_ns * of_task) as u64;
        waits.push(Simulated { tid, began_at_ns: at_ns as u64, latency_ns });
        at_ns += random.exponential(EVERY_NS);
    }
    waits
}

/// Samples `waits` of one task in two, and in about so many periods, each a fifth of the time up to the next.
fn sample(random: &mut Random, waits: &[Simulated], periods: u64) -> Sampled {
    let round_ns = waits.last().unwrap().began_at_ns / periods;
    let salt = random.next().to_bits();
    let mut sample = Sampled::default();
    sample.draw(Drawn { up_to: 1, with_rests: true });
    let mut ended_at_ns = 0;
    let mut waits = waits.iter().peekable();
    let mut number = 0;
    while waits.peek().is_some() {
        let rest_ns = ((0.4 + 0.8 * random.next()) * round_ns as f64) as u64;
        let (begins_ns, length_ns) = (ended_at_ns + rest_ns, round_ns / 5);
        ended_at_ns = begins_ns + length_ns;
        number += 1;
        while let Some(wait) = waits.next_if(|wait| wait.began_at_ns < ended_at_ns) {
            let is_whole = wait.began_at_ns >= begins_ns && wait.began_at_ns + wait.latency_ns <= ended_at_ns;
            if is_whole && watches(wait.tid, salt, 1) {
                sample.record(wait.tid, 1, Period { number, rest_ns }, wait.latency_ns);
            }
        }
        sample.end_period(length_ns);
    }
    sample
}

#[test]
fn ninety_five_of_a_hundred_intervals_over_few_periods_hold_the_percentile_of_all() {
    const RUNS: u64 = 200;
    /// 95 %, less 3.1 standard deviations of that count: once in a thousand by chance.
    const HOLD: u32 = 180;
    const PERCENTS: [Percentile; 3] = [Percentile::P50, Percentile::P90, Percentile::P99];
    // Periods, how long the load stays the same, and the mean bounds of the median at least and at most, in percent of it: half as wide
    // and wider ones are wrong.
    for (periods, phase_ns, (low, high)) in
        [(6, 5e7, (50, 250)), (12, 5e7, (65, 150)), (12, 3e8, (60, 170)), (25, 3e8, (70, 140))]
    {
        let (mut hold, mut bounds) = ([0; 3], (0, 0));
        for run in 0..RUNS {
            let random = &mut Random(scatter(run + 1));
            let waits = simulate(random, periods * 600 * MS, phase_ns);
            let mut exact: Vec<u64> = waits.iter().map(|wait| wait.latency_ns).collect();
            exact.sort_unstable();
            let sample = sample(random, &waits, periods);
            for (hold, percent) in hold.iter_mut().zip(PERCENTS) {
                let exact_ns = exact[percent.rank(exact.len() as u64) as usize - 1];
                let Interval { low_ns, high_ns } = sample.interval(percent).expect("periods and tasks differ");
                *hold += u32::from(low_ns <= exact_ns && high_ns.is_none_or(|high_ns| exact_ns <= high_ns));
                if percent == Percentile::P50 {
                    bounds.0 += 100 * low_ns / exact_ns;
                    bounds.1 += high_ns.map_or(1_000, |high_ns| 100 * high_ns / exact_ns);
                }
            }
        }
        let bounds = (bounds.0 / RUNS, bounds.1 / RUNS);
        assert!(hold.iter().all(|hold| *hold >= HOLD), "{periods} periods: {hold:?} of {RUNS} hold it");
        assert!(bounds.0 >= low && bounds.1 <= high, "{periods} periods: {bounds:?} % of the median");
    }
}

/// In periods of 100 ms: waits as long as half a period are seen half as often.
#[test]
fn waits_that_the_beginning_of_a_period_cuts_off_are_made_up_for_by_the_others() {
    let random = &mut Random(7);
    let mut sample = Sampled::default();
    for number in 1..200 {
        let period = Period { number, rest_ns: 400 * MS };
        for tid in 0..400 {
            // At any instant of the pause or the period ends a wait; three of five are short.
            let (ended_at_ms, is_short) = (500.0 * random.next() - 400.0, random.next() < 0.6);
            let latency_ms = if is_short { 1.0 } else { 50.0 };
            if ended_at_ms >= latency_ms {
                sample.record(tid, 0, period, (latency_ms * MS as f64) as u64);
            }
        }
        sample.end_period(100 * MS);
    }
    let short = |percentile: Percentile| sample.percentile_ns(percentile) < 2 * MS;
    assert!(short(Percentile::per_mille(580)) && !short(Percentile::per_mille(620)));
}

#[test]
fn what_comes_after_a_rest_stands_for_the_time_of_the_rest() {
    let mut drawn = Sampled::default();
    (0..800).for_each(|tid| drawn.record(tid, 0, Period::FIRST, 1_000));
    drawn.end_period(1_000_000_000);
    drawn.measured(1_000_000_000);
    (0..101).for_each(|tid| drawn.record(tid, 0, Period { number: 1, rest_ns: 7_000_000_000 }, 1_000_000));
    assert!(!drawn.is_even());
    assert!(
        drawn.percentile_ns(Percentile::per_mille(490)) < 1_100
            && drawn.percentile_ns(Percentile::per_mille(505)) > 900_000
    );
}

#[test]
fn of_one_period_nothing_is_told_of_the_rests() {
    let mut drawn = Sampled::default();
    (0..800).for_each(|tid| drawn.record(tid, 0, Period { number: 1, rest_ns: 7_000_000_000 }, 1_000));
    assert_eq!(drawn.interval(Percentile::P50), None);
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (freedom, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (63, 1.998)] {
        assert!((quantile(f64::from(freedom)) - expected).abs() < 0.003, "{freedom}: {}", quantile(f64::from(freedom)));
    }
}
