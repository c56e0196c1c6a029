//! From events to breakdowns: when a wait ends, assigns each ns of it to a culprit. [`crate::timeline`] explains how.

mod division;

use self::division::{Division, ShareIndex};
use super::{
    breakdown::{Breakdown, Delivery},
    component::{Actor, Component, Culprit, UnknownReason},
    event::{DetailedWait, Event, EventKind, SwitchEvent},
    history::History,
    migrations::{PendingMigrations, RunqueueInterval},
    occupants::Occupants,
};
use crate::{hash::HashMap, report::LatencyFrom};

/// Most segments of all CPUs together; of more than 128 CPUs, as many as these have on average.
const SEGMENTS: usize = 1 << 19;
const SEGMENTS_PER_CPU: usize = 1 << 12;
/// Most segments of one CPU.
const MAX_CPU_SEGMENTS: usize = 1 << 16;

/// What happened on all CPUs, as far back as there is room: some 13 MB if all of it is in use.
#[derive(Debug, Default)]
pub struct Timeline {
    from: LatencyFrom,
    cpus: HashMap<u32, History>,
    occupants: Occupants,
    shares: ShareIndex,
    /// Number of segments of all CPUs.
    segments: usize,
    migrations: PendingMigrations,
    breakdown: Option<Breakdown>,
    runqueues: Vec<RunqueueInterval>,
    counts: EventCounts,
}

/// How many events arrived, and how many were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that arrived.
    pub events: u64,
    /// Events known to be lost.
    pub lost: u64,
}

impl Timeline {
    /// A timeline without events. `from` is where the latency of a wakeup begins.
    pub fn new(from: LatencyFrom) -> Self {
        Self { from, ..Self::default() }
    }

    /// Adds an event. If it ends a wait, returns the breakdown of that wait.
    pub fn push(&mut self, event: &Event) -> Option<&Breakdown> {
        let history = self.cpus.entry(event.cpu).or_default();
        let segments = history.segments();
        let at_ns = event.kind.at_ns();
        self.counts.events += 1;
        self.counts.lost += u64::from(history.follow(event, at_ns));
        let ends_wait = match &event.kind {
            EventKind::Switch(switch) => {
                history.switch(switch, &mut self.occupants);
                self.break_down(event.cpu, switch)
            }
            EventKind::Interrupt(interrupt) => {
                history.interrupt(interrupt, &mut self.occupants);
                false
            }
            EventKind::Migration(migration) => {
                self.migrations.push(migration);
                false
            }
            EventKind::Wakeup(_) | EventKind::WorkItem(_) | EventKind::ForkExec(_) | EventKind::Stack(_) => false,
        };
        // Only now: the wait that has just ended may reach back to the oldest segments.
        if let Some(history) = self.cpus.get_mut(&event.cpu) {
            history.shorten(MAX_CPU_SEGMENTS);
            self.segments = self.segments - segments + history.segments();
        }
        self.make_room();
        if self.occupants.has_many() {
            self.occupants.renumber(self.cpus.values_mut().flat_map(History::occupants_mut));
        }
        self.breakdown.as_ref().filter(|_| ends_wait)
    }

    /// Drops an eighth of the segments if there are too many: the oldest ones, so that the CPUs of a recording that has ended
    /// leave their room to the CPUs of the next one.
    fn make_room(&mut self) {
        if self.segments <= SEGMENTS.max(SEGMENTS_PER_CPU * self.cpus.len()) {
            return;
        }
        let mut ends_ns: Vec<u64> = self.cpus.values().flat_map(History::ends_ns).collect();
        let (.., last_ns, _) = ends_ns.select_nth_unstable(self.segments / 8);
        self.cpus.values_mut().for_each(|history| history.drop_until(*last_ns));
        self.segments = self.cpus.values().map(History::segments).sum();
    }

    /// How many events arrived and were lost so far.
    pub fn event_counts(&self) -> EventCounts {
        self.counts
    }

    /// Breaks down the wait that ends with a switch on `cpu`. Returns whether there is one.
    fn break_down(&mut self, cpu: u32, switch: &SwitchEvent) -> bool {
        let Some(waited) = switch.ended_wait else {
            self.migrations.forget(switch.next.tid);
            return false;
        };
        let breakdown = self.breakdown.get_or_insert_with(|| Breakdown::new(waited, switch.next));
        breakdown.reset(waited, switch.next);
        let mut division = Division::new(breakdown, &mut self.shares, &self.occupants);
        let begin_ns = before_runqueue(&mut division, &waited, self.from);
        let end_ns = waited.wait.at_ns;
        self.migrations.take(switch.next.tid, waited.cpu, cpu, begin_ns, end_ns, &mut self.runqueues);
        if let ([only], None, 1..) = (&mut self.runqueues[..], waited.cpu, waited.migrations) {
            // The task has migrated, and the record of that is lost.
            only.cpu = None;
        }
        // The run queue's clock does not count migrations.
        let migrations = u8::try_from(self.runqueues.len() - 1).unwrap_or(u8::MAX);
        division.breakdown.ended_wait.migrations = waited.migrations.max(migrations);
        // The kernel's own clocks come first; the CPU's switches and interrupts explain what they leave.
        let out_of_quota = waited.throttled_ns.unwrap_or(0).min(end_ns - begin_ns);
        let stolen = waited.stolen_ns.min(end_ns - begin_ns - out_of_quota);
        // The clocks report how long, not when. A group that runs out of quota while its task has the CPU does so
        // before the switch from it (`pick_next_task()`): such a wait begins out of quota, too.
        let at_start = waited.throttled_at_start;
        let (begin_ns, end_ns) = if at_start {
            throttled(&mut division, &waited, cpu, begin_ns, begin_ns + out_of_quota);
            (begin_ns + out_of_quota, end_ns)
        } else {
            (begin_ns, end_ns - out_of_quota)
        };
        for interval in &self.runqueues {
            let (from_ns, to_ns) = (interval.from_ns.max(begin_ns), interval.to_ns.min(end_ns - stolen));
            let history = self.cpus.get(&interval.cpu.unwrap_or(u32::MAX));
            on_runqueue(&mut division, history, interval.cpu, (from_ns, to_ns));
        }
        division.add_span(
            Culprit { component: Component::Stolen, actor: Actor::NoActor },
            Some(cpu),
            end_ns - stolen,
            end_ns,
        );
        if !at_start {
            throttled(&mut division, &waited, cpu, end_ns, end_ns + out_of_quota);
        }
        true
    }
}

/// Adds what precedes the run queue: delivery, if it is part of the latency, and latency that no clock can have seen.
/// Returns when the task was enqueued: ns of CLOCK_MONOTONIC.
fn before_runqueue(division: &mut Division<'_>, waited: &DetailedWait, from: LatencyFrom) -> u64 {
    let wait = &waited.wait;
    let mut begin_ns = division.breakdown.from_ns;
    // More than 0 only if the latency is longer than the clock has run.
    let impossible = wait.latency_ns - (wait.at_ns - begin_ns);
    division.add_undated(unknown(UnknownReason::Clock), impossible);
    if let Some(ns) = wait.delivery_ns {
        let component = if waited.remote { Component::Ipi } else { Component::Placement };
        let is_counted = from == LatencyFrom::Waking;
        division.breakdown.delivery = Some(Delivery { component, ns, is_counted });
        if is_counted {
            let to_ns = begin_ns.saturating_add(ns).min(wait.at_ns);
            division.add_span(Culprit { component, actor: Actor::NoActor }, None, begin_ns, to_ns);
            begin_ns = to_ns;
        }
    }
    begin_ns
}

fn throttled(division: &mut Division<'_>, waited: &DetailedWait, cpu: u32, from_ns: u64, to_ns: u64) {
    let who = Actor::Cgroup(waited.wait.cgroup_id);
    division.add_span(
        Culprit { component: Component::Throttled, actor: who },
        waited.cpu.or(Some(cpu)),
        from_ns,
        to_ns,
    );
}

/// Accounts for the time on one run queue.
fn on_runqueue(division: &mut Division<'_>, history: Option<&History>, cpu: Option<u32>, (from_ns, to_ns): (u64, u64)) {
    if from_ns >= to_ns {
        return;
    }
    let Some(history) = history else {
        let why = if cpu.is_some() { UnknownReason::BeforeStart } else { UnknownReason::UnknownCpu };
        division.add_span(unknown(why), cpu, from_ns, to_ns);
        return;
    };
    // By the run queue's clock, a wait begins when the kernel starts to look for the next task: some hundred ns before
    // the switch that ends the slice of the waiting task. The CPU was switching to the next task by then.
    let mut switching_from_ns = None;
    history.over(from_ns, to_ns, |from_ns, to_ns, held| match division.share_of_occupant(held) {
        Some(share) => division.add_span_to(share, cpu, switching_from_ns.take().unwrap_or(from_ns), to_ns),
        None => _ = switching_from_ns.get_or_insert(from_ns),
    });
    if let Some(from_ns) = switching_from_ns {
        division.add_span(unknown(UnknownReason::Unseen), cpu, from_ns, to_ns);
    }
}

fn unknown(why: UnknownReason) -> Culprit {
    Culprit { component: Component::Unexplained, actor: Actor::Unknown(why) }
}

#[cfg(test)]
mod history_limit_tests;
#[cfg(test)]
mod queue_clock_tests;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
