//! `wakelat.why/1`, as docs/output.md describes it.

mod account;
mod findings;
mod place;
mod stacks;
mod storms;
mod wakings;
mod works;

use crate::aggregate::bounded::Rest;
use std::io::{self, Write};

use serde::Serialize;

use self::{
    account::AccountDocument,
    findings::FindingDocument,
    place::ContainerDocument,
    stacks::CountsDocument,
    storms::{ForksDocument, StormDocument},
    wakings::{RestDocument, WakingDocument},
    works::WorkDocument,
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
        chain::Chain,
        groups::Group,
        imposed::Antagonist,
        longest::Exemplar,
        sums::{PartSum, Sums},
    },
};

/// Culprits of a group that are written, the largest.
const CULPRITS: usize = 20;

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
    classes: Vec<GroupDocument<'a>>,
    groups: Vec<WithWorst<'a>>,
    groups_error_ns: u128,
    antagonists: Vec<AntagonistDocument>,
    antagonists_rest: NotToldDocument,
    works_rest: NotToldDocument,
    works_dropped: u64,
    preemptions: Vec<ChainDocument>,
    preemptions_rest: ChainsRestDocument,
    wakings: Vec<WakingDocument<'a>>,
    wakings_rest: RestDocument,
    worst: Vec<AccountDocument<'a>>,
    findings: Vec<FindingDocument>,
    findings_rest: NotToldDocument,
    storms: Vec<StormDocument>,
    storms_rest: NotToldDocument,
    storms_dropped: u64,
    forks: ForksDocument,
    timeline: TimelineDocument<'a>,
    stacks: Option<CountsDocument>,
    coverage: CoverageDocument,
    overhead: Option<OverheadDocument>,
}

impl<'a> WhyDocument<'a> {
    fn new(summary: &'a Summary, report: &'a Report) -> Self {
        let worst = |one: &'a Exemplar| AccountDocument::new(one, summary, report);
        let group = |group: &'a Group| GroupDocument::new(group, summary);
        let with_worst = |one: &'a Group| WithWorst {
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
            antagonists: summary.antagonists.iter().map(|one| AntagonistDocument::new(one, summary)).collect(),
            antagonists_rest: NotToldDocument::new(summary.antagonists_rest),
            works_rest: NotToldDocument::new(summary.works_rest),
            works_dropped: summary.works_dropped,
            preemptions: summary.chains.iter().map(ChainDocument::new).collect(),
            preemptions_rest: ChainsRestDocument::new(summary),
            wakings: summary.wakings.pairs.iter().map(WakingDocument::new).collect(),
            wakings_rest: RestDocument::new(&summary.wakings),
            worst: summary.worst.iter().map(worst).collect(),
            findings: summary.findings.iter().map(|one| FindingDocument::new(one, summary)).collect(),
            findings_rest: NotToldDocument::new(summary.findings_rest),
            storms: summary.storms.iter().map(StormDocument::new).collect(),
            storms_rest: NotToldDocument::new(summary.storms_rest),
            storms_dropped: summary.storms_dropped,
            forks: ForksDocument::new(&summary.forks),
            timeline: TimelineDocument {
                events: summary.told.events,
                lost: summary.told.lost,
                throttling_unknown: summary.throttling_unknown,
                not_told_apart: &summary.untold,
            },
            stacks: CountsDocument::of(summary),
            coverage: CoverageDocument::new(&report.coverage),
            overhead: report.overhead.as_ref().map(OverheadDocument::new),
        }
    }
}

#[derive(Serialize)]
struct GroupDocument<'a> {
    #[serde(serialize_with = "key")]
    key: &'a [KeyPart],
    class: &'static str,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
    moved: u64,
    before: Vec<PartDocument>,
    parts: Vec<PartDocument>,
    culprits: Vec<CulpritSumDocument>,
    culprits_rest: NotToldDocument,
}

/// A group and its longest waits.
#[derive(Serialize)]
struct WithWorst<'a> {
    #[serde(flatten)]
    group: GroupDocument<'a>,
    worst: Vec<AccountDocument<'a>>,
    worst_given_up: u64,
}

/// Those that are not told apart for want of room.
#[derive(Serialize)]
struct NotToldDocument {
    sum_ns: u128,
    count: u64,
    error_ns: u128,
}

impl NotToldDocument {
    fn new(rest: Rest) -> Self {
        Self { sum_ns: rest.sum, count: rest.count, error_ns: rest.error }
    }
}

impl<'a> GroupDocument<'a> {
    fn new(group: &'a Group, summary: &Summary) -> Self {
        let sums: &Sums = &group.sums;
        let before =
            [Component::Placement, Component::Ipi].into_iter().zip(&sums.before).filter(|(_, sum)| sum.waits > 0);
        let culprit = |one: crate::why::sums::CulpritSum| CulpritSumDocument {
            culprit: CulpritDocument::new(&one.culprit, summary),
            sum: SumDocument::new(&one.sum),
        };
        Self {
            key: &group.key,
            class: group.class.name(),
            count: sums.waits,
            sum_ns: sums.ns,
            max_ns: sums.max_ns,
            moved: sums.moved,
            before: before.map(|(part, sum)| PartDocument::new(part, sum)).collect(),
            parts: sums.parts().iter().map(|(part, sum)| PartDocument::new(*part, sum)).collect(),
            culprits: sums.culprits().into_iter().take(CULPRITS).map(culprit).collect(),
            culprits_rest: NotToldDocument::new(sums.rest()),
        }
    }
}

#[derive(Serialize)]
struct PartDocument {
    part: &'static str,
    #[serde(flatten)]
    sum: SumDocument,
}

impl PartDocument {
    fn new(part: Component, sum: &PartSum) -> Self {
        Self { part: part.name(), sum: SumDocument::new(sum) }
    }
}

#[derive(Serialize)]
struct SumDocument {
    sum_ns: u128,
    max_ns: u64,
    waits: u64,
}

impl SumDocument {
    fn new(sum: &PartSum) -> Self {
        Self { sum_ns: sum.ns, max_ns: sum.max_ns, waits: sum.waits }
    }
}

#[derive(Serialize)]
struct CulpritSumDocument {
    #[serde(flatten)]
    culprit: CulpritDocument,
    #[serde(flatten)]
    sum: SumDocument,
}

/// A part and who had it.
#[derive(Serialize)]
struct CulpritDocument {
    part: &'static str,
    #[serde(flatten)]
    who: WhoDocument,
}

impl CulpritDocument {
    fn new(culprit: &Culprit, summary: &Summary) -> Self {
        Self { part: culprit.component.name(), who: WhoDocument::new(&culprit.actor, summary) }
    }
}

/// Who; what does not apply is null.
#[derive(Default, Serialize)]
struct WhoDocument {
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

impl WhoDocument {
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
struct AntagonistDocument {
    #[serde(flatten)]
    who: WhoDocument,
    #[serde(flatten)]
    sum: SumDocument,
    victims: usize,
    more_victims: bool,
    works: Vec<WorkDocument>,
}

impl AntagonistDocument {
    fn new(one: &Antagonist, summary: &Summary) -> Self {
        Self {
            who: WhoDocument::new(&one.who, summary),
            sum: SumDocument::new(&one.sum),
            victims: one.victims(),
            more_victims: one.may_have_more(),
            works: WorkDocument::of_antagonist(&one.who, summary),
        }
    }
}

#[derive(Serialize)]
struct ChainDocument {
    from: String,
    to: String,
    count: u64,
}

impl ChainDocument {
    fn new(chain: &Chain) -> Self {
        Self { from: chain.from.to_string(), to: chain.to.to_string(), count: chain.count }
    }
}

/// The preemptions of pairs that are not listed.
#[derive(Serialize)]
struct ChainsRestDocument {
    count: u64,
    error: u128,
}

impl ChainsRestDocument {
    fn new(summary: &Summary) -> Self {
        let listed: u64 = summary.chains.iter().map(|chain| chain.count).sum();
        Self { count: summary.preemptions - listed, error: summary.chains_rest.error }
    }
}

#[derive(Serialize)]
struct TimelineDocument<'a> {
    events: u64,
    lost: u64,
    throttling_unknown: u64,
    not_told_apart: &'a [&'static str],
}
