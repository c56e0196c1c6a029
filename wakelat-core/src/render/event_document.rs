//! The JSON document of a scheduling event.
//!
//! All kinds of events have the same fields, so that a trace is a single table.

use serde::Serialize;
use wakelat_common::pending_wait::PrevState;

use super::{RenderContext, timestamps};
use crate::{
    files::{own_cgroup, own_number, own_tid},
    timeline::{
        event::{MigrationEvent, WakeupEvent},
        timehist::{SchedLine as Event, Slice},
    },
    wait::policy_name,
};

/// `wakelat.event/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventDocument {
    /// `wakelat.event/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.event/1")))]
    schema: &'static str,
    #[serde(flatten)]
    fields: EventFields,
}

/// The fields of a scheduling event, without nesting, so that they also make a row of CSV.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventFields {
    /// What happened.
    event: EventName,
    /// Time of the event: ns of CLOCK_MONOTONIC, the clock of `perf record -k mono`. For `lost`, the time of the
    /// next event.
    at_ns: u64,
    /// The same instant since 1970.
    at_unix_ns: u64,
    /// CPU of the event; for a migration the CPU that the task leaves, for a wakeup the CPU on whose run queue it
    /// is put.
    cpu: u32,
    /// Thread that the event is about, 0 for the idle task; `null` for `lost`.
    tid: Option<u32>,
    /// Process of the thread. This field and those down to `next_comm` apply to `switch` only, except `comm`.
    pid: Option<u32>,
    /// Name of the thread; also for a migration and a wakeup.
    comm: Option<String>,
    /// Cgroup of the thread, as in a wait.
    cgroup_id: Option<u64>,
    /// Kernel priority when the thread left.
    prio: Option<i32>,
    /// Scheduling policy: the `SCHED_*` number.
    policy: Option<u32>,
    /// Name of the policy.
    #[cfg_attr(test, schemars(extend("enum" = json_schemas::or_null(super::schema_values::policies()))))]
    policy_name: Option<&'static str>,
    /// Time from the thread's previous switch-out to its switch-in on this CPU; `null` if the switch-out was not
    /// seen.
    off_cpu_ns: Option<u64>,
    /// Class of the wait that its switch-in ended, as in a wait; `null` if there was no wait, or it was not seen.
    #[cfg_attr(test, schemars(extend("enum" = json_schemas::or_null(super::schema_values::classes()))))]
    class: Option<&'static str>,
    /// Length of that wait: the last part of `off_cpu_ns`.
    latency_ns: Option<u64>,
    /// Time from `sched_waking` to `sched_wakeup`, as in a wait.
    delivery_ns: Option<u64>,
    /// Length of the slice that ends here; `null` if the switch-in was not seen.
    run_ns: Option<u64>,
    /// State in which the thread leaves: `sleeping`, `runnable` (it waits again), `dead`.
    prev_state: Option<PrevStateName>,
    /// Thread that is switched in next.
    next_tid: Option<u32>,
    /// Name of that thread.
    next_comm: Option<String>,
    /// For a switch, the thread that had woken this one; for a wakeup, the thread on the CPU that carried it out, 0
    /// for idle.
    waker_tid: Option<u32>,
    /// Name of that thread; `null` if unknown.
    waker_comm: Option<String>,
    /// For a wakeup: whether the task was on a CPU, so that no wait begins.
    running: Option<bool>,
    /// For a migration: CPU that the task leaves.
    from_cpu: Option<u32>,
    /// For a migration: CPU to which the task goes.
    to_cpu: Option<u32>,
    /// For a migration: whether the task is waiting for a CPU.
    waits: Option<bool>,
    /// For `unseen`: thread that was last switched in on this CPU.
    switched_in_tid: Option<u32>,
    /// For `lost`: number of lost events.
    events: Option<u32>,
    /// Name of the recording, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// What happened.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum EventName {
    /// A task left its CPU.
    #[default]
    Switch,
    /// A task moved to another CPU (with `--migrations`).
    Migration,
    /// A task was woken (with `--wakeups`).
    Wakeup,
    /// A task was created (with `--wakeups`).
    New,
    /// The ring buffer had no room for events of this CPU.
    Lost,
    /// The task that leaves is not the one that was switched in, or has been away since, and no tracepoint showed it.
    Unseen,
}

/// The state in which a thread leaves its CPU.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum PrevStateName {
    /// It sleeps.
    Sleeping,
    /// It waits again.
    Runnable,
    /// It has exited.
    Dead,
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
            at_unix_ns: timestamps::unix_ns(at_ns, context.unix_offset_ns),
            cpu: own_number(event.cpu()),
            file: context.names.files().of_cpu(event.cpu()).map(str::to_owned),
            ..Self::default()
        };
        match event {
            Event::Slice(slice) => common.slice(slice, context),
            Event::Migration(migration) => common.migration(migration),
            Event::Wakeup(wakeup) => common.wakeup(wakeup, context),
            Event::Lost { events, .. } => Self { event: EventName::Lost, events: Some(*events), ..common },
            Event::Unseen { expected, switched_out, .. } => Self {
                event: EventName::Unseen,
                tid: Some(own_tid(*switched_out)),
                switched_in_tid: Some(own_tid(*expected)),
                ..common
            },
        }
    }

    fn slice(self, slice: &Slice, context: &RenderContext) -> Self {
        let waker_tid = slice.wait.and_then(|wait| wait.waker_tid);
        Self {
            event: EventName::Switch,
            tid: Some(own_tid(slice.task.tid)),
            pid: Some(own_tid(slice.task.pid)),
            comm: Some(slice.task.comm.to_string()),
            cgroup_id: slice.task.cgroup_id.map(own_cgroup),
            prio: Some(slice.task.prio),
            policy: Some(slice.task.policy),
            policy_name: Some(policy_name(slice.task.policy)),
            off_cpu_ns: slice.off_cpu_ns,
            class: slice.wait.map(|wait| wait.class.name()),
            latency_ns: slice.wait.map(|wait| wait.latency_ns),
            delivery_ns: slice.wait.and_then(|wait| wait.delivery_ns),
            run_ns: slice.run_ns,
            prev_state: Some(match slice.prev_state {
                PrevState::Runnable | PrevState::PreemptedSleeping => PrevStateName::Runnable,
                PrevState::Sleeping => PrevStateName::Sleeping,
                PrevState::Dead => PrevStateName::Dead,
            }),
            next_tid: Some(own_tid(slice.next.tid)),
            next_comm: Some(slice.next.comm.to_string()),
            waker_tid: waker_tid.map(own_tid),
            waker_comm: name(waker_tid, context),
            ..self
        }
    }

    fn migration(self, migration: &MigrationEvent) -> Self {
        Self {
            event: EventName::Migration,
            tid: Some(own_tid(migration.tid)),
            comm: Some(migration.comm.to_string()),
            from_cpu: Some(own_number(migration.from_cpu)),
            to_cpu: Some(own_number(migration.to_cpu)),
            waits: Some(migration.waiting),
            ..self
        }
    }

    fn wakeup(self, wakeup: &WakeupEvent, context: &RenderContext) -> Self {
        Self {
            event: if wakeup.new { EventName::New } else { EventName::Wakeup },
            tid: Some(own_tid(wakeup.tid)),
            comm: Some(wakeup.comm.to_string()),
            waker_tid: Some(own_tid(wakeup.waker_tid)),
            waker_comm: name(Some(wakeup.waker_tid), context),
            running: Some(wakeup.running),
            ..self
        }
    }
}

fn name(tid: Option<u32>, context: &RenderContext) -> Option<String> {
    tid.and_then(|tid| context.names.comm(tid)).map(|comm| comm.to_string())
}
