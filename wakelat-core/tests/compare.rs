//! The statistics of comparisons, held against another implementation: `compare/reference.py`, with numpy and scipy, has
//! computed `compare/reference.json`.

use serde_json::Value;
use wakelat_core::{
    aggregate::percentile_rank::Percentile,
    compare::{
        bootstrap::{self, Bootstrap, Interval},
        evidence::Evidence,
        holm,
        latencies::LatencyCounts,
        metric::ComparedMetric,
        one_sample::OneSample,
        permutation::{Arrangements, Permutation},
    },
};

fn reference() -> Value {
    serde_json::from_str(include_str!("compare/reference.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The values agree to seven digits: more than any output shows.
#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= expected.abs().max(1e-3) * 1e-7, "{found}, expected {expected}");
    }
}

#[test]
fn permutation_p_values_and_intervals_are_those_of_scipy() {
    let reference = &reference()["permutation"];
    let arm = |name: &str| reference[name].as_array().unwrap().iter().map(numbers).collect::<Vec<_>>();
    let metrics: Vec<_> = arm("base").into_iter().zip(arm("new")).collect();
    let arrangements = Arrangements::of(5, 5, 1);
    assert_eq!((arrangements.count(), arrangements.is_exact()), (252, true));
    let single: Vec<f64> = metrics
        .iter()
        .map(|metric| Permutation::new(&arrangements, std::slice::from_ref(metric)).p_value(0, 0.0))
        .collect();
    assert_close(&single, &numbers(&reference["p_single"]));
    let together = Permutation::new(&arrangements, &metrics);
    let p_values: Vec<f64> = (0..3).map(|metric| together.p_value(metric, 0.0)).collect();
    assert_close(&p_values, &numbers(&reference["p_max_t"]));
    for metric in 0..3 {
        assert_close(&together.interval(metric, 0.05), &numbers(&reference["interval"][metric]));
    }
}

#[test]
fn the_test_of_one_arm_is_that_of_scipy() {
    let reference = &reference()["one_sample"];
    let sample = OneSample::new(numbers(&reference["values"]), 1);
    let p_value = sample.p_value(0, reference["limit"].as_f64().unwrap());
    assert_close(&[p_value], &[reference["p"].as_f64().unwrap()]);
    assert_close(&sample.interval(0, 0.05), &numbers(&reference["interval"]));
}

#[test]
fn holm_rejects_what_adjusted_p_values_reject() {
    let reference = &reference()["holm"];
    let p_values = numbers(&reference["p"]);
    let levels = holm::levels(&p_values, 0.05);
    let rejected: Vec<bool> = p_values.iter().zip(levels).map(|(p, level)| *p <= level).collect();
    let expected: Vec<bool> =
        reference["rejected"].as_array().unwrap().iter().map(|one| one.as_bool().unwrap()).collect();
    assert_eq!(rejected, expected);
    assert!(rejected.contains(&true) && rejected.contains(&false), "both decisions occur: {rejected:?}");
}

#[test]
fn the_bootstrap_is_that_of_numpy() {
    let reference = &reference()["bootstrap"];
    let interval = |waits: &Value| {
        let (mut latencies, mut sum_ns) = (LatencyCounts::default(), 0.0);
        for ns in numbers(waits) {
            latencies.record(ns as u64, 1);
            sum_ns += ns;
        }
        Interval { latencies, sum_ns, duration_ns: 1e9 }
    };
    let intervals: Vec<Interval> = reference["intervals"].as_array().unwrap().iter().map(interval).collect();
    let block = bootstrap::block_length(&intervals);
    assert_close(&[block], &[reference["block"].as_f64().unwrap()]);
    let metrics = [Percentile::P50, Percentile::P90, Percentile::P99].map(ComparedMetric::Percentile);
    let replicates = bootstrap::replicates(&intervals, &metrics, block, reference["seed"].as_u64().unwrap());
    let found = Bootstrap::of_run(&replicates, f64::ln);
    let of = |figure: &dyn Fn(usize) -> f64| (0..3).map(figure).collect::<Vec<f64>>();
    assert_close(&of(&|metric| found.estimate(metric)), &numbers(&reference["actual"]));
    assert_close(&of(&|metric| found.scale(metric)), &numbers(&reference["scale"]));
    for metric in 0..3 {
        assert_close(&found.interval(metric, 0.05), &numbers(&reference["interval"][metric]));
    }
}
