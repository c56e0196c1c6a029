//! The JSON document of one of the longest waits.

use serde::Serialize;

use super::{CulpritDocument, container::ContainerDocument, stacks::StacksDocument, work_items::WorkItemDocument};
use crate::{
    render::clock,
    report::Report,
    timeline::{Breakdown, breakdown::Share},
    why::{Summary, longest::Exemplar},
};

/// A wait, with the shares of its latency.
#[derive(Serialize)]
pub(super) struct ExemplarDocument<'a> {
    class: &'static str,
    tid: u32,
    pid: u32,
    comm: String,
    cgroup: Option<String>,
    container: Option<ContainerDocument>,
    pid_ns: Option<u64>,
    ns_tid: Option<u32>,
    prio: i32,
    cpu: u32,
    waker_tid: Option<u32>,
    waker_comm: Option<String>,
    at_ns: u64,
    at_unix_ns: u64,
    latency_ns: u64,
    delivery_ns: Option<u64>,
    migrations: u8,
    shares: Vec<WaitShareDocument>,
    stacks: Option<StacksDocument<'a>>,
}

impl<'a> ExemplarDocument<'a> {
    pub(super) fn new(one: &'a Exemplar, summary: &Summary, report: &Report) -> Self {
        let breakdown: &Breakdown = &one.breakdown;
        let wait = &breakdown.ended_wait.wait;
        let spans = |index: usize| {
            let own = breakdown.spans.iter().filter(move |span| span.share == index);
            own.map(|span| WaitSpanDocument {
                cpu: span.cpu,
                from_ns: span.from_ns - breakdown.from_ns,
                to_ns: span.to_ns - breakdown.from_ns,
            })
        };
        let share = |(index, share): (usize, &Share)| WaitShareDocument {
            culprit: CulpritDocument::new(&share.culprit, summary),
            ns: share.ns,
            work_items: WorkItemDocument::of_share(breakdown, index, summary),
            spans: spans(index).collect(),
        };
        let namespace = summary.namespaces.get(&wait.tid);
        Self {
            class: wait.class.name(),
            tid: wait.tid,
            pid: wait.pid,
            comm: wait.comm.to_string(),
            cgroup: wait.cgroup_id.and_then(|id| summary.cgroups.get(&id).cloned()),
            container: ContainerDocument::of(wait.cgroup_id, summary),
            pid_ns: namespace.and_then(|namespace| namespace.pid_ns),
            ns_tid: namespace.map(|namespace| namespace.tid),
            prio: wait.prio,
            cpu: wait.cpu,
            waker_tid: wait.waker_tid,
            waker_comm: wait.waker_tid.and_then(|tid| summary.wakers.get(&tid)).map(|comm| comm.to_string()),
            at_ns: wait.at_ns,
            at_unix_ns: clock::unix_ns(wait.at_ns, report.unix_offset_ns),
            latency_ns: breakdown.latency_ns,
            delivery_ns: breakdown.delivery.map(|delivery| delivery.ns),
            migrations: breakdown.ended_wait.migrations,
            shares: breakdown.shares.iter().enumerate().map(share).collect(),
            stacks: one.symbolized.as_ref().map(StacksDocument::new),
        }
    }
}

#[derive(Serialize)]
struct WaitShareDocument {
    #[serde(flatten)]
    culprit: CulpritDocument,
    ns: u64,
    work_items: Vec<WorkItemDocument>,
    spans: Vec<WaitSpanDocument>,
}

#[derive(Serialize)]
struct WaitSpanDocument {
    cpu: Option<u32>,
    from_ns: u64,
    to_ns: u64,
}
