//! The JSON document of one of the longest waits.

use serde::Serialize;

use super::{
    container::ContainerDocument, culprit::CulpritDocument, stacks::StacksDocument, work_items::WorkItemDocument,
};
use crate::{
    files::{own_number, own_tid},
    render::timestamps,
    report::Report,
    timeline::{Breakdown, breakdown::Share},
    why::{Summary, worst::Exemplar},
};

/// A wait, with the shares of its latency.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ExemplarDocument<'a> {
    /// Why the task waited: `wakeup`, `new`, `preempted`.
    #[cfg_attr(test, schemars(extend("enum" = crate::render::schema_values::classes())))]
    class: &'static str,
    /// Thread that waited.
    tid: u32,
    /// Process of the thread.
    pid: u32,
    /// Name of the thread.
    comm: String,
    /// Path of its cgroup.
    cgroup: Option<String>,
    /// Container, as in `classes[].culprits[]`.
    container: Option<ContainerDocument>,
    /// Inode of the task's PID namespace, if `tid` and `pid` are numbers of another namespace; otherwise `null`,
    /// also if wakelat may not read it or the task had exited.
    pid_ns: Option<u64>,
    /// Thread id in that namespace; otherwise `null`.
    ns_tid: Option<u32>,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    prio: i32,
    /// CPU on which the task was switched in.
    cpu: u32,
    /// Thread that woke the task, 0 for idle; `null` except for a `wakeup`.
    waker_tid: Option<u32>,
    /// Name of the waker; `null` if unknown.
    waker_comm: Option<String>,
    /// When the task was switched in: ns of CLOCK_MONOTONIC, the clock of `perf record -k mono`.
    at_ns: u64,
    /// End of the wait.
    at_unix_ns: u64,
    /// Length of the wait.
    latency_ns: u64,
    /// Time from `sched_waking` to `sched_wakeup`; `null` except for a `wakeup` whose `sched_waking` was seen.
    delivery_ns: Option<u64>,
    /// How often the task moved to another CPU while it waited; 255 means 255 or more.
    migrations: u8,
    /// Where the time went, in order of time; the shares add up to `latency_ns`.
    shares: Vec<WaitShareDocument>,
    /// With `--stacks`: the waker's stack, and the stack at which the task had left its CPU (semantics.md); `null`
    /// without it.
    stacks: Option<StacksDocument<'a>>,
    /// Name of the recording, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

impl<'a> ExemplarDocument<'a> {
    pub(super) fn new(one: &'a Exemplar, summary: &Summary, report: &Report) -> Self {
        let breakdown: &Breakdown = &one.breakdown;
        let wait = &breakdown.ended_wait.wait;
        let spans = |index: usize| {
            let own = breakdown.spans.iter().filter(move |span| span.share == index);
            own.map(|span| WaitSpanDocument {
                cpu: span.cpu.map(own_number),
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
            tid: own_tid(wait.tid),
            pid: own_tid(wait.pid),
            comm: wait.comm.to_string(),
            cgroup: wait.cgroup_id.and_then(|id| summary.cgroups.get(&id).cloned()),
            container: ContainerDocument::of(wait.cgroup_id, summary),
            pid_ns: namespace.and_then(|namespace| namespace.pid_ns),
            ns_tid: namespace.map(|namespace| namespace.tid),
            prio: wait.prio,
            cpu: own_number(wait.cpu),
            waker_tid: wait.waker_tid.map(own_tid),
            waker_comm: wait.waker_tid.and_then(|tid| summary.wakers.get(&tid)).map(|comm| comm.to_string()),
            at_ns: wait.at_ns,
            at_unix_ns: timestamps::unix_ns(wait.at_ns, report.unix_offset_ns),
            latency_ns: breakdown.latency_ns,
            delivery_ns: breakdown.delivery.map(|delivery| delivery.ns),
            migrations: breakdown.ended_wait.migrations,
            shares: breakdown.shares.iter().enumerate().map(share).collect(),
            stacks: one.symbolized.as_ref().map(StacksDocument::new),
            file: summary.files.of_tid(wait.tid).map(str::to_owned),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitShareDocument {
    #[serde(flatten)]
    culprit: CulpritDocument,
    /// Length of the share.
    ns: u64,
    /// With `--collect workqueue`: as in `interferers[]`.
    work_items: Vec<WorkItemDocument>,
    /// When the share happened.
    spans: Vec<WaitSpanDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitSpanDocument {
    /// CPU on whose run queue the task was; `null` if it was on none, or if the CPU is unknown.
    cpu: Option<u32>,
    /// Start of the span, since the start of the wait.
    from_ns: u64,
    /// End of the span, since the start of the wait.
    to_ns: u64,
}
