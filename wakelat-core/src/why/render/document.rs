//! The JSON document `wakelat.why/1`.

mod breakdown;
mod container;
mod culprit;
mod findings;
mod fork_bursts;
pub(super) mod stacks;
mod wakeup_pairs;
mod work_items;
mod worst_wait;

use std::io::{self, Write};

use serde::Serialize;

use self::{
    breakdown::{EvictedDocument, GroupBreakdownDocument, GroupWithWorstDocument, TimeSumDocument},
    culprit::ActorDocument,
    findings::FindingDocument,
    fork_bursts::{ForkBurstDocument, ForkCountsDocument},
    stacks::StackCountsDocument,
    wakeup_pairs::{WakeupPairDocument, WakeupPairsRestDocument},
    work_items::WorkItemDocument,
    worst_wait::ExemplarDocument,
};
use crate::{
    render::{
        coverage_document::CoverageDocument,
        report_document::{FileDocument, OverheadDocument, WindowDocument},
    },
    report::Report,
    why::{Summary, groups::GroupBreakdown, interferers::Interferer, preemptions::PreemptionPair, worst::Exemplar},
};

/// Writes a summary and the report of the same window as a single line of JSON.
pub fn write(summary: &Summary, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(&WhyDocument::new(summary, report))?;
    line.push(b'\n');
    out.write_all(&line)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WhyDocument<'a> {
    /// `wakelat.why/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.why/1")))]
    schema: &'static str,
    /// The kernel's release, as in `uname -r`.
    kernel: &'a str,
    /// Start of the window.
    start_unix_ns: u64,
    /// Length of the window.
    duration_ns: u64,
    #[serde(flatten)]
    window: WindowDocument,
    /// The start of a latency; with `waking`, wake delivery is part of the latency.
    #[cfg_attr(test, schemars(extend("enum" = crate::render::report_document::latency_starts())))]
    from: &'static str,
    /// All waits by class; the class with the most waiting time first.
    classes: Vec<GroupBreakdownDocument<'a>>,
    /// The waits by the keys of `--by`; the group with the most waiting time first; empty without `--by`.
    groups: Vec<GroupWithWorstDocument<'a>>,
    /// A group waited at most this much longer than shown, and may lack long waits. wakelat keeps at least 16,384
    /// groups until the window ends and evicts those that waited least; it shows the `--max-groups` that waited
    /// longest.
    groups_error_ns: u128,
    /// Tasks, interrupts and other causes that made tasks wait, by total time, at most 100.
    interferers: Vec<InterfererDocument>,
    /// Interferers that had no room in the table: it keeps 16,384, and those with the least time make room.
    interferers_rest: EvictedDocument,
    /// Functions of workers that had no room in the table: it keeps 16,384, and those with the least time make
    /// room.
    work_items_rest: EvictedDocument,
    /// Start and end events of work items that were dropped: wakelat keeps events of 4,096 workers, and 1,024 of
    /// each. Functions may be missing from `work_items`.
    work_items_dropped: u64,
    /// Preempted and preempting tasks, by name, most frequent pair first, at most 100. Threads of wakelat itself are
    /// apart from other tasks of their names.
    preemptions: Vec<PreemptionPairDocument>,
    /// Preemptions that are in no pair of `preemptions`.
    preemptions_rest: PreemptionsRestDocument,
    /// Wakers and wakees, the pair with the most waiting time first, at most 100; only waits of class `wakeup`.
    wakeup_pairs: Vec<WakeupPairDocument<'a>>,
    /// Waits that are in no pair of `wakeup_pairs`.
    wakeup_pairs_rest: WakeupPairsRestDocument,
    /// The longest waits, longest first, as many as `--worst` requests.
    worst: Vec<ExemplarDocument<'a>>,
    /// The causes that are large enough, largest first: why.md.
    findings: Vec<FindingDocument>,
    /// Causes (a component and a name) that had no room in the table: it keeps 16,384, and those with the least
    /// time make room.
    findings_rest: EvictedDocument,
    /// Names whose tasks created many tasks that delayed others, most time first: why.md. `comm`, the name;
    /// `tasks`, tasks that it created; `execs`, programs that these executed; `sum_ns`, their time in the waits of
    /// others; `of_ns`, total of all waits; `evidence` and `remedy`, in words.
    fork_bursts: Vec<ForkBurstDocument>,
    /// Names of parents that had no room in the table: it keeps 4,096, and those whose tasks had the least time
    /// make room.
    fork_bursts_rest: EvictedDocument,
    /// New tasks whose parent is no longer known: 65,536 to 131,072 are kept. Their time is in no fork burst.
    fork_bursts_dropped: u64,
    /// Tasks that were created, whether or not they delayed others: with `--collect fork`.
    forks: ForkCountsDocument,
    /// The events behind the components.
    timeline: TimelineDocument<'a>,
    /// With `--stacks`: what became of the stacks of this window; `null` without it.
    stacks: Option<StackCountsDocument>,
    /// The fields of `coverage` in `wakelat.report/1`.
    coverage: CoverageDocument,
    /// The recordings of the summary, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileDocument<'a>>,
    /// The fields of `overhead` in `wakelat.report/1`.
    overhead: Option<OverheadDocument>,
}

impl<'a> WhyDocument<'a> {
    fn new(summary: &'a Summary, report: &'a Report) -> Self {
        let worst = |one: &'a Exemplar| ExemplarDocument::new(one, summary, report);
        let group = |group: &'a GroupBreakdown| GroupBreakdownDocument::new(group, summary);
        let with_worst = |one: &'a GroupBreakdown| GroupWithWorstDocument {
            group: group(one),
            worst: one.worst.iter().map(worst).collect(),
            worst_given_up: one.worst_given_up,
        };
        Self {
            schema: "wakelat.why/1",
            kernel: &report.kernel,
            start_unix_ns: report.start_unix_ns,
            duration_ns: report.duration_ns,
            window: WindowDocument::new(report),
            from: summary.from.name(),
            classes: summary.classes.iter().map(group).collect(),
            groups: summary.groups.iter().map(with_worst).collect(),
            groups_error_ns: summary.groups_error_ns,
            interferers: summary.interferers.iter().map(|one| InterfererDocument::new(one, summary)).collect(),
            interferers_rest: EvictedDocument::new(summary.interferers_evicted),
            work_items_rest: EvictedDocument::new(summary.work_items_evicted),
            work_items_dropped: summary.work_items_dropped,
            preemptions: summary.preemption_pairs.iter().map(PreemptionPairDocument::new).collect(),
            preemptions_rest: PreemptionsRestDocument::new(summary),
            wakeup_pairs: summary.wakeup_pairs.pairs.iter().map(WakeupPairDocument::new).collect(),
            wakeup_pairs_rest: WakeupPairsRestDocument::new(&summary.wakeup_pairs),
            worst: summary.worst.iter().map(worst).collect(),
            findings: summary.findings.iter().map(|one| FindingDocument::new(one, summary)).collect(),
            findings_rest: EvictedDocument::new(summary.causes_evicted),
            fork_bursts: summary.fork_bursts.iter().map(ForkBurstDocument::new).collect(),
            fork_bursts_rest: EvictedDocument::new(summary.fork_bursts_evicted),
            fork_bursts_dropped: summary.fork_bursts_dropped,
            forks: ForkCountsDocument::new(&summary.forks),
            timeline: TimelineDocument {
                events: summary.events.events,
                lost: summary.events.lost,
                throttling_unknown: summary.throttling_unknown,
                not_collected: &summary.not_collected,
            },
            stacks: StackCountsDocument::of(summary),
            coverage: CoverageDocument::new(report),
            files: FileDocument::of_all(&summary.files),
            overhead: report.overhead.as_ref().map(OverheadDocument::new),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InterfererDocument {
    #[serde(flatten)]
    actor: ActorDocument,
    #[serde(flatten)]
    sum: TimeSumDocument,
    /// Number of threads that waited for this interferer; a lower bound if `more_victims` is set.
    victims: usize,
    /// Whether there may have been more: all interferers together track 262,144 victims, and beyond that counting
    /// ends first for those with the least time.
    more_victims: bool,
    /// With `--collect workqueue`: functions that a workqueue worker ran meanwhile, `[{"function": "wb_workfn",
    /// "sum_ns": 2691000}]`, most time first; time between work items is not included.
    work_items: Vec<WorkItemDocument>,
}

impl InterfererDocument {
    fn new(one: &Interferer, summary: &Summary) -> Self {
        Self {
            actor: ActorDocument::new(&one.actor, summary),
            sum: TimeSumDocument::new(&one.sum),
            victims: one.victims(),
            more_victims: one.has_more_victims(),
            work_items: WorkItemDocument::of_interferer(&one.actor, summary),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PreemptionPairDocument {
    /// Name of the task that was still runnable.
    from: String,
    /// Whether that task is a thread of wakelat itself.
    from_is_own: bool,
    /// Name of the task that replaced it.
    to: String,
    /// Whether that task is a thread of wakelat itself.
    to_is_own: bool,
    /// Number of preemptions.
    count: u64,
}

impl PreemptionPairDocument {
    fn new(pair: &PreemptionPair) -> Self {
        let [from_is_own, to_is_own] = pair.is_own;
        Self { from: pair.from.to_string(), from_is_own, to: pair.to.to_string(), to_is_own, count: pair.count }
    }
}

/// The preemptions of the pairs that are not listed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PreemptionsRestDocument {
    /// Number of these preemptions.
    count: u64,
    /// The count of a pair is at most this much too low: 16,384 pairs are kept, and the least frequent make room.
    error: u128,
}

impl PreemptionsRestDocument {
    fn new(summary: &Summary) -> Self {
        let listed: u64 = summary.preemption_pairs.iter().map(|pair| pair.count).sum();
        Self { count: summary.preemptions - listed, error: summary.preemption_pairs_evicted.error }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TimelineDocument<'a> {
    /// Switches, interrupts and migrations that were recorded.
    events: u64,
    /// Events for which the ring buffer had no room.
    lost: u64,
    /// Waits for which the kernel does not report how long the task's cgroup was throttled.
    throttling_unknown: u64,
    /// What `--collect` left out.
    not_collected: &'a [&'static str],
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        aggregate::key::Key,
        report::LatencyFrom,
        why::testing::{beside_wakelat, one_round, report, summary, summary_of_own},
    };

    #[test]
    fn what_is_written_is_a_line_that_is_valid_by_the_schema() {
        let summary = summary(&one_round().events, LatencyFrom::Wakeup, &[Key::Comm]);
        let mut out = Vec::new();
        write(&summary, &report(&summary), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!((json_schemas::assert_valid(&text), text.lines().count()), (1, 1));
        // The example has a group with its longest wait, its stacks and a finding.
        for part in ["\"worst\":[{\"class\"", "\"wakee\":{\"tid\"", "\"findings\":[{\"component\""] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn threads_of_wakelat_are_marked() {
        let summary = summary_of_own(&beside_wakelat().events);
        let document = serde_json::to_value(WhyDocument::new(&summary, &report(&summary))).unwrap();
        let is_own = |cause: &Value| cause["is_own"].as_bool() == Some(true);
        let groups = [&document["classes"][0]["culprits"], &document["worst"][0]["shares"], &document["interferers"]];
        for causes in groups.into_iter().chain([&document["findings"]]) {
            let causes = causes.as_array().unwrap();
            assert!(causes.iter().any(is_own), "{document}");
            assert!(causes.iter().all(|cause| is_own(cause) == (cause["name"] == "wakelat")), "{document}");
        }
        let pair = &document["preemptions"][0];
        assert_eq!((&pair["from_is_own"], &pair["to_is_own"]), (&Value::Bool(false), &Value::Bool(true)), "{document}");
    }

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_type() {
        json_schemas::assert_current::<WhyDocument>();
    }
}
