//! The JSON document `wakelat.diff/1`.

use serde::Serialize;

use super::super::comparison::{
    ArmComparison, ArmVerdict, GroupComparison, IntervalUnit, LimitComparison, MetricComparison, RunsNeeded,
};

/// `wakelat.diff/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffDocument<'a> {
    /// `wakelat.diff/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.diff/1")))]
    schema: &'static str,
    /// Whether the new arm is worse than the base.
    verdict: VerdictName,
    /// For one run per arm: the verdict within these two runs; another run may differ by more. `null` otherwise.
    within_runs: Option<VerdictName>,
    /// How many runs per arm would probably decide; `null` if the verdict is not `inconclusive`, or if more than 200
    /// would be needed.
    runs_needed: Option<usize>,
    /// What the intervals are made of: `runs` (permutation of the labels of runs) or `blocks` (stationary bootstrap of the
    /// intervals of one run per arm).
    unit: UnitName,
    /// Number of arrangements of the labels that were tried; `null` for `blocks`.
    arrangements: Option<usize>,
    /// The base.
    base: ArmDocument<'a>,
    /// The new arm.
    new: ArmDocument<'a>,
    /// What differs between the conditions of the runs, in words.
    notes: &'a [String],
    /// The groups: whole classes first, and of both the one with the most waiting time first.
    groups: Vec<GroupDiffDocument<'a>>,
    /// Groups that are not compared: beyond `--max-groups`, not in each run, or with fewer than 20 waits in one.
    groups_left_out: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ArmDocument<'a> {
    /// The files of its runs.
    runs: &'a [String],
    /// The length of all its runs.
    duration_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum VerdictName {
    /// Each change is below its margin.
    NotWorse,
    /// The runs do not decide it.
    Inconclusive,
    /// A change is above its margin.
    Worse,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum UnitName {
    /// Runs.
    Runs,
    /// Blocks of intervals.
    Blocks,
}

impl VerdictName {
    fn of(verdict: ArmVerdict) -> Self {
        match verdict {
            ArmVerdict::NotWorse => Self::NotWorse,
            ArmVerdict::Inconclusive => Self::Inconclusive,
            ArmVerdict::Worse => Self::Worse,
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupDiffDocument<'a> {
    /// The class.
    class: &'a str,
    /// Name and value of each key of `--by`; empty for a whole class.
    key: Vec<KeyValueDocument<'a>>,
    /// Whether this group is worse.
    verdict: VerdictName,
    /// The level of its intervals: 0.05 for 95 %. Lower if there are several groups (Holm).
    level: f64,
    /// Number of waits in all runs: base, new.
    waits: [u64; 2],
    /// Waits per second of wall time: base, new. For the class `preempted`, these are preemptions.
    waits_per_s: [f64; 2],
    /// Waits in which the task migrated, per second of wall time: base, new; `null` if not known.
    migrations_per_s: Option<[f64; 2]>,
    /// The longest wait: base, new. It is not tested.
    max_ns: [u64; 2],
    /// The metrics.
    metrics: Vec<MetricDocument>,
    /// The limits of the new arm.
    limits: Vec<LimitDocument>,
    /// The causes, the one that changed most first, at most 50; empty if they are not known.
    causes: Vec<CauseDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KeyValueDocument<'a> {
    /// The key.
    name: &'a str,
    /// Its value.
    value: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MetricDocument {
    /// A percentile such as `p99` (ns), or `wait` (ns of waiting per s of wall time).
    metric: String,
    /// Its geometric mean over the runs of the base; `null` if the metric is not resolvable.
    base: Option<f64>,
    /// Its geometric mean over the new runs.
    new: Option<f64>,
    /// New divided by base.
    ratio: Option<f64>,
    /// Lower end of the interval of the ratio, simultaneous over the metrics; `null` if the runs do not limit it.
    low: Option<f64>,
    /// Upper end.
    high: Option<f64>,
    /// The margin, as a share of the base; `null` if the metric does not decide.
    margin: Option<f64>,
    /// The verdict; `null` if the metric does not decide.
    verdict: Option<VerdictName>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LimitDocument {
    /// A percentile such as `p99` (ns), `wait` (ns per s), or `above(10ms)`: the share of waits of at least 10 ms.
    metric: String,
    /// What the new arm has to be below.
    limit: f64,
    /// The value of the base; `null` if it is not resolvable.
    base: Option<f64>,
    /// The value of the new arm.
    new: Option<f64>,
    /// Lower end of the interval of the new arm's value; `null` if the runs do not limit it.
    low: Option<f64>,
    /// Upper end.
    high: Option<f64>,
    /// Whether the new arm keeps the limit.
    verdict: VerdictName,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CauseDocument<'a> {
    /// The cause, in words.
    name: &'a str,
    /// Its time in waits, ns per s of wall time, in the base.
    base_per_s: f64,
    /// The same in the new arm.
    new_per_s: f64,
}

/// Number of causes in a document.
const CAUSES: usize = 50;

/// The comparison as a line of JSON.
pub fn json(comparison: &ArmComparison) -> serde_json::Result<String> {
    Ok(serde_json::to_string(&DiffDocument::new(comparison))? + "\n")
}

impl<'a> DiffDocument<'a> {
    /// The document of a comparison.
    pub fn new(comparison: &'a ArmComparison) -> Self {
        let arm =
            |arm: usize| ArmDocument { runs: &comparison.runs[arm], duration_ns: comparison.duration_ns[arm] as u64 };
        let (unit, arrangements) = match comparison.unit {
            IntervalUnit::Runs { arrangements, .. } => (UnitName::Runs, Some(arrangements)),
            IntervalUnit::Blocks => (UnitName::Blocks, None),
        };
        Self {
            schema: "wakelat.diff/1",
            verdict: VerdictName::of(comparison.verdict),
            within_runs: comparison.within_runs.map(VerdictName::of),
            runs_needed: match comparison.runs_needed {
                Some(RunsNeeded::AtLeast(runs) | RunsNeeded::ForAnyInterval(runs)) => Some(runs),
                Some(RunsNeeded::MoreThan { .. }) | None => None,
            },
            unit,
            arrangements,
            base: arm(0),
            new: arm(1),
            notes: &comparison.notes,
            groups: comparison.groups.iter().map(GroupDiffDocument::new).collect(),
            groups_left_out: comparison.left_out,
        }
    }
}

impl<'a> GroupDiffDocument<'a> {
    fn new(group: &'a GroupComparison) -> Self {
        let causes = group.causes.iter().take(CAUSES);
        Self {
            class: &group.name.class,
            key: group.name.key.iter().map(|(name, value)| KeyValueDocument { name, value }).collect(),
            verdict: VerdictName::of(group.verdict),
            level: group.level,
            waits: group.waits,
            waits_per_s: group.wait_count_rate,
            migrations_per_s: group.migration_rate,
            max_ns: group.max_ns,
            metrics: group.metrics.iter().map(MetricDocument::new).collect(),
            limits: group.limits.iter().map(LimitDocument::new).collect(),
            causes: causes
                .map(|cause| CauseDocument { name: &cause.name, base_per_s: cause.rates[0], new_per_s: cause.rates[1] })
                .collect(),
        }
    }
}

impl MetricDocument {
    fn new(metric: &MetricComparison) -> Self {
        let known = |value: f64| metric.ratio.map(|_| value);
        Self {
            metric: metric.metric.name(),
            base: known(metric.values[0]),
            new: known(metric.values[1]),
            ratio: metric.ratio,
            low: metric.interval[0],
            high: metric.interval[1],
            margin: metric.margin,
            verdict: metric.verdict.map(VerdictName::of),
        }
    }
}

impl LimitDocument {
    fn new(limit: &LimitComparison) -> Self {
        Self {
            metric: limit.limit.metric.name(),
            limit: limit.limit.bound,
            base: limit.base,
            new: limit.value,
            low: limit.interval[0],
            high: limit.interval[1],
            verdict: VerdictName::of(limit.verdict),
        }
    }
}
