//! The JSON document `wakelat.why/1`, as described in docs/output.md.

mod container;
mod exemplar;
mod findings;
mod fork_bursts;
mod stacks;
mod wakeup_pairs;
mod work_items;

use crate::aggregate::bounded::Evicted;
use std::io::{self, Write};

use serde::Serialize;

use self::{
    container::ContainerDocument,
    exemplar::ExemplarDocument,
    findings::FindingDocument,
    fork_bursts::{ForkBurstDocument, ForkCountsDocument},
    stacks::StackCountsDocument,
    wakeup_pairs::{WakeupPairDocument, WakeupPairsRestDocument},
    work_items::WorkItemDocument,
};
use super::labels;
use crate::{
    render::report_document::{CoverageDocument, OverheadDocument, WindowDocument, key},
    report::{KeyPart, Report},
    timeline::{
        component::{Actor, Component, Culprit},
        event::InterruptSource,
    },
    why::{
        Summary,
        groups::GroupBreakdown,
        interferers::Interferer,
        longest::Exemplar,
        preemptions::PreemptionPair,
        sums::{BreakdownSum, TimeSum},
    },
};

/// Maximum number of culprits of a group in the document; the largest are written.
const MAX_CULPRITS: usize = 20;

/// Writes a summary and the report of the same window as a single line of JSON.
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
    interferers: Vec<InterfererDocument>,
    interferers_rest: EvictedDocument,
    work_items_rest: EvictedDocument,
    work_items_dropped: u64,
    preemptions: Vec<PreemptionPairDocument>,
    preemptions_rest: PreemptionsRestDocument,
    wakeup_pairs: Vec<WakeupPairDocument<'a>>,
    wakeup_pairs_rest: WakeupPairsRestDocument,
    worst: Vec<ExemplarDocument<'a>>,
    findings: Vec<FindingDocument>,
    findings_rest: EvictedDocument,
    fork_bursts: Vec<ForkBurstDocument>,
    fork_bursts_rest: EvictedDocument,
    fork_bursts_dropped: u64,
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
    migrated: u64,
    before: Vec<ComponentDocument>,
    components: Vec<ComponentDocument>,
    culprits: Vec<CulpritSumDocument>,
    culprits_rest: EvictedDocument,
}

/// A group with its longest waits.
#[derive(Serialize)]
struct GroupWithWorstDocument<'a> {
    #[serde(flatten)]
    group: GroupBreakdownDocument<'a>,
    worst: Vec<ExemplarDocument<'a>>,
    worst_given_up: u64,
}

/// The sum of the entries that a bounded table evicted because it was full.
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
            migrated: sums.migrated,
            before: before.map(|(component, sum)| ComponentDocument::new(component, sum)).collect(),
            components: sums
                .components()
                .iter()
                .map(|(component, sum)| ComponentDocument::new(*component, sum))
                .collect(),
            culprits: sums.culprits().into_iter().take(MAX_CULPRITS).map(culprit).collect(),
            culprits_rest: EvictedDocument::new(sums.evicted()),
        }
    }
}

#[derive(Serialize)]
struct ComponentDocument {
    component: &'static str,
    #[serde(flatten)]
    sum: TimeSumDocument,
}

impl ComponentDocument {
    fn new(component: Component, sum: &TimeSum) -> Self {
        Self { component: component.name(), sum: TimeSumDocument::new(sum) }
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

/// A component and the task, interrupt, softirq or cgroup that caused it.
#[derive(Serialize)]
struct CulpritDocument {
    component: &'static str,
    #[serde(flatten)]
    actor: ActorDocument,
}

impl CulpritDocument {
    fn new(culprit: &Culprit, summary: &Summary) -> Self {
        Self { component: culprit.component.name(), actor: ActorDocument::new(&culprit.actor, summary) }
    }
}

/// The task, interrupt, softirq or cgroup of a culprit. Fields that do not apply are null.
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
    fn new(actor: &Actor, summary: &Summary) -> Self {
        let in_cgroup = |id: Option<u64>| Self {
            cgroup_id: id,
            cgroup: id.and_then(|id| summary.cgroups.get(&id).cloned()),
            container: ContainerDocument::of(id, summary),
            ..Self::default()
        };
        match actor {
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
            // The numbers of vectors are wakelat's own, so they are not written.
            InterruptSource::Vector(number) => ("vector", labels::vector_name(*number).map(str::to_owned), None),
            InterruptSource::Softirq(number) => ("softirq", Some(labels::softirq(*number).to_owned()), Some(*number)),
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
struct PreemptionPairDocument {
    from: String,
    to: String,
    count: u64,
}

impl PreemptionPairDocument {
    fn new(pair: &PreemptionPair) -> Self {
        Self { from: pair.from.to_string(), to: pair.to.to_string(), count: pair.count }
    }
}

/// The preemptions of the pairs that are not listed.
#[derive(Serialize)]
struct PreemptionsRestDocument {
    count: u64,
    error: u128,
}

impl PreemptionsRestDocument {
    fn new(summary: &Summary) -> Self {
        let listed: u64 = summary.preemption_pairs.iter().map(|pair| pair.count).sum();
        Self { count: summary.preemptions - listed, error: summary.preemption_pairs_evicted.error }
    }
}

#[derive(Serialize)]
struct TimelineDocument<'a> {
    events: u64,
    lost: u64,
    throttling_unknown: u64,
    not_collected: &'a [&'static str],
}
