//! `wakelat.why/1`, as docs/output.md describes it.

mod account;
mod findings;
mod place;
mod stacks;
mod storms;
mod wakings;
mod works;

use crate::aggregate::bounded::Evicted;
use std::io::{self, Write};

use serde::Serialize;

use self::{
    account::ExemplarDocument,
    findings::FindingDocument,
    place::ContainerDocument,
    stacks::StackCountsDocument,
    storms::{ForkBurstDocument, ForkCountsDocument},
    wakings::{WakeupPairDocument, WakeupPairsRestDocument},
    works::WorkItemDocument,
};
use super::words;
use crate::{
    report::{KeyPart, Report},
    sink::document::{CoverageDocument, OverheadDocument, WindowDocument, from_name, key},
    timeline::{
        event::InterruptSource,
        part::{Actor, Component, Culprit},
    },
    why::{
        Summary,
        chain::PreemptionPair,
        groups::GroupBreakdown,
        imposed::Interferer,
        longest::Exemplar,
        sums::{BreakdownSum, TimeSum},
    },
};

/// Culprits of a group that are written, the largest.
const MAX_CULPRITS: usize = 20;

/// Writes a summary and the report of the same window as a document in one line.
///
/// # Errors
/// Those of `out`.
pub fn write(summary: &Summary, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(&WhyDocument::new(summary, report))?;
    line.push(b'\n');
    out.write_all(&line)
}

#[derive(Serialize)]
struct WhyDocument<'a> {
    schema: &'static str,
    kernel: &'a str,
    start_unix_ns: u64,
    duration_ns: u64,
    #[serde(flatten)]
    window: WindowDocument,
    from: &'static str,
    classes: Vec<GroupBreakdownDocument<'a>>,
    groups: Vec<GroupWithWorstDocument<'a>>,
    groups_error_ns: u128,
    antagonists: Vec<InterfererDocument>,
    antagonists_rest: EvictedDocument,
    works_rest: EvictedDocument,
    works_dropped: u64,
    preemptions: Vec<PreemptionPairDocument>,
    preemptions_rest: PreemptionsRestDocument,
    wakings: Vec<WakeupPairDocument<'a>>,
    wakings_rest: WakeupPairsRestDocument,
    worst: Vec<ExemplarDocument<'a>>,
    findings: Vec<FindingDocument>,
    findings_rest: EvictedDocument,
    storms: Vec<ForkBurstDocument>,
    storms_rest: EvictedDocument,
    storms_dropped: u64,
    forks: ForkCountsDocument,
    timeline: TimelineDocument<'a>,
    stacks: Option<StackCountsDocument>,
    coverage: CoverageDocument,
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
            from: from_name(summary.from),
            classes: summary.classes.iter().map(group).collect(),
            groups: summary.groups.iter().map(with_worst).collect(),
            groups_error_ns: summary.groups_error_ns,
            antagonists: summary.interferers.iter().map(|one| InterfererDocument::new(one, summary)).collect(),
            antagonists_rest: EvictedDocument::new(summary.interferers_evicted),
            works_rest: EvictedDocument::new(summary.work_items_evicted),
            works_dropped: summary.work_items_dropped,
            preemptions: summary.preemption_pairs.iter().map(PreemptionPairDocument::new).collect(),
            preemptions_rest: PreemptionsRestDocument::new(summary),
            wakings: summary.wakeup_pairs.pairs.iter().map(WakeupPairDocument::new).collect(),
            wakings_rest: WakeupPairsRestDocument::new(&summary.wakeup_pairs),
            worst: summary.worst.iter().map(worst).collect(),
            findings: summary.findings.iter().map(|one| FindingDocument::new(one, summary)).collect(),
            findings_rest: EvictedDocument::new(summary.causes_evicted),
            storms: summary.fork_bursts.iter().map(ForkBurstDocument::new).collect(),
            storms_rest: EvictedDocument::new(summary.fork_bursts_evicted),
            storms_dropped: summary.fork_bursts_dropped,
            forks: ForkCountsDocument::new(&summary.forks),
            timeline: TimelineDocument {
                events: summary.events.events,
                lost: summary.events.lost,
                throttling_unknown: summary.throttling_unknown,
                not_told_apart: &summary.not_collected,
            },
            stacks: StackCountsDocument::of(summary),
            coverage: CoverageDocument::new(&report.coverage),
            overhead: report.overhead.as_ref().map(OverheadDocument::new),
        }
    }
}

#[derive(Serialize)]
struct GroupBreakdownDocument<'a> {
    #[serde(serialize_with = "key")]
    key: &'a [KeyPart],
    class: &'static str,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
    moved: u64,
    before: Vec<ComponentDocument>,
    parts: Vec<ComponentDocument>,
    culprits: Vec<CulpritSumDocument>,
    culprits_rest: EvictedDocument,
}

/// A group and its longest waits.
#[derive(Serialize)]
struct GroupWithWorstDocument<'a> {
    #[serde(flatten)]
    group: GroupBreakdownDocument<'a>,
    worst: Vec<ExemplarDocument<'a>>,
    worst_given_up: u64,
}

/// Those that are not told apart for want of room.
#[derive(Serialize)]
struct EvictedDocument {
    sum_ns: u128,
    count: u64,
    error_ns: u128,
}

impl EvictedDocument {
    fn new(rest: Evicted) -> Self {
        Self { sum_ns: rest.sum, count: rest.count, error_ns: rest.error }
    }
}

impl<'a> GroupBreakdownDocument<'a> {
    fn new(group: &'a GroupBreakdown, summary: &Summary) -> Self {
        let sums: &BreakdownSum = &group.sums;
        let before =
            [Component::Placement, Component::Ipi].into_iter().zip(&sums.before).filter(|(_, sum)| sum.waits > 0);
        let culprit = |one: crate::why::sums::CulpritSum| CulpritSumDocument {
            culprit: CulpritDocument::new(&one.culprit, summary),
            sum: TimeSumDocument::new(&one.sum),
        };
        Self {
            key: &group.key,
            class: group.class.name(),
            count: sums.waits,
            sum_ns: sums.ns,
            max_ns: sums.max_ns,
            moved: sums.migrated,
            before: before.map(|(part, sum)| ComponentDocument::new(part, sum)).collect(),
            parts: sums.components().iter().map(|(part, sum)| ComponentDocument::new(*part, sum)).collect(),
            culprits: sums.culprits().into_iter().take(MAX_CULPRITS).map(culprit).collect(),
            culprits_rest: EvictedDocument::new(sums.evicted()),
        }
    }
}

#[derive(Serialize)]
struct ComponentDocument {
    part: &'static str,
    #[serde(flatten)]
    sum: TimeSumDocument,
}

impl ComponentDocument {
    fn new(part: Component, sum: &TimeSum) -> Self {
        Self { part: part.name(), sum: TimeSumDocument::new(sum) }
    }
}

#[derive(Serialize)]
struct TimeSumDocument {
    sum_ns: u128,
    max_ns: u64,
    waits: u64,
}

impl TimeSumDocument {
    fn new(sum: &TimeSum) -> Self {
        Self { sum_ns: sum.ns, max_ns: sum.max_ns, waits: sum.waits }
    }
}

#[derive(Serialize)]
struct CulpritSumDocument {
    #[serde(flatten)]
    culprit: CulpritDocument,
    #[serde(flatten)]
    sum: TimeSumDocument,
}

/// A part and who had it.
#[derive(Serialize)]
struct CulpritDocument {
    part: &'static str,
    #[serde(flatten)]
    actor: ActorDocument,
}

impl CulpritDocument {
    fn new(culprit: &Culprit, summary: &Summary) -> Self {
        Self { part: culprit.component.name(), actor: ActorDocument::new(&culprit.actor, summary) }
    }
}

/// Who; what does not apply is null.
#[derive(Default, Serialize)]
struct ActorDocument {
    kind: Option<&'static str>,
    name: Option<String>,
    tid: Option<u32>,
    pid: Option<u32>,
    prio: Option<i32>,
    number: Option<u32>,
    cgroup_id: Option<u64>,
    cgroup: Option<String>,
    container: Option<ContainerDocument>,
}

impl ActorDocument {
    fn new(who: &Actor, summary: &Summary) -> Self {
        let in_cgroup = |id: Option<u64>| Self {
            cgroup_id: id,
            cgroup: id.and_then(|id| summary.cgroups.get(&id).cloned()),
            container: ContainerDocument::of(id, summary),
            ..Self::default()
        };
        match who {
            Actor::Task(task) => Self {
                kind: Some("task"),
                name: Some(task.comm.to_string()),
                tid: Some(task.tid),
                pid: Some(task.pid),
                prio: Some(task.prio),
                ..in_cgroup(task.cgroup_id)
            },
            Actor::Idle(state) => Self { kind: Some("idle"), number: state.map(u32::from), ..Self::default() },
            Actor::Interrupt(source) => Self::noise(source),
            Actor::Cgroup(id) => Self { kind: Some("cgroup"), ..in_cgroup(*id) },
            Actor::NoActor => Self::default(),
            Actor::Unknown(why) => Self { kind: Some("unknown"), name: Some(why.name().to_owned()), ..Self::default() },
        }
    }

    fn noise(source: &InterruptSource) -> Self {
        let (kind, name, number) = match source {
            InterruptSource::Irq { number, name } => ("irq", Some(name.to_string()), Some(*number)),
            // The number is wakelat's own.
            InterruptSource::Vector(number) => ("vector", words::vector_name(*number).map(str::to_owned), None),
            InterruptSource::Softirq(number) => ("softirq", Some(words::softirq(*number).to_owned()), Some(*number)),
        };
        Self { kind: Some(kind), name, number, ..Self::default() }
    }
}

#[derive(Serialize)]
struct InterfererDocument {
    #[serde(flatten)]
    actor: ActorDocument,
    #[serde(flatten)]
    sum: TimeSumDocument,
    victims: usize,
    more_victims: bool,
    works: Vec<WorkItemDocument>,
}

impl InterfererDocument {
    fn new(one: &Interferer, summary: &Summary) -> Self {
        Self {
            actor: ActorDocument::new(&one.actor, summary),
            sum: TimeSumDocument::new(&one.sum),
            victims: one.victims(),
            more_victims: one.has_more_victims(),
            works: WorkItemDocument::of_interferer(&one.actor, summary),
        }
    }
}

#[derive(Serialize)]
struct PreemptionPairDocument {
    from: String,
    to: String,
    count: u64,
}

impl PreemptionPairDocument {
    fn new(chain: &PreemptionPair) -> Self {
        Self { from: chain.from.to_string(), to: chain.to.to_string(), count: chain.count }
    }
}

/// The preemptions of pairs that are not listed.
#[derive(Serialize)]
struct PreemptionsRestDocument {
    count: u64,
    error: u128,
}

impl PreemptionsRestDocument {
    fn new(summary: &Summary) -> Self {
        let listed: u64 = summary.preemption_pairs.iter().map(|chain| chain.count).sum();
        Self { count: summary.preemptions - listed, error: summary.preemption_pairs_evicted.error }
    }
}

#[derive(Serialize)]
struct TimelineDocument<'a> {
    events: u64,
    lost: u64,
    throttling_unknown: u64,
    not_told_apart: &'a [&'static str],
}
