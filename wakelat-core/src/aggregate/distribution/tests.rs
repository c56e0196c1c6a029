use proptest::prelude::*;

use wakelat_common::Sample;

use super::*;

fn wait(latency_ns: u64) -> Maximum {
    Maximum { latency_ns, at_ns: latency_ns, tid: 1, comm: Comm::default(), cpu: 0 }
}

fn distribution(values: impl IntoIterator<Item = u64>) -> Distribution {
    let mut distribution = Distribution::default();
    values.into_iter().for_each(|value| distribution.record(wait(value)));
    distribution
}

#[test]
fn t19_no_value_is_clamped_or_lost() {
    let values = (0..64).map(|k| 1u64 << k).chain([0, u64::MAX, u64::MAX - 1]);
    let repeated = values.clone().chain(values.clone());
    let all = distribution(repeated.clone());
    assert_eq!(all.count(), repeated.clone().count() as u64);
    assert_eq!(all.sum_ns(), repeated.map(u128::from).sum::<u128>());
    assert_eq!((all.min_ns(), all.max_ns()), (0, u64::MAX));
    assert_eq!(all.buckets().iter().map(|bucket| bucket.count).sum::<u64>(), all.count());
}

#[test]
fn t22_a_wait_of_fifteen_seconds_is_data() {
    let waits = distribution((0..1000).map(|_| 1000).chain([15_000_000_000]));
    assert_eq!(waits.max_ns(), 15_000_000_000);
    assert_eq!(waits.percentile_ns(Percentile::MAX), 15_000_000_000);
    assert_eq!(waits.buckets().last().map(|bucket| bucket.count), Some(1));
}

#[test]
fn an_empty_distribution_is_all_zeros() {
    let none = Distribution::default();
    assert_eq!((none.count(), none.min_ns(), none.max_ns(), none.avg_ns()), (0, 0, 0, 0));
    assert_eq!(none.percentile_ns(Percentile::P99), 0);
    assert!(none.buckets().is_empty());
}

/// The distribution of `values` as the kernel aggregates them.
fn counted(values: &[u64]) -> Distribution {
    let mut counted = Box::new(Counted::EMPTY);
    values.iter().for_each(|value| {
        let sample = || Sample { latency_ns: *value, at_ns: *value, pid: 1, ..Sample::NONE };
        counted.record(*value, sample);
    });
    Distribution::counted(&counted)
}

const PERCENTILES: [(u64, Percentile); 6] = [
    (0, Percentile::per_mille(0)),
    (500, Percentile::P50),
    (900, Percentile::P90),
    (990, Percentile::P99),
    (999, Percentile::P99_9),
    (1000, Percentile::MAX),
];

/// The smallest of `values` that `per_mille` of a thousand of them do not exceed, found by counting
/// them.
fn exactly(per_mille: u64, values: &[u64]) -> u64 {
    let up_to = |value: u64| values.iter().filter(|other| **other <= value).count() as u64;
    let has_share = |value: &u64| up_to(*value) * 1000 >= values.len() as u64 * per_mille;
    values.iter().copied().filter(has_share).min().unwrap()
}

#[test]
fn of_a_thousand_waits_only_the_longest_is_above_the_999th() {
    const SECOND: u64 = 1_000_000_000;
    let values: Vec<u64> = (0..999).map(|_| 1_000).chain([SECOND]).collect();
    for waits in [distribution(values.iter().copied()), counted(&values)] {
        assert!(waits.percentile_ns(Percentile::P99_9) < 1_032, "{}", waits.percentile_ns(Percentile::P99_9));
        assert_eq!(waits.percentile_ns(Percentile::MAX), SECOND);
    }
}

#[test]
fn percentiles_of_multiples_of_a_thousand_waits_have_the_exact_rank() {
    // Of every thousand waits, 999 have the same latency, up to p99.9, and one is longer.
    let mut waits = distribution([]);
    for thousands in 1..=200 {
        (0..999).for_each(|_| waits.record(wait(1_000)));
        waits.record(wait(1 << 30));
        let p99_9 = waits.percentile_ns(Percentile::P99_9);
        assert_eq!(p99_9, 1_000, "{thousands} thousand");
    }
    let mut few = distribution((1..=10).map(|n| n * 100));
    assert_eq!(few.percentile_ns(Percentile::P90), 900);
    few.add(&distribution((11..=20).map(|n| n * 100)));
    assert_eq!(few.percentile_ns(Percentile::P90), 1_800);
}

proptest! {
    #[test]
    fn samples_and_kernel_aggregation_give_the_same_report(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (8 + v % 52)), 1..300), cut in 0usize..300) {
        let samples = distribution(values.iter().copied());
        let (one, other) = values.split_at(cut.min(values.len()));
        let mut aggregate = counted(one);
        aggregate.add(&counted(other));
        prop_assert_eq!(aggregate.count(), samples.count());
        prop_assert_eq!(aggregate.sum_ns(), samples.sum_ns());
        prop_assert_eq!((aggregate.min_ns(), aggregate.max()), (samples.min_ns(), samples.max()));
        prop_assert_eq!(aggregate.buckets(), samples.buckets());
        for (per_mille, percentile) in PERCENTILES {
            let (got, exact) = (aggregate.percentile_ns(percentile), exactly(per_mille, &values));
            prop_assert!(got >= exact && got - exact <= exact / 32, "p{percentile}: {got} for {exact}");
        }
    }

    #[test]
    fn aggregated_waits_have_the_weights_and_intervals_of_single_waits_of_all_tasks(
        periods in prop::collection::vec((1..1_000_000u64, 1_000_000..2_000_000u64, prop::collection::vec(32..1_000_000u64, 1..50)), 1..20)
    ) {
        let (mut single, mut aggregated) = (Distribution::default(), Distribution::default());
        for (number, (pause_ns, length_ns, values)) in (0..).zip(&periods) {
            let period = Period { number, pause_ns: *pause_ns };
            for value in values {
                single.record(wait(*value));
                // The random group of this thread is the one of aggregated waits, so that sums are rounded alike.
                single.record_sampled(0, 0, period, *value);
            }
            aggregated.add(&counted(values).measured_in(period));
            [&mut single, &mut aggregated].into_iter().for_each(|waits| waits.end_period(*length_ns));
        }
        for percentile in [Percentile::P50, Percentile::P90, Percentile::P99] {
            let [single, aggregated] = [&single, &aggregated].map(|waits| {
                let sampled = waits.sampled().unwrap();
                (sampled.percentile_ns(percentile), sampled.interval(percentile))
            });
            prop_assert_eq!(single, aggregated);
        }
    }

    #[test]
    fn percentiles_are_right_to_three_digits(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 60)), 1..300)) {
        let all = distribution(values.iter().copied());
        for (per_mille, percentile) in PERCENTILES {
            let (got, exact) = (all.percentile_ns(percentile), exactly(per_mille, &values));
            prop_assert!(got.abs_diff(exact) <= exact / 1000 + 1, "p{percentile}: {got} for {exact}");
        }
    }

    #[test]
    fn buckets_hold_the_values_that_were_recorded(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 60)), 0..300)) {
        let all = distribution(values.iter().copied());
        let mut expected = std::collections::BTreeMap::new();
        for value in values {
            *expected.entry(bucket::lower(bucket::index(value))).or_insert(0u64) += 1;
        }
        let got: std::collections::BTreeMap<_, _> = all.buckets().iter().map(|bucket| (bucket.from_ns, bucket.count)).collect();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn adding_equals_recording_together(a in prop::collection::vec(0..1_000_000u64, 0..100), b in prop::collection::vec(0..1_000_000u64, 0..100)) {
        let mut sum = distribution(a.iter().copied());
        sum.add(&distribution(b.iter().copied()));
        let together = distribution(a.into_iter().chain(b));
        prop_assert_eq!(sum.count(), together.count());
        prop_assert_eq!(sum.sum_ns(), together.sum_ns());
        prop_assert_eq!((sum.min_ns(), sum.max_ns()), (together.min_ns(), together.max_ns()));
        prop_assert_eq!(sum.buckets(), together.buckets());
    }
}
