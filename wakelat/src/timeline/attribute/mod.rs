//! Events to accounts: when a wait ends, whose its time was.

use super::{
    account::{Breakdown, Delivery},
    event::{DetailedWait, Event, EventKind, SwitchEvent},
    history::{CpuOccupant, History},
    moves::{PendingMigrations, RunqueueInterval},
    part::{Actor, Component, Culprit, UnknownReason, is_real_time, relative_priority},
};
use crate::{hash::HashMap, report::LatencyFrom};

/// Segments that are remembered of all CPUs together, and of each at most and at least.
const SEGMENTS: usize = 1 << 19;
const MAX_CPU_SEGMENTS: usize = 1 << 16;
const MIN_CPU_SEGMENTS: usize = 1 << 12;

/// What happened on all CPUs, as far back as there is room: some 40 MB where everything is in use.
#[derive(Debug, Default)]
pub struct Timeline {
    from: LatencyFrom,
    cpus: HashMap<u32, History>,
    migrations: PendingMigrations,
    breakdown: Option<Breakdown>,
    runqueues: Vec<RunqueueInterval>,
    counts: EventCounts,
}

/// What came, and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that came.
    pub events: u64,
    /// Events that are known to have been lost.
    pub lost: u64,
}

impl Timeline {
    /// Nothing known yet. `from` is where the latency of a wakeup begins.
    pub fn new(from: LatencyFrom) -> Self {
        Self { from, ..Self::default() }
    }

    /// Takes an event. Where a wait ends with it, says where its time went.
    pub fn push(&mut self, event: &Event) -> Option<&Breakdown> {
        let limit = (SEGMENTS / self.cpus.len().max(1)).clamp(MIN_CPU_SEGMENTS, MAX_CPU_SEGMENTS);
        let history = self.cpus.entry(event.cpu).or_default();
        let at_ns = event.kind.at_ns();
        self.counts.events += 1;
        self.counts.lost += u64::from(history.follow(event, at_ns));
        let account = match &event.kind {
            EventKind::Switch(turn) => {
                history.switch(turn);
                self.break_down(event.cpu, turn)
            }
            EventKind::Interrupt(noise) => {
                history.interrupt(noise);
                false
            }
            EventKind::Migration(moved) => {
                self.migrations.push(moved);
                false
            }
            EventKind::Wakeup(_) | EventKind::WorkItem(_) | EventKind::ForkExec(_) | EventKind::Stack(_) => false,
        };
        // Not before: what has just ended may reach back as far.
        if let Some(history) = self.cpus.get_mut(&event.cpu) {
            history.shorten(limit);
        }
        self.breakdown.as_ref().filter(|_| account)
    }

    /// What came so far.
    pub fn event_counts(&self) -> EventCounts {
        self.counts
    }

    /// Accounts for the wait that ends with a switch, if one does.
    fn break_down(&mut self, cpu: u32, turn: &SwitchEvent) -> bool {
        let Some(waited) = turn.ended_wait else {
            self.migrations.forget(turn.next.tid);
            return false;
        };
        let account = self.breakdown.get_or_insert_with(|| Breakdown::new(waited, turn.next));
        account.reset(waited, turn.next);
        let begin_ns = before_runqueue(account, &waited, self.from);
        let end_ns = waited.wait.at_ns;
        self.migrations.take(turn.next.tid, waited.cpu, cpu, begin_ns, end_ns, &mut self.runqueues);
        // What the kernel has clocks for goes first; the others share what is left.
        let out_of_quota = waited.throttled_ns.unwrap_or(0).min(end_ns - begin_ns);
        let stolen = waited.stolen_ns.min(end_ns - begin_ns - out_of_quota);
        // A group that runs out of quota while its task has the CPU does so before the switch from it (`pick_next_task()`): then
        // the wait begins out of quota too.
        let at_start = waited.throttled_at_start;
        let (begin_ns, end_ns) = if at_start {
            throttled(account, &waited, cpu, begin_ns, begin_ns + out_of_quota);
            (begin_ns + out_of_quota, end_ns)
        } else {
            (begin_ns, end_ns - out_of_quota)
        };
        for stand in &self.runqueues {
            let (from_ns, to_ns) = (stand.from_ns.max(begin_ns), stand.to_ns.min(end_ns - stolen));
            on_runqueue(account, self.cpus.get(&stand.cpu.unwrap_or(u32::MAX)), stand.cpu, from_ns, to_ns);
        }
        account.add_span(
            Culprit { component: Component::Stolen, actor: Actor::NoActor },
            Some(cpu),
            end_ns - stolen,
            end_ns,
        );
        if !at_start {
            throttled(account, &waited, cpu, end_ns, end_ns + out_of_quota);
        }
        true
    }
}

/// Accounts for what comes before the run queue: delivery, where it counts, and what no clock can have seen. Returns when
/// the task was put on a run queue.
fn before_runqueue(account: &mut Breakdown, waited: &DetailedWait, from: LatencyFrom) -> u64 {
    let wait = &waited.wait;
    let mut begin_ns = account.from_ns;
    // Where the latency is longer than the clock has run.
    let impossible = wait.latency_ns - (wait.at_ns - begin_ns);
    account.add_undated(unknown(UnknownReason::Clock), impossible);
    if let Some(ns) = wait.delivery_ns {
        let part = if waited.remote { Component::Ipi } else { Component::Placement };
        let is_counted = from == LatencyFrom::Waking;
        account.delivery = Some(Delivery { component: part, ns, is_counted });
        if is_counted {
            let to_ns = begin_ns.saturating_add(ns).min(wait.at_ns);
            account.add_span(Culprit { component: part, actor: Actor::NoActor }, None, begin_ns, to_ns);
            begin_ns = to_ns;
        }
    }
    begin_ns
}

fn throttled(account: &mut Breakdown, waited: &DetailedWait, cpu: u32, from_ns: u64, to_ns: u64) {
    let who = Actor::Cgroup(waited.wait.cgroup_id);
    account.add_span(Culprit { component: Component::Throttled, actor: who }, waited.cpu.or(Some(cpu)), from_ns, to_ns);
}

/// Accounts for the time on one run queue.
fn on_runqueue(account: &mut Breakdown, history: Option<&History>, cpu: Option<u32>, from_ns: u64, to_ns: u64) {
    if from_ns >= to_ns {
        return;
    }
    let Some(history) = history else {
        let why = if cpu.is_some() { UnknownReason::BeforeStart } else { UnknownReason::UnknownCpu };
        account.add_span(unknown(why), cpu, from_ns, to_ns);
        return;
    };
    let waiter = (account.waiter.prio, account.waiter.policy);
    history.over(from_ns, to_ns, |from_ns, to_ns, held| {
        account.add_span(culprit(waiter, held), cpu, from_ns, to_ns);
    });
}

/// What a time was to a task that waited, given its priority and policy.
fn culprit(waiter: (i32, u32), held: CpuOccupant) -> Culprit {
    use super::event::InterruptSource;
    let (part, who) = match held {
        CpuOccupant::Task(task, _) => (relative_priority(waiter, &task), Actor::Task(task)),
        CpuOccupant::Idle(state, _) => (Component::Idle, Actor::Idle(state)),
        CpuOccupant::Interrupt(source @ InterruptSource::Softirq(_)) => (Component::Softirq, Actor::Interrupt(source)),
        CpuOccupant::Interrupt(source) => (Component::Irq, Actor::Interrupt(source)),
        CpuOccupant::NextSwitch => (Component::Unexplained, Actor::Unknown(UnknownReason::BeforeStart)),
        CpuOccupant::Unknown(why) => (Component::Unexplained, Actor::Unknown(why)),
    };
    // Where anybody of a lower class has the CPU because real-time tasks must not.
    let kept_out = held.is_rt_throttled() && is_real_time(waiter.0, waiter.1);
    let part =
        if kept_out && matches!(part, Component::Lower | Component::Idle) { Component::RtThrottled } else { part };
    Culprit { component: part, actor: who }
}

fn unknown(why: UnknownReason) -> Culprit {
    Culprit { component: Component::Unexplained, actor: Actor::Unknown(why) }
}

#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
