//! The JSON document of a wait.

use serde::{Serialize, Serializer};

use super::{RenderContext, timestamps};
use crate::{
    files::{own_cgroup, own_number, own_tid},
    timeline::{Breakdown, component::Component},
    wait::{Wait, policy_name},
};

/// `wakelat.wait/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitDocument {
    /// `wakelat.wait/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.wait/1")))]
    schema: &'static str,
    #[serde(flatten)]
    fields: WaitFields,
    /// With `--breakdown`: the time in each component, including those with no time: ns. They add up to
    /// `latency_ns`; with `--from wakeup`, they do not include wake delivery.
    #[serde(serialize_with = "components", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(schema_with = "super::schema_values::components"))]
    components: Option<[u64; Component::ALL.len()]>,
}

/// The fields of a wait, without nesting, so that they also make a row of CSV.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitFields {
    /// When the task was switched in: ns of CLOCK_MONOTONIC, the clock of `perf record -k mono`.
    at_ns: u64,
    /// The same instant since 1970.
    at_unix_ns: u64,
    /// Why the task waited: `wakeup`, `new`, `preempted`.
    #[cfg_attr(test, schemars(extend("enum" = super::schema_values::classes())))]
    class: &'static str,
    /// Time on a run queue without a CPU.
    latency_ns: u64,
    /// Time from `sched_waking` to `sched_wakeup`; `null` except for a `wakeup` whose `sched_waking` was seen.
    delivery_ns: Option<u64>,
    /// Thread that waited.
    tid: u32,
    /// Process of the thread.
    pid: u32,
    /// Name of the thread.
    comm: String,
    /// Cgroup in the v2 hierarchy: the inode number of its directory; `null` unless requested.
    cgroup_id: Option<u64>,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    prio: i32,
    /// Scheduling policy: the `SCHED_*` number.
    policy: u32,
    /// Name of the policy: `other`, `fifo`, `rr`, `batch`, `idle`, `deadline`, `ext`; `unknown` for any other
    /// number.
    #[cfg_attr(test, schemars(extend("enum" = super::schema_values::policies())))]
    policy_name: &'static str,
    /// CPU on which the task was switched in.
    cpu: u32,
    /// CPU on which the task had run before; `null` if unknown.
    prev_cpu: Option<u32>,
    /// Thread that woke the task, 0 for idle; `null` except for a `wakeup`.
    waker_tid: Option<u32>,
    /// Name of the waker; `null` if unknown.
    waker_comm: Option<String>,
    /// Thread that ran on the CPU until then, 0 for idle.
    prev_tid: u32,
    /// Name of that thread.
    prev_comm: String,
    /// Kernel priority of that thread.
    prev_prio: i32,
    /// Name of the recording, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// The time in each component of a wait, in the order of [`Component::ALL`]: ns.
pub fn component_fields(breakdown: &Breakdown) -> [u64; Component::ALL.len()] {
    let mut fields = [0; Component::ALL.len()];
    breakdown.components().for_each(|(component, ns)| fields[component as usize] = ns);
    fields
}

/// Serializes the components under their names.
fn components<S: Serializer>(
    components: &Option<[u64; Component::ALL.len()]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Component::ALL.into_iter().map(Component::name).zip(components.unwrap_or_default()))
}

impl WaitDocument {
    /// The document of a wait.
    pub fn new(wait: &Wait, context: &RenderContext) -> Self {
        Self { schema: "wakelat.wait/1", fields: WaitFields::new(wait, context), components: None }
    }

    /// The document of a wait with the components of its latency.
    pub fn with_breakdown(breakdown: &Breakdown, context: &RenderContext) -> Self {
        Self { components: Some(component_fields(breakdown)), ..Self::new(&breakdown.ended_wait.wait, context) }
    }
}

impl WaitFields {
    /// The fields of a wait.
    pub fn new(wait: &Wait, context: &RenderContext) -> Self {
        Self {
            at_ns: wait.at_ns,
            at_unix_ns: timestamps::unix_ns(wait.at_ns, context.unix_offset_ns),
            class: wait.class.name(),
            latency_ns: wait.latency_ns,
            delivery_ns: wait.delivery_ns,
            tid: own_tid(wait.tid),
            pid: own_tid(wait.pid),
            comm: wait.comm.to_string(),
            cgroup_id: wait.cgroup_id.map(own_cgroup),
            prio: wait.prio,
            policy: wait.policy,
            policy_name: policy_name(wait.policy),
            cpu: own_number(wait.cpu),
            prev_cpu: wait.prev_cpu.map(own_number),
            waker_tid: wait.waker_tid.map(own_tid),
            waker_comm: wait.waker_tid.and_then(|tid| context.names.comm(tid)).map(|comm| comm.to_string()),
            prev_tid: own_tid(wait.prev_tid),
            prev_comm: wait.prev_comm.to_string(),
            prev_prio: wait.prev_prio,
            file: context.names.files().of_cpu(wait.cpu).map(str::to_owned),
        }
    }
}
