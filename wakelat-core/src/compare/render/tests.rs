//! Every form of a comparison, of runs whose difference is known.

use super::{super::comparison::compare, document::DiffDocument, *};
use crate::{
    aggregate::percentile_rank::Percentile,
    compare::{
        comparison::{ArmComparison, ArmVerdict, RunsNeeded},
        criteria::{Criteria, Limit},
        latencies::LatencyCounts,
        metric::ComparedMetric,
        run::{ComparedRun, Conditions, GroupName},
    },
    render::Style,
};

/// A run of `intervals` seconds whose latencies are `factor` times those of others; a hog causes what is above.
fn run(name: &str, factor: f64, intervals: usize) -> ComparedRun {
    let conditions = Conditions { kernel: "6.1".to_owned(), from: "waking".to_owned(), ..Conditions::default() };
    let mut run = ComparedRun { name: name.to_owned(), conditions, has_causes: true, ..ComparedRun::default() };
    let group = GroupName { class: "wakeup".to_owned(), key: Vec::new() };
    for interval in 0..intervals {
        let number = run.begin_interval(1_000_000_000);
        let mut latencies = LatencyCounts::default();
        let mut sum_ns = 0;
        for rank in 1..=200u64 {
            let ns = ((100 + interval as u64 % 7) as f64 * factor * 200.0 / (201 - rank) as f64 * 50.0) as u64;
            latencies.record(ns, 1);
            sum_ns += u128::from(ns);
        }
        run.add_waits(number, &group, &latencies, (sum_ns, 1_000_000));
    }
    let found = run.groups.get_mut(&group).unwrap();
    found.causes = [("behind a".to_owned(), 1_000_000), ("behind hog".to_owned(), (factor * 2e7) as u128)].into();
    found.migrated = Some(4);
    run
}

fn arm(name: &str, factor: f64, runs: usize) -> Vec<ComparedRun> {
    (0..runs).map(|number| run(&format!("{name}-{number}"), factor * (1.0 + 0.004 * number as f64), 10)).collect()
}

fn compared(factor: f64, runs: usize, criteria: &Criteria) -> ArmComparison {
    compare(&arm("base", 1.0, runs), &arm("new", factor, runs), criteria).unwrap()
}

/// Percentiles up to p99 have enough waits.
#[test]
fn a_planted_change_is_worse_with_its_cause_first() {
    let comparison = compared(1.2, 6, &Criteria::default());
    assert_eq!(comparison.verdict, ArmVerdict::Worse);
    insta::assert_snapshot!(text(&comparison, &Style { unicode: true, width: 100, ..Style::default() }));
    insta::assert_snapshot!("markdown", markdown(&comparison));
    insta::assert_snapshot!("junit", junit(&comparison));
    insta::assert_snapshot!("bmf", bmf(&comparison));
    json_schemas::assert_valid(&json(&comparison).unwrap());
}

#[test]
fn no_number_is_cut_in_a_narrow_terminal() {
    let comparison = compared(1.2, 6, &Criteria::default());
    let at = |width| text(&comparison, &Style { unicode: true, width, ..Style::default() });
    let numbers = |text: &str| {
        let is_number = |word: &&str| word.chars().any(|character| character.is_ascii_digit());
        // The axis and the bars are drawings: a narrow terminal has smaller ones, or none.
        let rows = text.lines().map(|line| line.trim_end_matches([' ', '.', '1'].as_slice()));
        let mut words: Vec<String> =
            rows.flat_map(str::split_whitespace).filter(is_number).map(str::to_owned).collect();
        words.sort();
        words
    };
    let (narrow, wide) = (at(40), at(60));
    assert_eq!(numbers(&narrow), numbers(&wide), "{narrow}");
    for (width, text) in [(40, &narrow), (60, &wide)] {
        assert!(!text.contains('…') && text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn equal_arms_are_not_worse() {
    let comparison = compared(1.0, 6, &Criteria::default());
    assert_eq!(comparison.verdict, ArmVerdict::NotWorse);
    assert!(text(&comparison, &Style::default()).starts_with("not worse\n"));
    assert_eq!(comparison.runs_needed, None);
}

#[test]
fn a_change_like_the_margin_is_inconclusive_and_says_how_many_runs_would_decide() {
    let comparison = compared(1.052, 6, &Criteria::default());
    assert_eq!(comparison.verdict, ArmVerdict::Inconclusive);
    assert!(comparison.runs_needed.is_some());
    assert!(text(&comparison, &Style::default()).contains("runs per arm would"));
}

#[test]
fn three_runs_an_arm_decide_nothing() {
    let comparison = compared(2.0, 3, &Criteria::default());
    assert_eq!(comparison.verdict, ArmVerdict::Inconclusive);
    let p99 = comparison.groups[0]
        .metrics
        .iter()
        .find(|one| one.metric == ComparedMetric::Percentile(Percentile::P99))
        .unwrap();
    assert_eq!(p99.interval, [None, None]);
    let needed = "at least 4 runs per arm are needed for a verdict; how many would decide is not known yet";
    assert_eq!(labels::runs_needed(&comparison).as_deref(), Some(needed));
    let why = |differ| {
        let runs_needed = Some(RunsNeeded::MoreThan { runs: 200, differ });
        labels::runs_needed(&ArmComparison { runs_needed, ..comparison.clone() }).unwrap()
    };
    assert!(why(true).ends_with(": the runs differ too much from each other"), "{}", why(true));
    assert!(why(false).ends_with(": the change is close to the margin"), "{}", why(false));
}

#[test]
fn one_run_an_arm_is_inconclusive_unless_it_is_accepted() {
    let arms = [run("a", 1.0, 40), run("b", 1.5, 40)].map(|run| [run]);
    let refused = compare(&arms[0], &arms[1], &Criteria::default()).unwrap();
    assert_eq!((refused.verdict, refused.within_runs), (ArmVerdict::Inconclusive, Some(ArmVerdict::Worse)));
    let accepting = Criteria { accepts_single_runs: true, ..Criteria::default() };
    assert_eq!(compare(&arms[0], &arms[1], &accepting).unwrap().verdict, ArmVerdict::Worse);
    assert!(
        text(&refused, &Style::default()).starts_with("inconclusive: one run per arm; within these two runs: worse")
    );
    assert!(junit(&refused).contains("failures=\"0\""));
    json_schemas::assert_valid(&json(&refused).unwrap());
}

#[test]
fn limits_decide_about_the_new_arm() {
    let limits = |bound| Criteria {
        margin: None,
        limits: vec![
            Limit { metric: ComparedMetric::Above(100_000), bound },
            Limit { metric: ComparedMetric::Percentile(Percentile::P50), bound: 1e6 },
        ],
        ..Criteria::default()
    };
    let verdicts = |bound| -> Vec<ArmVerdict> {
        let comparison = compared(1.0, 6, &limits(bound));
        json_schemas::assert_valid(&json(&comparison).unwrap());
        comparison.groups[0].limits.iter().map(|limit| limit.verdict).collect()
    };
    assert_eq!(verdicts(0.5), [ArmVerdict::NotWorse, ArmVerdict::NotWorse]);
    assert_eq!(verdicts(0.001), [ArmVerdict::Worse, ArmVerdict::NotWorse]);
}

#[test]
fn a_metric_with_a_margin_of_its_own_that_is_not_resolvable_is_inconclusive() {
    let p999 = ComparedMetric::Percentile(Percentile::P99_9);
    let own = Criteria { margins: vec![(p999, 0.5)], ..Criteria::default() };
    for (criteria, expected) in [(Criteria::default(), ArmVerdict::NotWorse), (own, ArmVerdict::Inconclusive)] {
        let comparison = compared(1.0, 6, &criteria);
        let metric = comparison.groups[0].metrics.iter().find(|metric| metric.metric == p999).unwrap();
        assert_eq!((metric.ratio, comparison.verdict), (None, expected));
        json_schemas::assert_valid(&json(&comparison).unwrap());
    }
}

#[test]
fn runs_that_were_measured_differently_are_refused() {
    let refused = |change: &dyn Fn(&mut ComparedRun)| {
        let (base, mut new) = (arm("base", 1.0, 2), arm("new", 1.0, 2));
        new.iter_mut().for_each(change);
        compare(&base, &new, &Criteria::default()).unwrap_err().0
    };
    assert!(refused(&|run| run.conditions.from = "queued".to_owned()).contains("the same `--from`"));
    let sampled = |one_in| refused(&|run| run.conditions.sampled_one_in = Some(one_in));
    assert!(sampled([4, 4]).contains("one task in 4"));
    assert!(sampled([1, 4]).contains("one task in 1 to 4"));
    let changing = |name| -> Vec<ComparedRun> {
        let mut runs = arm(name, 1.0, 2);
        runs.iter_mut().for_each(|run| run.conditions.sampled_one_in = Some([1, 4]));
        runs
    };
    let both = compare(&changing("base"), &changing("new"), &Criteria::default()).unwrap_err().0;
    assert!(both.contains("base-0 was measured with one task in 1 to 4"), "{both}");
    assert!(refused(&|run| run.conditions.lost = [101, 1_000]).contains("has lost 101 of 1000 waits"));
    assert!(refused(&|run| run.conditions.threshold_ns = Some(1_000_000)).contains("1ms"));
    assert!(refused(&|run| run.groups.clear()).contains("no wait"));
    let other_class = |run: &mut ComparedRun| {
        let group = run.groups.pop_first().unwrap().1;
        run.groups.insert(GroupName { class: "preempted".to_owned(), key: Vec::new() }, group);
    };
    assert!(refused(&other_class).contains("no group has 20 waits"));
}

#[test]
fn what_differs_between_the_machines_is_a_note() {
    let (base, mut new) = (arm("base", 1.0, 4), arm("new", 1.0, 4));
    new.iter_mut().for_each(|run| run.conditions.kernel = "6.12".to_owned());
    let comparison = compare(&base, &new, &Criteria::default()).unwrap();
    assert_eq!(comparison.notes, ["kernel differs: 6.1 (base), 6.12 (new)"]);
}

#[test]
fn the_schema_is_that_of_the_type() {
    json_schemas::assert_current::<DiffDocument>();
}
