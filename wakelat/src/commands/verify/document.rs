//! A verification as a JSON document: `wakelat.verify/1`.

use serde::{Serialize, Serializer};
use wakelat_common::Class;

use super::{
    checks::Check,
    compare::{Comparison, Mismatch},
    evaluation::{RulesComparison, Verification},
    paired_waits::WaitTally,
    queue_clock::DifferingInstrument,
    side::SideCounts,
};
#[cfg(test)]
use wakelat_core::report::LatencyFrom;
use wakelat_tracefs::hist_trigger::HistogramTotals;

/// `wakelat.verify/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerificationDocument<'a> {
    /// `wakelat.verify/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.verify/1")))]
    schema: &'static str,
    /// Kernel release, as printed by `uname -r`.
    kernel: &'a str,
    /// Length of the window.
    duration_ns: u64,
    /// The event at which latency starts: `wakeup` or `waking`, as in a report.
    #[cfg_attr(test, schemars(extend("enum" = [LatencyFrom::Wakeup, LatencyFrom::Waking].map(LatencyFrom::name))))]
    from: &'static str,
    /// `agree` (exit code 0), `disagree` (3), or `not_compared` (4): the triggers could not be used, and everything
    /// else agrees.
    #[cfg_attr(test, schemars(extend("enum" = tests::verdicts())))]
    verdict: &'static str,
    /// The instrument that differs from the two others, `tracepoints` or `queue_clock`; `null` if no single one does.
    #[cfg_attr(test, schemars(extend("enum" = ["tracepoints", "queue_clock", null])))]
    differs: Option<&'static str>,
    /// Why the hist triggers were not compared; `null` if they were.
    not_compared: Option<NotComparedDocument>,
    /// Both sides under the trigger's rules; `null` if the triggers were not compared.
    comparison: Option<ComparisonDocument>,
    /// How long it took to switch counting on and off.
    switching_ns: u64,
    /// The tables of the triggers; `null` if the triggers were not compared.
    tables: Option<TablesDocument>,
    /// The window under wakelat's own rules, and what the trigger's rules get wrong.
    rules: RulesDocument,
    /// The checks that need no trigger.
    checks: Vec<CheckDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NotComparedDocument {
    /// `no_hist_triggers`, `tracefs_not_mounted`, `tracefs_closed`; only the first is a property of the kernel.
    #[cfg_attr(test, schemars(extend("enum" = tests::reasons())))]
    reason: &'static str,
    /// The reason in words, with the remedy.
    text: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComparisonDocument {
    /// What the BPF programs counted.
    wakelat: SideDocument,
    /// What the kernel's hist trigger counted.
    trigger: SideDocument,
    /// The buckets that are not empty on both sides, in rising order.
    buckets: Vec<BucketDocument>,
    /// Largest distance between the two distributions, 0 to 1.
    distance: f64,
    /// How much two readings of the clock may differ.
    clock_ns: u64,
    /// Waits that may be on one side only.
    tolerated_waits: u64,
    /// Waits that may be in any bucket.
    held_up: u64,
    /// Whether the two sides agree.
    agree: bool,
    /// Why they do not agree.
    reasons: Vec<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SideDocument {
    /// Waits.
    count: u64,
    /// Sum of the waits; `null` if this side has none.
    sum_ns: Option<u64>,
    /// Events counted.
    hits: u64,
    /// Buckets in use.
    entries: u64,
    /// Events not counted for lack of room.
    dropped: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BucketDocument {
    /// Smallest latency in the bucket.
    from_ns: u64,
    /// Largest latency in the bucket.
    last_ns: u64,
    /// Waits counted by wakelat.
    wakelat: u64,
    /// Waits counted by the trigger.
    trigger: u64,
    /// Waits that moved across the upper edge of the bucket; if positive, wakelat has them below the edge.
    moved: i64,
    /// How many waits may have moved.
    explained: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TablesDocument {
    /// The table for wakeups.
    starts: TotalsDocument,
    /// The table for switches.
    ends: TotalsDocument,
    /// The table for latencies.
    latencies: TotalsDocument,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TotalsDocument {
    /// Events counted.
    hits: u64,
    /// Entries in the table.
    entries: u64,
    /// Events not counted because the table was full.
    dropped: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RulesDocument {
    /// Waits by class.
    classes: ClassesDocument,
    /// Wakeups of running tasks.
    already_running: u64,
    /// Wakeups of waiting tasks.
    already_queued: u64,
    /// Waits of the trigger that did not begin at a wakeup.
    bogus: TallyDocument,
    /// Waits of the trigger that a second wakeup cut short, at most one for each wakeup of a waiting task: by how
    /// much.
    restarted: TallyDocument,
    /// Waits that the trigger's rules miss.
    unknown: TallyDocument,
    /// Waits for which something came between the two readings of their start: by how much.
    held_up: TallyDocument,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ClassesDocument {
    /// Waits after a wakeup.
    wakeup: TallyDocument,
    /// First waits of new tasks.
    new: TallyDocument,
    /// Waits after a preemption.
    preempted: TallyDocument,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TallyDocument {
    /// Number of waits.
    count: u64,
    /// Total.
    sum_ns: u64,
    /// Longest.
    max_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckDocument<'a> {
    /// `schedstat`, `ctxt`, `queue_clock`, `distributions` or `run_queues`.
    #[cfg_attr(test, schemars(extend("enum" = ["ctxt", "distributions", "queue_clock", "run_queues", "schedstat"])))]
    name: &'static str,
    /// `agree`, `disagree`, or `unknown` if the check cannot be made here.
    #[cfg_attr(test, schemars(extend("enum" = tests::outcomes())))]
    outcome: &'static str,
    /// The figures in words.
    found: &'a str,
    /// The figures.
    #[serde(serialize_with = "numbers")]
    #[cfg_attr(test, schemars(with = "tests::CheckNumbers"))]
    numbers: &'a [(&'static str, u64)],
}

/// Serializes the numbers of a check under their names.
fn numbers<S: Serializer>(numbers: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(numbers.iter().copied())
}

impl<'a> VerificationDocument<'a> {
    /// The document of a verification.
    pub fn new(verification: &'a Verification) -> Self {
        let not_compared = verification.comparison.as_ref().err();
        let tables = verification.tables.as_ref().map(|[starts, ends, latencies]| TablesDocument {
            starts: TotalsDocument::new(starts),
            ends: TotalsDocument::new(ends),
            latencies: TotalsDocument::new(latencies),
        });
        Self {
            schema: "wakelat.verify/1",
            kernel: &verification.kernel,
            duration_ns: verification.duration_ns,
            from: verification.from.name(),
            verdict: verification.verdict().name(),
            differs: verification.differs().map(DifferingInstrument::name),
            not_compared: not_compared.map(|why| NotComparedDocument { reason: why.name(), text: why.to_string() }),
            comparison: verification.comparison.as_ref().ok().map(ComparisonDocument::new),
            switching_ns: verification.switching_ns,
            tables,
            rules: RulesDocument::new(&verification.rules),
            checks: verification.checks.iter().map(CheckDocument::new).collect(),
        }
    }
}

impl ComparisonDocument {
    fn new(comparison: &Comparison) -> Self {
        let buckets = comparison.rows.iter().map(|row| BucketDocument {
            from_ns: row.range.0,
            last_ns: row.range.1,
            wakelat: row.bpf,
            trigger: row.trigger,
            moved: i64::try_from(row.moved).unwrap_or(i64::MAX),
            explained: row.explained,
        });
        Self {
            wakelat: SideDocument::new(&comparison.bpf),
            trigger: SideDocument::new(&comparison.trigger),
            buckets: buckets.collect(),
            distance: comparison.distance,
            clock_ns: comparison.clock_ns,
            tolerated_waits: comparison.tolerance.waits,
            held_up: comparison.tolerance.held_up,
            agree: comparison.agrees(),
            reasons: comparison.mismatches.iter().map(Mismatch::to_string).collect(),
        }
    }
}

impl SideDocument {
    fn new(side: &SideCounts) -> Self {
        let HistogramTotals { hits, entries, dropped } = side.totals;
        Self { count: side.count(), sum_ns: side.sum_ns.map(short), hits, entries, dropped }
    }
}

impl TotalsDocument {
    fn new(totals: &HistogramTotals) -> Self {
        let HistogramTotals { hits, entries, dropped } = *totals;
        Self { hits, entries, dropped }
    }
}

impl RulesDocument {
    fn new(rules: &RulesComparison) -> Self {
        let class = |class| TallyDocument::new(rules.of(class));
        Self {
            classes: ClassesDocument {
                wakeup: class(Class::Wakeup),
                new: class(Class::New),
                preempted: class(Class::Preempted),
            },
            already_running: rules.already_running,
            already_queued: rules.already_queued,
            bogus: TallyDocument::new(&rules.bogus),
            restarted: TallyDocument::new(&rules.restarted),
            unknown: TallyDocument::new(&rules.unknown),
            held_up: TallyDocument::new(&rules.held_up),
        }
    }
}

impl TallyDocument {
    fn new(tally: &WaitTally) -> Self {
        Self { count: tally.count, sum_ns: short(tally.sum_ns), max_ns: tally.max_ns }
    }
}

impl<'a> CheckDocument<'a> {
    fn new(check: &'a Check) -> Self {
        let Check { name, outcome, ref found, ref numbers } = *check;
        Self { name, outcome: outcome.name(), found, numbers }
    }
}

/// A sum of ns in 64 bits.
fn short(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
