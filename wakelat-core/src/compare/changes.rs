//! What a comparison has found: the changes of each group, and the verdicts.

use super::{
    criteria::{Criteria, Limit},
    latencies::LatencyCounts,
    metric::ComparedMetric,
    run::GroupName,
};

/// Whether the new arm is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArmVerdict {
    /// Any change is below the margin.
    NotWorse,
    /// The runs do not decide it.
    Inconclusive,
    /// A change is above the margin.
    Worse,
}

impl ArmVerdict {
    /// The word in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotWorse => "not worse",
            Self::Inconclusive => "inconclusive",
            Self::Worse => "worse",
        }
    }
}

/// What the intervals are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IntervalUnit {
    /// The runs, by this number of arrangements of their labels.
    Runs {
        /// The number of arrangements.
        arrangements: usize,
        /// Whether these are all.
        is_exact: bool,
    },
    /// Blocks of the intervals of one run per arm.
    Blocks,
}

/// The comparison of two arms.
#[derive(Clone, Debug)]
pub struct ArmComparison {
    /// The names of the runs of base and new.
    pub runs: [Vec<String>; 2],
    /// The length of all runs of base and new: ns.
    pub duration_ns: [f64; 2],
    /// What the intervals are made of.
    pub unit: IntervalUnit,
    /// What differs between the conditions of the runs.
    pub notes: Vec<String>,
    /// The groups: classes first, then by falling wait.
    pub groups: Vec<GroupComparison>,
    /// Groups that are not compared: beyond the maximum number, not in each run, or with too few waits.
    pub left_out: usize,
    /// The criteria.
    pub criteria: Criteria,
    /// Whether the new arm is worse.
    pub verdict: ArmVerdict,
    /// The verdict of one run per arm, which is about these runs only.
    pub within_runs: Option<ArmVerdict>,
    /// How many runs per arm would probably decide, if the verdict is inconclusive.
    pub runs_needed: Option<RunsNeeded>,
}

/// How many runs per arm would probably decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunsNeeded {
    /// This many.
    AtLeast(usize),
    /// Fewer have no interval. How many would decide is not known.
    ForAnyInterval(usize),
    /// More than is practical.
    MoreThan {
        /// This many are not enough.
        runs: usize,
        /// The interval is wider than the margin: the runs differ. Otherwise, the change is about as large as the margin.
        differ: bool,
    },
}

/// The comparison of one group.
#[derive(Clone, Debug)]
pub struct GroupComparison {
    /// Its name.
    pub name: GroupName,
    /// The metrics.
    pub metrics: Vec<MetricComparison>,
    /// The limits of the new arm.
    pub limits: Vec<LimitComparison>,
    /// The level of its intervals, which is lower if there are several groups.
    pub level: f64,
    /// Number of waits of base and new.
    pub waits: [u64; 2],
    /// Waits per s of base and new.
    pub wait_count_rate: [f64; 2],
    /// Waits with a migration per s, if known.
    pub migration_rate: Option<[f64; 2]>,
    /// The longest latency of base and new: ns. It is not tested.
    pub max_ns: [u64; 2],
    /// The latencies of base and new.
    pub latencies: [LatencyCounts; 2],
    /// The causes, the one that changed most first; empty if they are not known.
    pub causes: Vec<CauseChange>,
    /// The verdict for this group.
    pub verdict: ArmVerdict,
}

/// The comparison of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricComparison {
    /// The metric.
    pub metric: ComparedMetric,
    /// Its typical value in base and new, in its unit: the geometric mean over the runs.
    pub values: [f64; 2],
    /// New divided by base; `None` if the metric is not resolvable.
    pub ratio: Option<f64>,
    /// The ends of the interval of the ratio; `None` for an end that the runs do not limit.
    pub interval: [Option<f64>; 2],
    /// The margin, if it decides.
    pub margin: Option<f64>,
    /// The verdict, if there is a margin.
    pub verdict: Option<ArmVerdict>,
}

/// The comparison of the new arm with a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitComparison {
    /// The limit.
    pub limit: Limit,
    /// The value of the metric in the new arm; `None` if it is not resolvable.
    pub value: Option<f64>,
    /// The value in the base.
    pub base: Option<f64>,
    /// The ends of its interval.
    pub interval: [Option<f64>; 2],
    /// The verdict.
    pub verdict: ArmVerdict,
}

/// The change of the time of one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct CauseChange {
    /// Its name.
    pub name: String,
    /// Its time in base and new: ns per s of wall time.
    pub rates: [f64; 2],
}

impl CauseChange {
    /// New minus base: ns per s.
    pub fn change(&self) -> f64 {
        self.rates[1] - self.rates[0]
    }
}
