//! Random schedules of several CPUs, of which it is known who had each ns: accounts agree with them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wakelat_common::{Class, start::PrevState};

use super::super::{
    event::{Event, InterruptSource, TaskInfo, Unseen},
    fixtures::{EventStream, detailed_wait, idle, irq, task},
    part::CulpritKey,
};
use super::*;

const CPUS: u32 = 3;
const TASKS: u32 = 7;

/// Who had how much of a wait.
type Shares = BTreeMap<CulpritKey, u64>;

/// A wait under way.
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
    /// What interrupts what runs: when it began, and what it is.
    interrupts: Vec<(u64, InterruptSource)>,
    /// Switches since the last one that was shown.
    unseen: u32,
}

/// What is random about a schedule: which CPU, what happens there, to whom, and how long after the last.
type Step = (u32, u8, u32, u64);

/// A schedule, the events that tell of it, and the shares of each wait whose end is shown, in their order.
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
    fn of(steps: &[Step], hides: bool, loses: bool) -> Self {
        let mut schedule = Self { now_ns: 1_000, ..Self::default() };
        // Each CPU's first switch: nothing is known before it.
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
                13 => schedule.move_one(*who, *cpu),
                14 if hides => schedule.switch(*cpu, *who, false),
                15 if loses => schedule.stream.lose(*cpu, 1 + who % 3),
                _ => {}
            }
        }
        schedule
    }

    /// Time passes: each that waits waits for whoever has its CPU.
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

    /// The CPU goes to one of those that wait there, or to idle, and shows it or not.
    fn switch(&mut self, on: u32, who: u32, is_shown: bool) {
        let queue: Vec<u32> = self.waiting.iter().filter(|(_, wait)| wait.cpu == on).map(|(tid, _)| *tid).collect();
        let next = *queue.get(who as usize % (queue.len() + 1)).unwrap_or(&0);
        let now_ns = self.now_ns;
        let cpu = &mut self.cpus[on as usize];
        // Interrupts and softirqs run to their end.
        if !cpu.interrupts.is_empty() || cpu.runs == next {
            return;
        }
        let (prev, came_ns) = (cpu.runs, cpu.since_ns);
        (cpu.runs, cpu.since_ns) = (next, now_ns);
        let ended = self.waiting.remove(&next);
        let is_preempted = prev != 0 && who.is_multiple_of(2);
        if is_preempted {
            self.waits(prev, on, Class::Preempted);
        }
        let cpu = &mut self.cpus[on as usize];
        if !is_shown {
            cpu.unseen += 1;
            return;
        }
        let came_ns = (prev != 0).then_some(came_ns);
        let unseen = (cpu.unseen > 0).then_some(Unseen { switches: Some(cpu.unseen), switched_in_ns: came_ns });
        cpu.unseen = 0;
        let (prev, next) = (occupant(prev), occupant(next));
        let turn = self.stream.switch(on, now_ns, next);
        (turn.prev, turn.unseen) = (prev, unseen);
        turn.prev_state = if is_preempted { PrevState::Runnable } else { PrevState::Sleeping };
        if let Some(ended) = ended {
            let mut waited = detailed_wait(on, ended.from_ns, now_ns, &next, &prev);
            (waited.cpu, waited.migrations, waited.wait.class) = (Some(ended.first), ended.migrations, ended.class);
            turn.ended_wait = Some(waited);
            self.expected.push(ended.shares);
        }
    }

    /// An interrupt at any time, or a softirq where nothing interrupts the task yet.
    fn interrupt(&mut self, cpu: u32, who: u32) {
        let noise = &mut self.cpus[cpu as usize].interrupts;
        let is_softirq = noise.is_empty() && who.is_multiple_of(2);
        noise.push((self.now_ns, if is_softirq { InterruptSource::Softirq(who % 10) } else { irq(who % 5, "device") }));
    }

    fn resume(&mut self, cpu: u32) {
        if let Some((from_ns, source)) = self.cpus[cpu as usize].interrupts.pop() {
            self.stream.interrupt(cpu, (from_ns, self.now_ns), source);
        }
    }

    fn move_one(&mut self, who: u32, to: u32) {
        let Some((tid, waiting)) = self.waiting.iter_mut().nth(who as usize % TASKS as usize) else { return };
        let from = std::mem::replace(&mut waiting.cpu, to);
        // On the CPU that it leaves, an interrupt under way counts for the task that it interrupted, and a switch that was not
        // shown is not known yet: see the definition.
        let left = &self.cpus[from as usize];
        if from != to && left.interrupts.is_empty() && left.unseen == 0 {
            waiting.migrations = waiting.migrations.saturating_add(1);
            self.stream.migrate(occupant(*tid), self.now_ns, from, to);
        } else {
            waiting.cpu = from;
        }
    }
}

/// The accounts of a stream, and what each says in shares.
fn breakdowns(events: &[Event]) -> Vec<(Breakdown, Shares)> {
    let mut timeline = Timeline::new(LatencyFrom::Wakeup);
    let accounts = events.iter().filter_map(|event| timeline.push(event).cloned());
    accounts
        .map(|account| {
            super::tests::check(&account);
            let shares = account.shares.iter().map(|share| (share.culprit.key(), share.ns)).collect();
            (account, shares)
        })
        .collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..CPUS, any::<u8>(), any::<u32>(), 1..2_000u64), 1..300)
}

/// Shares of which there is anything.
fn some(shares: &Shares) -> Shares {
    shares.iter().filter(|(_, ns)| **ns > 0).map(|(key, ns)| (*key, *ns)).collect()
}

/// Whether two neighbours of different CPUs may change places: not where one tells what the other builds on.
fn may_swap(first: &Event, second: &Event) -> bool {
    let builds_on_others = |event: &Event| match &event.kind {
        EventKind::Switch(turn) => turn.ended_wait.is_some_and(|waited| waited.migrations > 0),
        EventKind::Migration(_) => true,
        _ => false,
    };
    first.cpu != second.cpu && !builds_on_others(first) && !builds_on_others(second)
}

proptest! {
    #[test]
    fn accounts_are_what_was_drawn(steps in steps()) {
        let schedule = Schedule::of(&steps, false, false);
        let found = breakdowns(&schedule.stream.events);
        prop_assert_eq!(found.len(), schedule.expected.len());
        for ((account, shares), expected) in found.iter().zip(&schedule.expected) {
            prop_assert_eq!(account.component_ns(Component::Unexplained), 0);
            prop_assert_eq!(shares, &some(expected));
        }
    }

    /// Where switches are not shown, nobody has more than was drawn, and the rest is unexplained for that reason alone.
    #[test]
    fn nobody_has_what_may_be_anothers(steps in steps()) {
        let schedule = Schedule::of(&steps, true, false);
        let found = breakdowns(&schedule.stream.events);
        prop_assert_eq!(found.len(), schedule.expected.len());
        for ((account, shares), expected) in found.iter().zip(&schedule.expected) {
            for share in &account.shares {
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
    fn what_is_lost_is_counted_and_leaves_sums_whole(steps in steps()) {
        let schedule = Schedule::of(&steps, true, true);
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        let mut waits = 0;
        for event in &schedule.stream.events {
            if let Some(account) = timeline.push(event) {
                super::tests::check(account);
                waits += 1;
            }
        }
        prop_assert_eq!(waits, schedule.expected.len());
        let told = timeline.event_counts();
        let numbers: BTreeMap<u32, u32> = schedule.stream.events.iter().map(|event| (event.cpu, event.seq)).collect();
        prop_assert_eq!(told.events, schedule.stream.events.len() as u64);
        prop_assert_eq!(told.events + told.lost, numbers.values().map(|seq| u64::from(*seq)).sum::<u64>());
    }

    #[test]
    fn neighbours_of_different_cpus_may_change_places(steps in steps(), swaps in prop::collection::vec(any::<bool>(), 300)) {
        let schedule = Schedule::of(&steps, true, false);
        let mut events = schedule.stream.events;
        let by_end = |events: &[Event]| -> BTreeMap<(u64, u32), Shares> {
            let accounts = breakdowns(events).into_iter();
            accounts.map(|(account, shares)| ((account.ended_wait.wait.at_ns, account.waiter.tid), shares)).collect()
        };
        let in_order = by_end(&events);
        for (index, swaps) in (1..events.len()).zip(swaps) {
            if swaps && may_swap(&events[index - 1], &events[index]) {
                events.swap(index - 1, index);
            }
        }
        prop_assert_eq!(by_end(&events), in_order);
    }

    /// Each CPU's own order is kept; between CPUs any other gives the same, as long as a move comes before the switch.
    #[test]
    fn the_order_between_cpus_does_not_matter(picks in prop::collection::vec(any::<bool>(), 60)) {
        let mut left = EventStream::default();
        let mut right = EventStream::default();
        for turn in 0..20u64 {
            left.switch(0, turn * 100, task(1 + turn as u32 % 3, "left"));
            left.interrupt(0, (turn * 100 + 20, turn * 100 + 50), InterruptSource::Softirq(1));
            right.switch(1, turn * 130, task(5 + turn as u32 % 2, "right"));
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
