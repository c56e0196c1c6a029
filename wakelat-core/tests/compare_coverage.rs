//! Simulated runs whose waits depend on a load that changes slowly: how often an interval has the true ratio of the arms.
//! Each wait is as long as the load of its second makes it, so that waits are correlated, and a bootstrap of single waits is
//! far too sure. `WAKELAT_SIMULATIONS=1000 cargo test --release` prints the table of docs/compare.md with that many runs.

use wakelat_core::{
    aggregate::percentile_rank::Percentile,
    compare::{
        bootstrap::{self, Bootstrap, Interval},
        evidence::Evidence,
        latencies::LatencyCounts,
        metric::ComparedMetric,
        permutation::{Arrangements, Permutation},
        random::SplitMix,
    },
};

const METRICS: [ComparedMetric; 3] = [
    ComparedMetric::Percentile(Percentile::P50),
    ComparedMetric::Percentile(Percentile::P90),
    ComparedMetric::Percentile(Percentile::P99),
];

/// The correlation of the loads of two seconds that follow each other.
const CORRELATION: f64 = 0.8;

/// Waits in a second.
const WAITS: usize = 20;

/// Nominal coverage is one minus this.
const LEVEL: f64 = 0.05;

fn simulations() -> usize {
    std::env::var("WAKELAT_SIMULATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(40)
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut SplitMix) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.unit()).cos()
}

/// A run of so many seconds: its load is an AR(1) process, and its waits are log-normal around the load, to 1.6 % as in
/// buckets. `level` is the logarithm of its typical wait.
fn run(seconds: usize, level: f64, random: &mut SplitMix) -> Vec<Interval> {
    let mut load = normal(random);
    let second = |_| {
        load = CORRELATION * load + (1.0 - CORRELATION * CORRELATION).sqrt() * normal(random);
        let (mut latencies, mut sum_ns) = (LatencyCounts::default(), 0.0);
        for _ in 0..WAITS {
            let log = level + 11.0 + 0.5 * load + 0.8 * normal(random);
            let ns = ((log * 64.0).round() / 64.0).exp() as u64;
            latencies.record(ns, 1);
            sum_ns += ns as f64;
        }
        Interval { latencies, sum_ns, duration_ns: 1e9 }
    };
    (0..seconds).map(second).collect()
}

fn logs(run: &[Interval]) -> Vec<f64> {
    let mut all = LatencyCounts::default();
    run.iter().for_each(|interval| all.add(&interval.latencies));
    METRICS.iter().map(|metric| metric.of(&all, 0.0, 1.0).unwrap().ln()).collect()
}

/// Whether the true ratio, 1, is in the interval of each metric at once, and the number of metrics whose interval has it.
fn covered(evidence: &dyn Evidence) -> (bool, usize) {
    let metrics = (0..METRICS.len()).filter(|metric| evidence.p_value(*metric, 0.0) > LEVEL).count();
    (metrics == METRICS.len(), metrics)
}

/// The share of `all` simulations in which all intervals have the true ratio, and the share of intervals that have it.
fn coverage(all: usize, mut simulate: impl FnMut(usize) -> (bool, usize)) -> [f64; 2] {
    let (mut together, mut single) = (0, 0);
    for number in 0..all {
        let (is_all, metrics) = simulate(number);
        together += usize::from(is_all);
        single += metrics;
    }
    let shares = [together as f64 / all as f64, single as f64 / (all * METRICS.len()) as f64];
    println!("{all} simulations: all at once {:.1} %, single {:.1} %", shares[0] * 100.0, shares[1] * 100.0);
    shares
}

#[test]
fn intervals_over_runs_have_the_true_ratio_although_runs_differ() {
    let arrangements = Arrangements::of(6, 6, 1);
    let mut random = SplitMix::new(11);
    let [together, _] = coverage(simulations().max(400), |_| {
        let mut arm = || -> Vec<Vec<f64>> {
            let level = |random: &mut SplitMix| 0.1 * normal(random);
            (0..6)
                .map(|_| {
                    let level = level(&mut random);
                    logs(&run(30, level, &mut random))
                })
                .collect()
        };
        let (base, new) = (arm(), arm());
        let column = |arm: &[Vec<f64>], metric: usize| arm.iter().map(|run| run[metric]).collect::<Vec<f64>>();
        let metrics: Vec<_> = (0..METRICS.len()).map(|metric| (column(&base, metric), column(&new, metric))).collect();
        covered(&Permutation::new(&arrangements, &metrics))
    });
    assert!(together >= 0.93, "{together}");
}

/// Two runs of two minutes, by blocks of `length` seconds, or as long as their correlation demands.
fn by_blocks(length: Option<f64>, seed: u64) -> [f64; 2] {
    let mut random = SplitMix::new(seed);
    coverage(simulations(), |number| {
        let mut replicates = |arm: u64| {
            let intervals = run(240, 0.0, &mut random);
            let block = length.unwrap_or_else(|| bootstrap::block_length(&intervals));
            bootstrap::replicates(&intervals, &METRICS, block, 2 * number as u64 + arm)
        };
        let (base, new) = (replicates(0), replicates(1));
        covered(&Bootstrap::of_change(&base, &new))
    })
}

#[test]
fn blocks_longer_than_the_correlation_have_the_true_ratio() {
    let [together, _] = by_blocks(None, 12);
    assert!(together >= 0.93, "{together}");
}

#[test]
fn seconds_drawn_one_by_one_are_too_sure() {
    let [together, _] = by_blocks(Some(1.0), 13);
    assert!(together < 0.8, "{together}");
}

/// A bootstrap of single waits, as if each were independent: the seconds of a run in any order are such waits.
#[test]
fn waits_drawn_one_by_one_are_far_too_sure() {
    let mut random = SplitMix::new(14);
    let [together, _] = coverage(simulations(), |number| {
        let mut replicates = |arm: u64| {
            // A quarter of the seconds of the other tests: each of the waits is drawn, and the result is the same.
            let seconds = run(60, 0.0, &mut random);
            let mut waits: Vec<Interval> = Vec::new();
            for (ns, count) in seconds.iter().flat_map(|second| second.latencies.iter()) {
                for _ in 0..count {
                    let mut latencies = LatencyCounts::default();
                    latencies.record(ns, 1);
                    waits.push(Interval { latencies, sum_ns: ns as f64, duration_ns: 0.0 });
                }
            }
            bootstrap::replicates(&waits, &METRICS, 1.0, 2 * number as u64 + arm)
        };
        let (base, new) = (replicates(0), replicates(1));
        covered(&Bootstrap::of_change(&base, &new))
    });
    assert!(together < 0.5, "{together}");
}
