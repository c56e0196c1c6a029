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

/// The waits at one instant of a load that comes and goes in waves, twenty to a run.
fn waits_at(instant: u32) -> impl Iterator<Item = u64> {
    let wave = f64::from(instant % 1700) / 1700.0;
    (0..4).map(move |n| 1_000 + (wave * 20_000.0) as u64 + scatter((u64::from(instant) << 8) | n) % 3_000)
}

#[test]
fn of_a_hundred_samples_of_the_time_about_ninety_intervals_hold_the_percentile_of_all() {
    const INSTANTS: u32 = 10_000;
    let percents = [Percentile::P50, Percentile::P90, Percentile::P99];
    let mut all = Sampled::default();
    (0..INSTANTS).for_each(|at| waits_at(at).for_each(|wait| all.record(at % 4, 0, Period::FIRST, wait)));
    let mut held = [0; 3];
    for draw in 0..100u64 {
        let mut sample = Sampled::default();
        let (mut at, mut number) = (scatter(draw) as u32 % 400, 0);
        while at < INSTANTS {
            let measured = at..(at + 100).min(INSTANTS);
            let pause = 200 + (scatter((draw << 32) | u64::from(at)) % 400) as u32;
            let period = Period { number, stands_for: 5.0 };
            at = measured.end + pause;
            number += 1;
            measured.for_each(|at| waits_at(at).for_each(|wait| sample.record(at % 4, 0, period, wait)));
        }
        for (held, percent) in held.iter_mut().zip(percents) {
            let (exact, interval) = (all.percentile_ns(percent), sample.interval(percent).unwrap());
            *held += u32::from(interval.low_ns <= exact && interval.high_ns.is_none_or(|high| exact <= high));
        }
    }
    // Twenty periods show how much periods differ to a quarter of it only, and a wave takes as long as a round.
    assert!(held.iter().all(|held| *held >= 88), "{held:?}");
}

#[test]
fn what_comes_after_a_rest_stands_for_the_time_of_the_rest() {
    let mut drawn = Sampled::default();
    (0..800).for_each(|tid| drawn.record(tid, 0, Period::FIRST, 1_000));
    (0..101).for_each(|tid| drawn.record(tid, 0, Period { number: 1, stands_for: 8.0 }, 1_000_000));
    assert!(!drawn.is_even());
    assert!(
        drawn.percentile_ns(Percentile::per_mille(490)) < 1_100
            && drawn.percentile_ns(Percentile::per_mille(505)) > 900_000
    );
}

#[test]
fn of_one_period_nothing_is_told_of_the_rests() {
    let mut drawn = Sampled::default();
    (0..800).for_each(|tid| drawn.record(tid, 0, Period { number: 1, stands_for: 8.0 }, 1_000));
    assert_eq!(drawn.interval(Percentile::P50), None);
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (freedom, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (63, 1.998)] {
        assert!((quantile(freedom) - expected).abs() < 0.003, "{freedom}: {}", quantile(freedom));
    }
}
