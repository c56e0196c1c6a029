//! Values and verdicts of a comparison in words.

use super::super::{
    comparison::{
        ArmComparison, ArmVerdict, GroupComparison, IntervalUnit, LimitComparison, MetricComparison, RunsNeeded,
    },
    metric::ComparedMetric,
};
use crate::render::units;

/// A value of a metric in its unit.
pub fn value(metric: ComparedMetric, value: f64, unicode: bool) -> String {
    match metric {
        ComparedMetric::Percentile(_) => units::duration(value.round().max(0.0) as u64, unicode),
        ComparedMetric::WaitRate => rate(value, unicode),
        ComparedMetric::Above(_) => percent(value),
    }
}

/// A time per wall time: `14.0 ms/s`.
pub fn rate(ns_per_s: f64, unicode: bool) -> String {
    format!("{}/s", units::duration(ns_per_s.round().max(0.0) as u64, unicode))
}

/// The change of a time per wall time: `+14.0 ms/s`.
pub fn rate_change(ns_per_s: f64, unicode: bool) -> String {
    format!("{}{}", if ns_per_s < 0.0 { "-" } else { "+" }, rate(ns_per_s.abs(), unicode))
}

/// A count per s: `1,200.0/s`.
pub fn count_rate(per_s: f64) -> String {
    if per_s >= 100.0 { format!("{}/s", units::thousands(per_s.round() as u64)) } else { format!("{per_s:.1}/s") }
}

/// A share in percent with three digits at least: `0.12 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        10.0.. => format!("{percent:.1} %"),
        0.1.. => format!("{percent:.2} %"),
        _ if percent == 0.0 => "0 %".to_owned(),
        _ => format!("{percent:.4} %"),
    }
}

/// A margin: `5 %`.
pub fn margin(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The ends of an interval: `0.98 to 1.07`.
pub fn interval(ends: [Option<f64>; 2]) -> String {
    match ends.map(|end| end.map(number)) {
        [Some(low), Some(high)] => format!("{low} to {high}"),
        [Some(low), None] => format!("above {low}"),
        [None, Some(high)] => format!("below {high}"),
        [None, None] => "not limited".to_owned(),
    }
}

/// A ratio with three digits at least.
pub fn number(ratio: f64) -> String {
    if ratio >= 100.0 {
        format!("{ratio:.0}")
    } else if ratio >= 10.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    }
}

/// The limit: `p99 < 2.0 ms`.
pub fn limit(limit: &LimitComparison, unicode: bool) -> String {
    format!("{} < {}", limit.limit.metric, value(limit.limit.metric, limit.limit.bound, unicode))
}

/// The sentence that decides a metric.
pub fn metric_sentence(group: &GroupComparison, metric: &MetricComparison, unicode: bool) -> String {
    let [base, new] = metric.values.map(|figure| value(metric.metric, figure, unicode));
    let head = format!("{}: {} {base} {} {new}", group.name, metric.metric, if unicode { "→" } else { "->" });
    let Some(ratio) = metric.ratio else { return format!("{head}, not resolvable") };
    let sign = if unicode { "×" } else { "x" };
    let margin = metric.margin.map(|margin| format!("; margin {}", self::margin(margin))).unwrap_or_default();
    format!("{head}, {} {sign} ({}){margin}", number(ratio), interval(metric.interval))
}

/// The sentence that decides a limit.
pub fn limit_sentence(group: &GroupComparison, limited: &LimitComparison, unicode: bool) -> String {
    let metric = limited.limit.metric;
    let head = format!("{}: limit {}", group.name, limit(limited, unicode));
    let Some(found) = limited.value else { return format!("{head}: not resolvable") };
    let ends = limited.interval.map(|end| end.map(|end| value(metric, end, unicode)));
    let ends = match ends {
        [Some(low), Some(high)] => format!("{low} to {high}"),
        _ => "not limited by the runs".to_owned(),
    };
    format!("{head}: {} ({ends})", value(metric, found, unicode))
}

/// Why the verdict is what it is: a sentence for each metric and limit that has it, and the cause that changed most.
pub fn reasons(comparison: &ArmComparison, unicode: bool) -> Vec<String> {
    let deciding = comparison.within_runs.unwrap_or(comparison.verdict);
    if deciding == ArmVerdict::NotWorse {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    for group in comparison.groups.iter().filter(|group| group.verdict == deciding) {
        let metrics = group.metrics.iter().filter(|metric| metric.verdict == Some(deciding));
        reasons.extend(metrics.map(|metric| metric_sentence(group, metric, unicode)));
        let limits = group.limits.iter().filter(|limit| limit.verdict == deciding);
        reasons.extend(limits.map(|limit| limit_sentence(group, limit, unicode)));
        if deciding == ArmVerdict::Worse
            && let Some(cause) = group.causes.iter().find(|cause| cause.change() > 0.0)
        {
            let total: f64 = group.causes.iter().map(super::super::comparison::CauseChange::change).sum();
            let [total, largest] = [total, cause.change()].map(|change| rate_change(change, unicode));
            reasons.push(format!("{}: wait {total}, of which {largest} {}", group.name, cause.name));
        }
    }
    reasons
}

/// What would decide, if the verdict is inconclusive.
pub fn runs_needed(comparison: &ArmComparison) -> Option<String> {
    Some(match comparison.runs_needed? {
        RunsNeeded::AtLeast(runs) => format!("about {runs} runs per arm would decide"),
        RunsNeeded::ForAnyInterval(runs) => {
            format!("at least {runs} runs per arm are needed for a verdict; how many would decide is not known yet")
        }
        RunsNeeded::MoreThan { runs, differ } => {
            let why =
                if differ { "the runs differ too much from each other" } else { "the change is close to the margin" };
            format!("more than {runs} runs per arm would be needed: {why}")
        }
    })
}

/// What the intervals are made of.
pub fn method(comparison: &ArmComparison) -> String {
    match comparison.unit {
        IntervalUnit::Runs { arrangements, is_exact } => {
            let of = if is_exact { "all" } else { "random" };
            format!("permutation of runs ({of} {} arrangements)", units::thousands(arrangements as u64))
        }
        IntervalUnit::Blocks => "blocks of the intervals of each run; another run may differ by more".to_owned(),
    }
}

/// The verdict, as the first line has it.
pub fn verdict(comparison: &ArmComparison) -> String {
    match comparison.within_runs {
        Some(within) if !comparison.criteria.accepts_single_runs => {
            format!("inconclusive: one run per arm; within these two runs: {}", within.name())
        }
        Some(_) => format!("{} within these two runs", comparison.verdict.name()),
        None => comparison.verdict.name().to_owned(),
    }
}
