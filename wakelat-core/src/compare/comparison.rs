//! The comparison of two arms: for each group, how much each metric changed, and what follows from that.

use std::collections::BTreeSet;

pub use super::changes::{
    ArmComparison, ArmVerdict, CauseChange, GroupComparison, IntervalUnit, LimitComparison, MetricComparison,
    RunsNeeded,
};
use super::{
    bootstrap::{self, Bootstrap, MIN_INTERVALS, Replicates},
    comparability::{self, NotComparable},
    criteria::{Criteria, Limit},
    evidence::Evidence,
    holm,
    metric::ComparedMetric,
    one_sample::OneSample,
    permutation::{Arrangements, Permutation},
    run::{ComparedRun, GroupName},
    sides::Sides,
};

/// The smallest number of waits of a group in each run.
const MIN_WAITS: u64 = 20;

/// More runs than this are not recommended.
const MAX_RUNS: usize = 200;

/// Compares `new` with `base`.
///
/// # Errors
/// If the runs cannot be compared.
pub fn compare(base: &[ComparedRun], new: &[ComparedRun], criteria: &Criteria) -> Result<ArmComparison, NotComparable> {
    let mut notes = comparability::check(base, new)?;
    let (chosen, left_out) = choose_groups(base, new, criteria.max_groups)?;
    let has_single_runs = base.len() == 1 && new.len() == 1;
    if has_single_runs && base.iter().chain(new).any(|run| run.intervals_ns.len() < MIN_INTERVALS) {
        notes.push(format!("a run has fewer than {MIN_INTERVALS} intervals: its own variation is not known"));
    }
    let arrangements = Arrangements::of(base.len(), new.len(), criteria.seed);
    let evidence: Vec<GroupEvidence> = chosen
        .iter()
        .map(|(_, sides)| GroupEvidence::new(sides, criteria, (!has_single_runs).then_some(&arrangements)))
        .collect();
    let p_values: Vec<f64> = evidence.iter().map(|group| group.p_value(criteria)).collect();
    let levels = holm::levels(&p_values, criteria.level);
    let groups: Vec<GroupComparison> = chosen
        .iter()
        .zip(&evidence)
        .zip(levels)
        .map(|(((name, sides), evidence), level)| evidence.compare(name, sides, criteria, level))
        .collect();
    let verdict = groups.iter().map(|group| group.verdict).max().unwrap_or(ArmVerdict::Inconclusive);
    let is_only_within = has_single_runs && !criteria.accepts_single_runs;
    let runs_needed = groups.iter().filter_map(|group| runs_needed(group, base.len().min(new.len()))).max();
    let level = groups.iter().map(|group| group.level).fold(criteria.level, f64::min);
    let least = least_runs(level).max(if criteria.limits.is_empty() { 0 } else { least_signs(level) });
    Ok(ArmComparison {
        runs: [base, new].map(|arm| arm.iter().map(|run| run.name.clone()).collect()),
        duration_ns: [base, new].map(|arm| arm.iter().map(ComparedRun::duration_ns).sum()),
        unit: if has_single_runs {
            IntervalUnit::Blocks
        } else {
            IntervalUnit::Runs { arrangements: arrangements.count(), is_exact: arrangements.is_exact() }
        },
        notes,
        groups,
        left_out,
        criteria: criteria.clone(),
        verdict: if is_only_within { ArmVerdict::Inconclusive } else { verdict },
        within_runs: has_single_runs.then_some(verdict),
        runs_needed: if is_only_within {
            Some(RunsNeeded::ForAnyInterval(least))
        } else {
            runs_needed.filter(|_| verdict == ArmVerdict::Inconclusive).map(|needed| match needed {
                RunsNeeded::AtLeast(runs) => RunsNeeded::AtLeast(runs.max(least)),
                RunsNeeded::ForAnyInterval(runs) => RunsNeeded::ForAnyInterval(runs.max(least)),
                more @ RunsNeeded::MoreThan { .. } => more,
            })
        },
    })
}

/// The classes and the groups with the most waiting time that each run has enough waits of, and the number of others.
fn choose_groups<'a>(
    base: &'a [ComparedRun],
    new: &'a [ComparedRun],
    most: usize,
) -> Result<(Vec<(GroupName, Sides<'a>)>, usize), NotComparable> {
    let names: BTreeSet<&GroupName> = base.iter().chain(new).flat_map(|run| run.groups.keys()).collect();
    let has_enough = |sides: &Sides| sides.arms.iter().flatten().all(|side| side.latencies.count() >= MIN_WAITS);
    let known = names.len();
    let common = names.into_iter().filter_map(|name| Some((name.clone(), Sides::of(name, base, new)?)));
    let common: Vec<(GroupName, Sides)> = common.filter(|(_, sides)| has_enough(sides)).collect();
    let (mut classes, mut groups): (Vec<_>, Vec<_>) = common.into_iter().partition(|(name, _)| name.key.is_empty());
    for all in [&mut classes, &mut groups] {
        all.sort_by_key(|(_, sides)| std::cmp::Reverse(sides.sum_ns()));
    }
    groups.truncate(most);
    classes.extend(groups);
    if classes.is_empty() {
        let why =
            format!("no group has {MIN_WAITS} waits or more in each run: record for longer, or select other tasks");
        return Err(NotComparable(why));
    }
    let left_out = known - classes.len();
    Ok((classes, left_out))
}

/// The smallest number of runs per arm whose test can reject anything at a level.
pub fn least_runs(level: f64) -> usize {
    // All arrangements of n + n runs; two of them are as extreme as the actual one.
    let mut arrangements = 1.0;
    (1..MAX_RUNS)
        .find(|runs| {
            let runs = *runs as f64;
            arrangements *= (2.0 * runs) * (2.0 * runs - 1.0) / (runs * runs);
            2.0 / arrangements <= level
        })
        .unwrap_or(MAX_RUNS)
}

/// How many runs per arm would make the intervals of the undecided metrics of a group narrow enough.
fn runs_needed(group: &GroupComparison, runs: usize) -> Option<RunsNeeded> {
    let least = least_runs(group.level);
    let undecided = group.metrics.iter().filter(|metric| metric.verdict == Some(ArmVerdict::Inconclusive));
    let needed = undecided.filter_map(|metric| {
        let (ratio, margin) = (metric.ratio?.ln(), (1.0 + metric.margin?).ln());
        let ends = metric.interval.map(|end| end.map(f64::ln));
        let [Some(low), Some(high)] = ends else { return Some(RunsNeeded::ForAnyInterval(least)) };
        let half = if ratio > margin { ratio - low } else { high - ratio };
        Some(runs_for(half, (ratio, margin), runs).max(RunsNeeded::AtLeast((runs + 1).max(least))))
    });
    let of_limits = group.limits.iter().filter(|limit| limit.verdict == ArmVerdict::Inconclusive);
    needed.chain(of_limits.map(|_| RunsNeeded::AtLeast((runs + 1).max(least_signs(group.level))))).max()
}

/// How many runs per arm would decide a metric whose interval, of `runs` per arm, has a `half` width on the side of the
/// margin. All are logarithms of ratios.
fn runs_for(half: f64, (ratio, margin): (f64, f64), runs: usize) -> RunsNeeded {
    let times = (half / (ratio - margin).abs().max(1e-9)).powi(2);
    let needed = (runs as f64 * times).ceil();
    if needed > MAX_RUNS as f64 {
        RunsNeeded::MoreThan { runs: MAX_RUNS, differ: half > margin }
    } else {
        RunsNeeded::AtLeast(needed as usize)
    }
}

/// The smallest number of runs of an arm whose signs can decide about a limit at a level: two of the signs of all runs are
/// as extreme as the actual ones.
fn least_signs(level: f64) -> usize {
    (1.0 - level.log2()).ceil() as usize
}

/// The evidence of a group.
struct GroupEvidence<'a> {
    /// The metrics that can be resolved.
    metrics: Vec<ComparedMetric>,
    changes: Option<Box<dyn Evidence + 'a>>,
    /// For each limit its metric in the new arm, if it can be resolved.
    limits: Vec<Option<Box<dyn Evidence + 'a>>>,
}

impl<'a> GroupEvidence<'a> {
    /// The evidence of `arrangements` of runs, or else of the intervals of one run per arm.
    fn new(sides: &Sides, criteria: &Criteria, arrangements: Option<&'a Arrangements>) -> Self {
        let resolvable = |metric: &ComparedMetric| sides.can_resolve(*metric);
        let metrics: Vec<ComparedMetric> = criteria.ratios().into_iter().filter(resolvable).collect();
        if let Some(arrangements) = arrangements {
            let logs = |values: Vec<f64>| values.into_iter().map(f64::ln).collect::<Vec<f64>>();
            let values: Vec<_> = metrics
                .iter()
                .map(|metric| {
                    let [base, new] = sides.values(*metric);
                    (logs(base), logs(new))
                })
                .collect();
            let limit = |limit: &Limit| {
                let [_, values] = sides.values(limit.metric);
                let scaled = if has_logarithm(limit.metric) { logs(values) } else { values };
                let evidence: Box<dyn Evidence + 'a> = Box::new(OneSample::new(scaled, criteria.seed));
                resolvable(&limit.metric).then_some(evidence)
            };
            let limits = criteria.limits.iter().map(limit).collect();
            return Self { changes: Some(Box::new(Permutation::new(arrangements, &values))), metrics, limits };
        }
        let is_long = sides.arms.iter().flatten().all(|side| side.run.intervals_ns.len() >= MIN_INTERVALS);
        if !is_long {
            return Self { metrics, changes: None, limits: criteria.limits.iter().map(|_| None).collect() };
        }
        let replicates = |arm: usize, metrics: &[ComparedMetric]| -> Replicates {
            let side = &sides.arms[arm][0];
            let intervals = bootstrap::merged(&side.run.intervals_of(side.group));
            let seed = criteria.seed.wrapping_mul(2).wrapping_add(arm as u64);
            bootstrap::replicates(&intervals, metrics, bootstrap::block_length(&intervals), seed)
        };
        let changes = Bootstrap::of_change(&replicates(0, &metrics), &replicates(1, &metrics));
        let limit = |limit: &Limit| {
            let scale = |value: f64| if has_logarithm(limit.metric) { bootstrap::logarithm(value) } else { value };
            let evidence: Box<dyn Evidence + 'a> = Box::new(Bootstrap::of_run(&replicates(1, &[limit.metric]), scale));
            resolvable(&limit.metric).then_some(evidence)
        };
        let limits = criteria.limits.iter().map(limit).collect();
        Self { metrics, changes: Some(Box::new(changes)), limits }
    }

    /// The probability of the largest change above its margin, if no change were above it.
    fn p_value(&self, criteria: &Criteria) -> f64 {
        let Some(changes) = &self.changes else { return 1.0 };
        let margins =
            self.metrics.iter().enumerate().filter_map(|(at, metric)| Some((at, criteria.margin_of(*metric)?)));
        let above = margins
            .map(|(at, margin)| (at, (1.0 + margin).ln()))
            .filter(|(at, margin)| changes.estimate(*at) > *margin);
        above.map(|(at, margin)| changes.p_value(at, margin)).fold(1.0, f64::min)
    }

    fn compare(&self, name: &GroupName, sides: &Sides, criteria: &Criteria, level: f64) -> GroupComparison {
        let metrics: Vec<MetricComparison> =
            criteria.ratios().into_iter().map(|metric| self.compare_metric(metric, sides, criteria, level)).collect();
        let limits: Vec<LimitComparison> = criteria
            .limits
            .iter()
            .zip(&self.limits)
            .map(|(limit, evidence)| compare_limit(*limit, evidence.as_deref(), sides, level))
            .collect();
        let verdicts =
            metrics.iter().filter_map(|metric| metric.verdict).chain(limits.iter().map(|limit| limit.verdict));
        let verdict = verdicts.max().unwrap_or(ArmVerdict::Inconclusive);
        let count_rate = sides.rates(|group| Some(group.count() as f64)).unwrap_or_default();
        let latencies = sides.latencies();
        GroupComparison {
            name: name.clone(),
            metrics,
            limits,
            level,
            waits: [latencies[0].count(), latencies[1].count()],
            wait_count_rate: count_rate,
            migration_rate: sides.rates(|group| group.migrated.map(|migrated| migrated as f64)),
            max_ns: sides.max_ns(),
            latencies,
            causes: cause_changes(sides),
            verdict,
        }
    }

    fn compare_metric(
        &self,
        metric: ComparedMetric,
        sides: &Sides,
        criteria: &Criteria,
        level: f64,
    ) -> MetricComparison {
        let values = sides.values(metric).map(|values| geometric_mean(&values));
        let margin = criteria.margin_of(metric);
        let at = self.metrics.iter().position(|resolved| *resolved == metric);
        let Some(at) = at else {
            // A margin of its own says that the metric must decide, and it cannot.
            let margin = margin.filter(|_| criteria.has_own_margin(metric));
            let verdict = margin.map(|_| ArmVerdict::Inconclusive);
            return MetricComparison { metric, values, ratio: None, interval: [None; 2], margin, verdict };
        };
        let interval = self.changes.as_ref().map_or([f64::NEG_INFINITY, f64::INFINITY], |of| of.interval(at, level));
        let verdict = margin.map(|margin| decide(interval, (1.0 + margin).ln()));
        MetricComparison {
            metric,
            values,
            ratio: Some(values[1] / values[0]),
            interval: interval.map(|end| end.is_finite().then(|| end.exp())),
            margin,
            verdict,
        }
    }
}

/// The verdict of an interval: worse if all of it is above `bound`, not worse if all of it is below.
fn decide([low, high]: [f64; 2], bound: f64) -> ArmVerdict {
    if low > bound {
        ArmVerdict::Worse
    } else if high <= bound {
        ArmVerdict::NotWorse
    } else {
        ArmVerdict::Inconclusive
    }
}

fn has_logarithm(metric: ComparedMetric) -> bool {
    !matches!(metric, ComparedMetric::Above(_))
}

fn compare_limit(limit: Limit, evidence: Option<&dyn Evidence>, sides: &Sides, level: f64) -> LimitComparison {
    let typical = |values: Vec<f64>| {
        if has_logarithm(limit.metric) {
            geometric_mean(&values)
        } else {
            values.iter().sum::<f64>() / values.len() as f64
        }
    };
    let [base, value] = sides.values(limit.metric).map(typical);
    let Some(evidence) = evidence else {
        let (value, base) = if sides.can_resolve(limit.metric) { (Some(value), Some(base)) } else { (None, None) };
        return LimitComparison { limit, value, base, interval: [None; 2], verdict: ArmVerdict::Inconclusive };
    };
    let interval = evidence.interval(0, level);
    let bound = if has_logarithm(limit.metric) { limit.bound.max(1.0).ln() } else { limit.bound };
    // The limit itself is reached, not kept.
    let verdict = match decide(interval, bound) {
        ArmVerdict::NotWorse if interval[1] >= bound => ArmVerdict::Inconclusive,
        verdict => verdict,
    };
    let end = |end: f64| if has_logarithm(limit.metric) { end.exp() } else { end.clamp(0.0, 1.0) };
    let interval = interval.map(|value| value.is_finite().then(|| end(value)));
    LimitComparison { limit, value: Some(value), base: Some(base), interval, verdict }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.max(1.0).ln()).sum::<f64>() / values.len() as f64).exp()
}

/// The causes of a group in both arms, the one that changed most first.
fn cause_changes(sides: &Sides) -> Vec<CauseChange> {
    if !sides.arms.iter().flatten().all(|side| side.run.has_causes) {
        return Vec::new();
    }
    let names: BTreeSet<&String> = sides.arms.iter().flatten().flat_map(|side| side.group.causes.keys()).collect();
    let rate = |name: &String| sides.rates(|group| Some(group.causes.get(name).copied().unwrap_or(0) as f64));
    let mut changes: Vec<CauseChange> =
        names.into_iter().filter_map(|name| Some(CauseChange { name: name.clone(), rates: rate(name)? })).collect();
    changes.sort_by(|a, b| b.change().abs().total_cmp(&a.change().abs()).then_with(|| a.name.cmp(&b.name)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_differ_are_not_a_change_close_to_the_margin() {
        let margin = 0.05;
        assert_eq!(runs_for(0.025, (0.0, margin), 100), RunsNeeded::AtLeast(25));
        assert_eq!(runs_for(0.04, (0.0499, margin), 10), RunsNeeded::MoreThan { runs: MAX_RUNS, differ: false });
        assert_eq!(runs_for(2.0, (0.3, margin), 10), RunsNeeded::MoreThan { runs: MAX_RUNS, differ: true });
    }
}
