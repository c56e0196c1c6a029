//! Samples of loads whose percentiles are known exactly.

use wakelat_common::task_sampling::is_sampled;

use super::*;

/// The waits of task `tid`: each task has its own base latency and number of waits, as real tasks do.
fn waits(tid: u32) -> impl Iterator<Item = u64> {
    let own = 1_000 + fmix64(tid.into()) % 20_000;
    (0..20 + tid % 40).map(move |n| own + fmix64((u64::from(tid) << 32) | u64::from(n)) % 10_000)
}

fn sampled(tids: impl Iterator<Item = u32>, shift: u8) -> SampledDistribution {
    let mut sampled = SampledDistribution::default();
    tids.for_each(|tid| waits(tid).for_each(|wait| sampled.record(tid, shift, Period::FIRST, wait)));
    sampled.end_period(0);
    sampled
}

/// Number of independent samples.
const DRAWS: u64 = 200;

/// How many of [`DRAWS`] intervals contained their percentile.
#[derive(Default)]
struct Held {
    whole: u64,
    /// Intervals scaled to a quarter of their width, about the percentile of the sample.
    quarter: u64,
}

impl Held {
    fn count(&mut self, exact_ns: u64, sample: &SampledDistribution, percent: Percentile) {
        let (found_ns, interval) =
            (sample.percentile_ns(percent), sample.interval(percent).expect("the sample is large enough"));
        let holds = |low: u64, high: Option<u64>| low <= exact_ns && high.is_none_or(|high| exact_ns <= high);
        self.whole += u64::from(holds(interval.low_ns, interval.high_ns));
        let low = found_ns - (found_ns - interval.low_ns) / 4;
        self.quarter += u64::from(holds(low, interval.high_ns.map(|high| found_ns + (high - found_ns) / 4)));
    }

    /// 95 of 100 intervals contain the percentile, less 3.5 standard deviations of that count; buckets
    /// round outwards, so all of them may. Correct intervals are not much too wide either: of those a
    /// quarter as wide, about 38 of 100 contain it if their bounds are not rounded to buckets.
    fn assert_coverage(&self, percent: Percentile) {
        assert!(self.whole >= 179, "{percent:?}: {} of {DRAWS} contain it", self.whole);
        assert!(self.quarter <= 150, "{percent:?}: {} of {DRAWS} a quarter as wide contain it", self.quarter);
    }
}

#[test]
fn intervals_contain_the_percentile_of_all_tasks_and_are_not_too_wide() {
    const TASKS: u32 = 800;
    let all = sampled(0..TASKS, 0);
    for percent in [Percentile::P50, Percentile::P90, Percentile::P99] {
        let mut held = Held::default();
        for draw in 0..DRAWS {
            let seed = fmix64(draw + 1);
            let sample = sampled((0..TASKS).filter(|tid| is_sampled(*tid, seed, 3)), 3);
            held.count(all.percentile_ns(percent), &sample, percent);
        }
        held.assert_coverage(percent);
    }
}

#[test]
fn an_interval_accounts_for_waits_of_one_task_being_alike() {
    // Each task always waits equally long: the sample is only as large as the number of tasks.
    let mut sample = SampledDistribution::default();
    (0..40u32)
        .for_each(|tid| (0..1_000).for_each(|_| sample.record(tid, 3, Period::FIRST, 1_000 * u64::from(tid + 1))));
    let interval = sample.interval(Percentile::P50).unwrap();
    assert!(interval.low_ns < 18_000 && interval.high_ns.unwrap() > 23_000, "{interval:?}");
}

#[test]
fn the_interval_is_the_bucket_if_all_tasks_are_measured() {
    let all = sampled(0..100, 0);
    let interval = all.interval(Percentile::P50).unwrap();
    assert_eq!(interval.high_ns, Some(all.percentile_ns(Percentile::P50)));
    assert!(interval.high_ns.unwrap() - interval.low_ns <= interval.low_ns / 32);
}

#[test]
fn a_larger_shift_gives_a_larger_weight() {
    let mut sample = SampledDistribution::default();
    // 800 short waits of all tasks, and 101 long ones of an eighth of them: about as many.
    (0..800).for_each(|tid| sample.record(tid, 0, Period::FIRST, 1_000));
    (0..101).for_each(|tid| sample.record(tid, 3, Period::FIRST, 1_000_000));
    assert!(!sample.is_even());
    assert!(
        sample.percentile_ns(Percentile::per_mille(490)) < 1_100
            && sample.percentile_ns(Percentile::per_mille(505)) > 900_000
    );
}

#[test]
fn a_few_waits_of_large_weight_give_no_upper_bound() {
    let mut sample = sampled(0..100, 0);
    (0..3).for_each(|tid| sample.record(tid, 15, Period::FIRST, 5_000));
    let interval = sample.interval(Percentile::P90);
    assert!(interval.is_none_or(|interval| interval.high_ns.is_none()), "{interval:?}");
}

#[test]
fn there_is_no_interval_if_a_sampling_state_has_no_waits() {
    let sample = sampled(0..100, 0);
    assert!(sample.interval(Percentile::P50).is_some());
    for in_force in
        [SamplingState { max_shift: 4, with_pauses: false }, SamplingState { max_shift: 0, with_pauses: true }]
    {
        let mut sample = sample.clone();
        sample.add_state(in_force);
        assert_eq!(sample.interval(Percentile::P50), None);
    }
}

#[test]
fn the_end_of_the_tail_is_open() {
    let sample = sampled(0..4, 3);
    assert_eq!(sample.interval(Percentile::P99_9).unwrap().high_ns, None);
}

#[test]
fn one_task_gives_no_interval() {
    assert_eq!(sampled(7..8, 3).interval(Percentile::P50), None);
    assert_eq!(SampledDistribution::default().interval(Percentile::P50), None);
}

/// A wait of the simulated load.
#[derive(Clone, Copy)]
struct Simulated {
    tid: u32,
    began_at_ns: u64,
    latency_ns: u64,
}

/// Random numbers from 0 to 1, generated from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = fmix64(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.0 as f64 / u64::MAX as f64
    }

    /// An exponentially distributed number with this mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).max(1e-12).ln()
    }
}

const MS: u64 = 1_000_000;

/// A load whose latencies are scaled by a factor that changes about every `phase_ns`, by up to nine
/// times, and by a factor of the task, by up to two times.
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
        let of_task = 2f64.powf((fmix64(tid.into()) % 100) as f64 / 100.0);
        let latency_ns = random.exponential(scale_ns * of_task) as u64;
        waits.push(Simulated { tid, began_at_ns: at_ns as u64, latency_ns });
        at_ns += random.exponential(EVERY_NS);
    }
    waits
}

/// Samples `waits` of one task in two, in about `periods` periods, each a fifth of the time up to the
/// next.
fn sample(random: &mut Random, waits: &[Simulated], periods: u64) -> SampledDistribution {
    let round_ns = waits.last().unwrap().began_at_ns / periods;
    let seed = random.next().to_bits();
    let mut sample = SampledDistribution::default();
    sample.add_state(SamplingState { max_shift: 1, with_pauses: true });
    let mut ended_at_ns = 0;
    let mut waits = waits.iter().peekable();
    let mut number = 0;
    while waits.peek().is_some() {
        let pause_ns = ((0.4 + 0.8 * random.next()) * round_ns as f64) as u64;
        let (begins_ns, length_ns) = (ended_at_ns + pause_ns, round_ns / 5);
        ended_at_ns = begins_ns + length_ns;
        number += 1;
        while let Some(wait) = waits.next_if(|wait| wait.began_at_ns < ended_at_ns) {
            let is_whole = wait.began_at_ns >= begins_ns && wait.began_at_ns + wait.latency_ns <= ended_at_ns;
            if is_whole && is_sampled(wait.tid, seed, 1) {
                sample.record(wait.tid, 1, Period { number, pause_ns }, wait.latency_ns);
            }
        }
        sample.end_period(length_ns);
    }
    sample
}

#[test]
fn intervals_over_few_periods_contain_the_percentile_of_all_waits() {
    const RUNS: u64 = 200;
    /// 95 %, less 3.1 standard deviations of that count: fewer in one run of a thousand by chance.
    const HOLD: u32 = 180;
    const PERCENTS: [Percentile; 3] = [Percentile::P50, Percentile::P90, Percentile::P99];
    // Number of periods, mean time for which the load stays the same, and limits of the mean lower and
    // upper bound of the median, in percent of it: intervals half as wide, or wider, are wrong.
    for (periods, phase_ns, (low, high)) in
        [(6, 5e7, (50, 250)), (12, 5e7, (65, 150)), (12, 3e8, (60, 170)), (25, 3e8, (70, 140))]
    {
        let (mut hold, mut bounds) = ([0; 3], (0, 0));
        for run in 0..RUNS {
            let random = &mut Random(fmix64(run + 1));
            let waits = simulate(random, periods * 600 * MS, phase_ns);
            let mut exact: Vec<u64> = waits.iter().map(|wait| wait.latency_ns).collect();
            exact.sort_unstable();
            let sample = sample(random, &waits, periods);
            for (hold, percent) in hold.iter_mut().zip(PERCENTS) {
                let exact_ns = exact[percent.rank(exact.len() as u64) as usize - 1];
                let ConfidenceInterval { low_ns, high_ns } =
                    sample.interval(percent).expect("periods and tasks differ");
                *hold += u32::from(low_ns <= exact_ns && high_ns.is_none_or(|high_ns| exact_ns <= high_ns));
                if percent == Percentile::P50 {
                    bounds.0 += 100 * low_ns / exact_ns;
                    bounds.1 += high_ns.map_or(1_000, |high_ns| 100 * high_ns / exact_ns);
                }
            }
        }
        let bounds = (bounds.0 / RUNS, bounds.1 / RUNS);
        assert!(hold.iter().all(|hold| *hold >= HOLD), "{periods} periods: {hold:?} of {RUNS} contain it");
        assert!(bounds.0 >= low && bounds.1 <= high, "{periods} periods: {bounds:?} % of the median");
    }
}

/// In periods of 100 ms: waits of half a period are seen half as often.
#[test]
fn weights_make_up_for_waits_cut_off_by_the_beginning_of_a_period() {
    let random = &mut Random(7);
    let mut sample = SampledDistribution::default();
    for number in 1..200 {
        let period = Period { number, pause_ns: 400 * MS };
        for tid in 0..400 {
            // A wait ends at a random instant of the pause or the period; three of five waits are short.
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
fn a_wait_after_a_pause_also_counts_for_the_pause() {
    let mut sample = SampledDistribution::default();
    (0..800).for_each(|tid| sample.record(tid, 0, Period::FIRST, 1_000));
    sample.end_period(1_000_000_000);
    sample.measured(1_000_000_000);
    (0..101).for_each(|tid| sample.record(tid, 0, Period { number: 1, pause_ns: 7_000_000_000 }, 1_000_000));
    assert!(!sample.is_even());
    assert!(
        sample.percentile_ns(Percentile::per_mille(490)) < 1_100
            && sample.percentile_ns(Percentile::per_mille(505)) > 900_000
    );
}

#[test]
fn one_period_after_a_long_pause_gives_no_interval() {
    let mut sample = SampledDistribution::default();
    (0..800).for_each(|tid| sample.record(tid, 0, Period { number: 1, pause_ns: 7_000_000_000 }, 1_000));
    assert_eq!(sample.interval(Percentile::P50), None);
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (freedom, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (63, 1.998)] {
        assert!((quantile(f64::from(freedom)) - expected).abs() < 0.003, "{freedom}: {}", quantile(f64::from(freedom)));
    }
}

/// 100 tasks wait 1 to 100 ms each; one period of 900 ms after a pause of 100 ms.
#[test]
fn one_period_after_a_short_pause_gives_an_interval_widened_by_the_pause() {
    let mut sample = SampledDistribution::default();
    sample.add_state(SamplingState { max_shift: 0, with_pauses: true });
    for tid in 1..=100 {
        sample.record(tid, 0, Period { number: 1, pause_ns: 100 * MS }, u64::from(tid) * MS / 100);
    }
    sample.end_period(900 * MS);
    let interval = sample.interval(Percentile::P50).expect("the pause is short");
    // A tenth of the waits may be anywhere, so the median is between the 40th and the 60th of those seen; and the
    // share below it is known to 3.2 %, as that of 100 of 111 waits (1.96 × sqrt(0.25 / 100 × 0.1)).
    // The bucket of the 37th wait begins at 368,640 ns, and that of the 64th ends at 655,359 ns.
    assert_eq!((interval.low_ns, interval.high_ns), (368_640, Some(655_359)));
}
