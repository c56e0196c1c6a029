//! The document of an event, field by field, as docs/output.md describes it.
//!
//! One set of fields for all kinds, so that a trace is one table.

use serde::Serialize;
use wakelat_common::start::PrevState;

use super::{RenderContext, clock};
use crate::{
    timeline::{
        event::{MigrationEvent, WakeupEvent},
        stay::{SchedLine as Event, Slice},
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

/// An event's fields, without nesting: also a row of CSV.
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
    leaving: Option<&'static str>,
    next_tid: Option<u32>,
    next_comm: Option<String>,
    waker_tid: Option<u32>,
    waker_comm: Option<String>,
    running: Option<bool>,
    from_cpu: Option<u32>,
    to_cpu: Option<u32>,
    waits: Option<bool>,
    came_tid: Option<u32>,
    events: Option<u32>,
}

impl EventDocument {
    /// The document of an event.
    pub fn new(event: &Event, context: &RenderContext) -> Self {
        Self { schema: "wakelat.event/1", fields: EventFields::new(event, context) }
    }
}

impl EventFields {
    /// The fields of an event.
    pub fn new(event: &Event, context: &RenderContext) -> Self {
        let at_ns = event.at_ns();
        let place = Self {
            at_ns,
            at_unix_ns: clock::unix_ns(at_ns, context.unix_offset_ns),
            cpu: event.cpu(),
            ..Self::default()
        };
        match event {
            Event::Slice(stay) => place.slice(stay, context),
            Event::Migration(moved) => place.migration(moved),
            Event::Wakeup(woken) => place.wakeup(woken, context),
            Event::Lost { events, .. } => Self { event: "lost", events: Some(*events), ..place },
            Event::Unseen { expected: came, switched_out: leaves, .. } => {
                Self { event: "unseen", tid: Some(*leaves), came_tid: Some(*came), ..place }
            }
        }
    }

    fn slice(self, stay: &Slice, context: &RenderContext) -> Self {
        let waker_tid = stay.wait.and_then(|wait| wait.waker_tid);
        Self {
            event: "switch",
            tid: Some(stay.task.tid),
            pid: Some(stay.task.pid),
            comm: Some(stay.task.comm.to_string()),
            cgroup_id: stay.task.cgroup_id,
            prio: Some(stay.task.prio),
            policy: Some(stay.task.policy),
            policy_name: Some(policy_name(stay.task.policy)),
            off_cpu_ns: stay.off_cpu_ns,
            class: stay.wait.map(|wait| wait.class.name()),
            latency_ns: stay.wait.map(|wait| wait.latency_ns),
            delivery_ns: stay.wait.and_then(|wait| wait.delivery_ns),
            run_ns: stay.run_ns,
            leaving: Some(match stay.prev_state {
                PrevState::Runnable | PrevState::PreemptedSleeping => "runnable",
                PrevState::Sleeping => "asleep",
                PrevState::Dead => "dead",
            }),
            next_tid: Some(stay.next.tid),
            next_comm: Some(stay.next.comm.to_string()),
            waker_tid,
            waker_comm: name(waker_tid, context),
            ..self
        }
    }

    fn migration(self, moved: &MigrationEvent) -> Self {
        Self {
            event: "migration",
            tid: Some(moved.tid),
            comm: Some(moved.comm.to_string()),
            from_cpu: Some(moved.from_cpu),
            to_cpu: Some(moved.to_cpu),
            waits: Some(moved.waiting),
            ..self
        }
    }

    fn wakeup(self, woken: &WakeupEvent, context: &RenderContext) -> Self {
        Self {
            event: if woken.new { "new" } else { "wakeup" },
            tid: Some(woken.tid),
            comm: Some(woken.comm.to_string()),
            waker_tid: Some(woken.waker_tid),
            waker_comm: name(Some(woken.waker_tid), context),
            running: Some(woken.running),
            ..self
        }
    }
}

fn name(tid: Option<u32>, context: &RenderContext) -> Option<String> {
    tid.and_then(context.name_of).map(|comm| comm.to_string())
}
