//! Random schedules of several CPUs, for which the owner of each ns is known: breakdowns agree with them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wakelat_common::{Class, pending_wait::PrevState};

use super::super::{
    component::CulpritKey,
    event::{Event, InterruptSource, TaskInfo, Unseen},
    testing::{EventStream, detailed_wait, idle, irq, task},
};
use super::*;

const CPUS: u32 = 3;
const TASKS: u32 = 7;

/// The share of each culprit in a wait: ns.
type Shares = BTreeMap<CulpritKey, u64>;

/// A pending wait.
#[derive(Clone, Debug)]
struct Waiting {
    class: Class,
    from_ns: u64,
    first: u32,
    cpu: u32,
    migrations: u8,
    shares: Shares,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    runs: u32,
    since_ns: u64,
    /// The nested interrupts that run, the innermost last: when each began, and its source.
    interrupts: Vec<(u64, InterruptSource)>,
    /// Switches since the last one that was seen.
    unseen: u32,
}

/// A random step of a schedule: the CPU, what happens there, to which task, and how long after the step before: ns.
type Step = (u32, u8, u32, u64);

/// A schedule, its events, and the expected shares of each wait whose end is seen, in the order of the ends.
#[derive(Default)]
struct Schedule {
    now_ns: u64,
    cpus: [Cpu; CPUS as usize],
    waiting: BTreeMap<u32, Waiting>,
    stream: EventStream,
    expected: Vec<Shares>,
}

fn occupant(tid: u32) -> TaskInfo {
    if tid == 0 { idle() } else { task(tid, "any") }
}

impl Schedule {
    fn new(steps: &[Step], hides: bool, loses: bool) -> Self {
        let mut schedule = Self { now_ns: 1_000, ..Self::default() };
        // The first switch of each CPU, before which nothing is known.
        for cpu in 0..CPUS {
            schedule.stream.switch(cpu, schedule.now_ns, idle());
        }
        for (cpu, kind, who, ns) in steps {
            schedule.pass(*ns);
            match kind % 16 {
                0..4 => schedule.wake(1 + who % (TASKS - 1), *cpu),
                4..9 => schedule.switch(*cpu, *who, true),
                9..11 => schedule.interrupt(*cpu, *who),
                11..13 => schedule.resume(*cpu),
                13 => schedule.migrate_one(*who, *cpu),
                14 if hides => schedule.switch(*cpu, *who, false),
                15 if loses => schedule.stream.lose(*cpu, 1 + who % 3),
                _ => {}
            }
        }
        schedule
    }

    /// Lets time pass, during which each waiting task waits for the occupant of its CPU.
    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        for waiting in self.waiting.values_mut() {
            let cpu = &self.cpus[waiting.cpu as usize];
            let culprit = match (cpu.interrupts.last(), cpu.runs) {
                (Some((_, source @ InterruptSource::Softirq(_))), _) => {
                    Culprit { component: Component::Softirq, actor: Actor::Interrupt(*source) }
                }
                (Some((_, source)), _) => Culprit { component: Component::Irq, actor: Actor::Interrupt(*source) },
                (None, 0) => Culprit { component: Component::Idle, actor: Actor::Idle(None) },
                (None, tid) => Culprit { component: Component::Same, actor: Actor::Task((&occupant(tid)).into()) },
            };
            *waiting.shares.entry(culprit.key()).or_default() += ns;
        }
    }

    fn waits(&mut self, tid: u32, cpu: u32, class: Class) {
        let waiting = Waiting { class, from_ns: self.now_ns, first: cpu, cpu, migrations: 0, shares: Shares::new() };
        self.waiting.insert(tid, waiting);
    }

    fn wake(&mut self, tid: u32, cpu: u32) {
        if !self.waiting.contains_key(&tid) && self.cpus.iter().all(|cpu| cpu.runs != tid) {
            self.waits(tid, cpu, Class::Wakeup);
        }
    }

    /// Switches a CPU to one of the tasks that wait there, or to idle. An unseen switch sends no event.
    fn switch(&mut self, on: u32, who: u32, is_seen: bool) {
        let queue: Vec<u32> = self.waiting.iter().filter(|(_, wait)| wait.cpu == on).map(|(tid, _)| *tid).collect();
        let next = *queue.get(who as usize % (queue.len() + 1)).unwrap_or(&0);
        let now_ns = self.now_ns;
        let cpu = &mut self.cpus[on as usize];
        // Interrupts and softirqs run to their end.
        if !cpu.interrupts.is_empty() || cpu.runs == next {
            return;
        }
        let (prev, switched_in_ns) = (cpu.runs, cpu.since_ns);
        (cpu.runs, cpu.since_ns) = (next, now_ns);
        let ended = self.waiting.remove(&next);
        let is_preempted = prev != 0 && who.is_multiple_of(2);
        if is_preempted {
            self.waits(prev, on, Class::Preempted);
        }
        let cpu = &mut self.cpus[on as usize];
        if !is_seen {
            cpu.unseen += 1;
            return;
        }
        let switched_in_ns = (prev != 0).then_some(switched_in_ns);
        let unseen = (cpu.unseen > 0).then_some(Unseen { switches: Some(cpu.unseen), switched_in_ns });
        cpu.unseen = 0;
        let (prev, next) = (occupant(prev), occupant(next));
        let switch = self.stream.switch(on, now_ns, next);
        (switch.prev, switch.unseen) = (prev, unseen);
        switch.prev_state = if is_preempted { PrevState::Runnable } else { PrevState::Sleeping };
        if let Some(ended) = ended {
            let mut waited = detailed_wait(on, ended.from_ns, now_ns, &next, &prev);
            (waited.cpu, waited.migrations, waited.wait.class) = (Some(ended.first), ended.migrations, ended.class);
            switch.ended_wait = Some(waited);
            self.expected.push(ended.shares);
        }
    }

    /// Begins an interrupt, or a softirq if nothing interrupts the task yet.
    fn interrupt(&mut self, cpu: u32, who: u32) {
        let open = &mut self.cpus[cpu as usize].interrupts;
        let is_softirq = open.is_empty() && who.is_multiple_of(2);
        open.push((self.now_ns, if is_softirq { InterruptSource::Softirq(who % 10) } else { irq(who % 5, "device") }));
    }

    fn resume(&mut self, cpu: u32) {
        if let Some((from_ns, source)) = self.cpus[cpu as usize].interrupts.pop() {
            self.stream.interrupt(cpu, (from_ns, self.now_ns), source);
        }
    }

    fn migrate_one(&mut self, who: u32, to: u32) {
        let Some((tid, waiting)) = self.waiting.iter_mut().nth(who as usize % TASKS as usize) else { return };
        let from = std::mem::replace(&mut waiting.cpu, to);
        // On the CPU that the task leaves, a running interrupt counts for the task that it interrupted, and an unseen
        // switch is not known yet: see docs/semantics.md.
        let left = &self.cpus[from as usize];
        if from != to && left.interrupts.is_empty() && left.unseen == 0 {
            waiting.migrations = waiting.migrations.saturating_add(1);
            self.stream.migrate(occupant(*tid), self.now_ns, from, to);
        } else {
            waiting.cpu = from;
        }
    }
}

/// The breakdowns of a stream, each with its shares.
fn breakdowns(events: &[Event]) -> Vec<(Breakdown, Shares)> {
    let mut timeline = Timeline::new(LatencyFrom::Wakeup);
    let breakdowns = events.iter().filter_map(|event| timeline.push(event).cloned());
    breakdowns
        .map(|breakdown| {
            super::tests::check(&breakdown);
            let shares = breakdown.shares.iter().map(|share| (share.culprit.key(), share.ns)).collect();
            (breakdown, shares)
        })
        .collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..CPUS, any::<u8>(), any::<u32>(), 1..2_000u64), 1..300)
}

/// The shares that are not 0.
fn nonzero(shares: &Shares) -> Shares {
    shares.iter().filter(|(_, ns)| **ns > 0).map(|(key, ns)| (*key, *ns)).collect()
}

/// Whether two adjacent events of different CPUs may be swapped: not if either concerns a migration.
fn may_swap(first: &Event, second: &Event) -> bool {
    let builds_on_others = |event: &Event| match &event.kind {
        EventKind::Switch(switch) => switch.ended_wait.is_some_and(|waited| waited.migrations > 0),
        EventKind::Migration(_) => true,
        _ => false,
    };
    first.cpu != second.cpu && !builds_on_others(first) && !builds_on_others(second)
}

proptest! {
    #[test]
    fn breakdowns_agree_with_the_schedule(steps in steps()) {
        let schedule = Schedule::new(&steps, false, false);
        let found = breakdowns(&schedule.stream.events);
        prop_assert_eq!(found.len(), schedule.expected.len());
        for ((breakdown, shares), expected) in found.iter().zip(&schedule.expected) {
            prop_assert_eq!(breakdown.component_ns(Component::Unexplained), 0);
            prop_assert_eq!(shares, &nonzero(expected));
        }
    }

    /// With unseen switches, no culprit has more than in the schedule, and the remainder is unexplained only for that
    /// reason.
    #[test]
    fn unseen_switches_charge_no_culprit_too_much(steps in steps()) {
        let schedule = Schedule::new(&steps, true, false);
        let found = breakdowns(&schedule.stream.events);
        prop_assert_eq!(found.len(), schedule.expected.len());
        for ((breakdown, shares), expected) in found.iter().zip(&schedule.expected) {
            for share in &breakdown.shares {
                if share.culprit.component == Component::Unexplained {
                    prop_assert_eq!(share.culprit.actor, Actor::Unknown(UnknownReason::Unseen));
                }
            }
            let known = shares.iter().filter(|(key, _)| key.component != Component::Unexplained);
            for (key, ns) in known {
                prop_assert!(*ns <= expected.get(key).copied().unwrap_or(0), "{key:?} has {ns}: {expected:?}");
            }
        }
    }

    #[test]
    fn lost_events_are_counted_and_shares_still_add_up(steps in steps()) {
        let schedule = Schedule::new(&steps, true, true);
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        let mut waits = 0;
        for event in &schedule.stream.events {
            if let Some(breakdown) = timeline.push(event) {
                super::tests::check(breakdown);
                waits += 1;
            }
        }
        prop_assert_eq!(waits, schedule.expected.len());
        let counts = timeline.event_counts();
        let numbers: BTreeMap<u32, u32> = schedule.stream.events.iter().map(|event| (event.cpu, event.seq)).collect();
        prop_assert_eq!(counts.events, schedule.stream.events.len() as u64);
        prop_assert_eq!(counts.events + counts.lost, numbers.values().map(|seq| u64::from(*seq)).sum::<u64>());
    }

    #[test]
    fn adjacent_events_of_two_cpus_may_swap(steps in steps(), swaps in prop::collection::vec(any::<bool>(), 300)) {
        let schedule = Schedule::new(&steps, true, false);
        let mut events = schedule.stream.events;
        let by_end = |events: &[Event]| -> BTreeMap<(u64, u32), Shares> {
            let found = breakdowns(events).into_iter();
            found.map(|(breakdown, shares)| ((breakdown.ended_wait.wait.at_ns, breakdown.waiter.tid), shares)).collect()
        };
        let in_order = by_end(&events);
        for (index, swaps) in (1..events.len()).zip(swaps) {
            if swaps && may_swap(&events[index - 1], &events[index]) {
                events.swap(index - 1, index);
            }
        }
        prop_assert_eq!(by_end(&events), in_order);
    }

    /// If the order of each CPU is kept, any order between CPUs gives the same shares, as long as a migration comes
    /// before the switch.
    #[test]
    fn the_order_between_cpus_does_not_matter(picks in prop::collection::vec(any::<bool>(), 60)) {
        let mut left = EventStream::default();
        let mut right = EventStream::default();
        for round in 0..20u64 {
            left.switch(0, round * 100, task(1 + round as u32 % 3, "left"));
            left.interrupt(0, (round * 100 + 20, round * 100 + 50), InterruptSource::Softirq(1));
            right.switch(1, round * 130, task(5 + round as u32 % 2, "right"));
        }
        left.end_wait(0, (350, 2_000), occupant(7));
        let alone = breakdowns(&left.events).remove(0).1;
        let (mut left, mut right) = (left.events.into_iter(), right.events.into_iter());
        let mut mixed = EventStream::default();
        for pick in picks {
            mixed.events.extend(if pick { left.next() } else { right.next() });
        }
        mixed.events.extend(left.chain(right));
        prop_assert_eq!(&breakdowns(&mixed.events)[0].1, &alone);
    }
}
