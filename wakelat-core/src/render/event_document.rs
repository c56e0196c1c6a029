//! The JSON document of a scheduling event, field by field, as described in docs/output.md.
//!
//! All kinds of events have the same fields, so that a trace is a single table.

use serde::Serialize;

use super::{RenderContext, clock, labels};
use crate::{
    timeline::{
        event::{MigrationEvent, WakeupEvent},
        slice::{SchedLine as Event, Slice},
    },
    wait::policy_name,
};

/// `wakelat.event/1`.
#[derive(Serialize)]
pub struct EventDocument {
    schema: &'static str,
    #[serde(flatten)]
    fields: EventFields,
}

/// The fields of a scheduling event, without nesting, so that they also make a row of CSV.
#[derive(Default, Serialize)]
pub struct EventFields {
    event: &'static str,
    at_ns: u64,
    at_unix_ns: u64,
    cpu: u32,
    tid: Option<u32>,
    pid: Option<u32>,
    comm: Option<String>,
    cgroup_id: Option<u64>,
    prio: Option<i32>,
    policy: Option<u32>,
    policy_name: Option<&'static str>,
    off_cpu_ns: Option<u64>,
    class: Option<&'static str>,
    latency_ns: Option<u64>,
    delivery_ns: Option<u64>,
    run_ns: Option<u64>,
    prev_state: Option<&'static str>,
    next_tid: Option<u32>,
    next_comm: Option<String>,
    waker_tid: Option<u32>,
    waker_comm: Option<String>,
    running: Option<bool>,
    from_cpu: Option<u32>,
    to_cpu: Option<u32>,
    waits: Option<bool>,
    switched_in_tid: Option<u32>,
    events: Option<u32>,
}

impl EventDocument {
    /// The document of a scheduling event.
    pub fn new(event: &Event, context: &RenderContext) -> Self {
        Self { schema: "wakelat.event/1", fields: EventFields::new(event, context) }
    }
}

impl EventFields {
    /// The fields of a scheduling event.
    pub fn new(event: &Event, context: &RenderContext) -> Self {
        let at_ns = event.at_ns();
        let common = Self {
            at_ns,
            at_unix_ns: clock::unix_ns(at_ns, context.unix_offset_ns),
            cpu: event.cpu(),
            ..Self::default()
        };
        match event {
            Event::Slice(slice) => common.slice(slice, context),
            Event::Migration(migration) => common.migration(migration),
            Event::Wakeup(wakeup) => common.wakeup(wakeup, context),
            Event::Lost { events, .. } => Self { event: "lost", events: Some(*events), ..common },
            Event::Unseen { expected, switched_out, .. } => {
                Self { event: "unseen", tid: Some(*switched_out), switched_in_tid: Some(*expected), ..common }
            }
        }
    }

    fn slice(self, slice: &Slice, context: &RenderContext) -> Self {
        let waker_tid = slice.wait.and_then(|wait| wait.waker_tid);
        Self {
            event: "switch",
            tid: Some(slice.task.tid),
            pid: Some(slice.task.pid),
            comm: Some(slice.task.comm.to_string()),
            cgroup_id: slice.task.cgroup_id,
            prio: Some(slice.task.prio),
            policy: Some(slice.task.policy),
            policy_name: Some(policy_name(slice.task.policy)),
            off_cpu_ns: slice.off_cpu_ns,
            class: slice.wait.map(|wait| wait.class.name()),
            latency_ns: slice.wait.map(|wait| wait.latency_ns),
            delivery_ns: slice.wait.and_then(|wait| wait.delivery_ns),
            run_ns: slice.run_ns,
            prev_state: Some(labels::prev_state(slice.prev_state)),
            next_tid: Some(slice.next.tid),
            next_comm: Some(slice.next.comm.to_string()),
            waker_tid,
            waker_comm: name(waker_tid, context),
            ..self
        }
    }

    fn migration(self, migration: &MigrationEvent) -> Self {
        Self {
            event: "migration",
            tid: Some(migration.tid),
            comm: Some(migration.comm.to_string()),
            from_cpu: Some(migration.from_cpu),
            to_cpu: Some(migration.to_cpu),
            waits: Some(migration.waiting),
            ..self
        }
    }

    fn wakeup(self, wakeup: &WakeupEvent, context: &RenderContext) -> Self {
        Self {
            event: if wakeup.new { "new" } else { "wakeup" },
            tid: Some(wakeup.tid),
            comm: Some(wakeup.comm.to_string()),
            waker_tid: Some(wakeup.waker_tid),
            waker_comm: name(Some(wakeup.waker_tid), context),
            running: Some(wakeup.running),
            ..self
        }
    }
}

fn name(tid: Option<u32>, context: &RenderContext) -> Option<String> {
    tid.and_then(context.name_of).map(|comm| comm.to_string())
}
