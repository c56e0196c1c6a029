use proptest::prelude::*;
use wakelat_common::{Class, timeline::vector};

use super::super::{
    breakdown::Share,
    event::{InterruptSource, TaskInfo, Unseen},
    testing::{EventStream, fifo, idle, irq, task},
};
use super::*;

const T: u32 = 7;

/// The breakdown of the only wait in a stream.
fn breakdown_from(stream: &EventStream, from: LatencyFrom) -> Breakdown {
    let mut timeline = Timeline::new(from);
    let mut found: Vec<Breakdown> = stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect();
    assert_eq!(found.len(), 1);
    let breakdown = found.remove(0);
    check(&breakdown);
    breakdown
}

pub(super) fn breakdown(stream: &EventStream) -> Breakdown {
    breakdown_from(stream, LatencyFrom::Wakeup)
}

/// Asserts what holds for every breakdown.
pub(super) fn check(breakdown: &Breakdown) {
    let sum: u64 = breakdown.shares.iter().map(|share| share.ns).sum();
    assert_eq!(sum, breakdown.latency_ns, "{:?}", breakdown.shares);
    assert!(breakdown.shares.iter().all(|share| share.ns > 0 && share.times > 0));
    let keys: std::collections::HashSet<_> = breakdown.shares.iter().map(|share| share.culprit.key()).collect();
    assert_eq!(keys.len(), breakdown.shares.len());
    let mut end = breakdown.from_ns;
    for span in &breakdown.spans {
        assert!(end <= span.from_ns && span.from_ns < span.to_ns, "{:?}", breakdown.spans);
        end = span.to_ns;
    }
    assert!(end <= breakdown.ended_wait.wait.at_ns);
}

/// The components that have a share.
fn components(breakdown: &Breakdown) -> Vec<(Component, u64)> {
    let all = Component::ALL.into_iter().map(|component| (component, breakdown.component_ns(component)));
    all.filter(|(_, ns)| *ns > 0).collect()
}

pub(super) fn waiter() -> TaskInfo {
    task(T, "victim")
}

#[test]
fn the_task_that_ran_is_named() {
    let mut stream = EventStream::default();
    stream.switch(0, 100, task(1, "hog"));
    stream.end_wait(0, (200, 900), waiter());
    let breakdown = breakdown(&stream);
    assert_eq!(components(&breakdown), [(Component::Same, 700)]);
    assert!(matches!(breakdown.shares[0].culprit.actor, Actor::Task(task) if task.tid == 1));
}

#[test]
fn two_alternating_tasks_have_a_share_each() {
    let mut stream = EventStream::default();
    for round in 0..10 {
        stream.switch(0, 100 * round, task(1 + round as u32 % 2, "hog"));
    }
    stream.end_wait(0, (50, 1_000), waiter());
    let breakdown = breakdown(&stream);
    let shares: Vec<(u64, u64)> = breakdown.shares.iter().map(|share| (share.ns, share.times)).collect();
    assert_eq!(shares, [(450, 5), (500, 5)]);
}

#[test]
fn higher_and_lower_classes_and_priorities_are_distinguished() {
    for (waits, runs, component) in [
        (waiter(), fifo(1, "rt", 50), Component::Higher),
        (fifo(T, "victim", 50), task(1, "hog"), Component::Lower),
        (fifo(T, "victim", 50), fifo(1, "rt", 50), Component::Same),
    ] {
        let mut stream = EventStream::default();
        stream.switch(0, 100, runs);
        stream.end_wait(0, (200, 900), waits);
        assert_eq!(components(&breakdown(&stream)), [(component, 700)]);
    }
}

#[test]
fn the_exit_from_idle_has_its_c_state() {
    let mut stream = EventStream::default();
    stream.switch(0, 100, idle());
    stream.interrupt(0, (300, 320), InterruptSource::Vector(vector::RESCHEDULE));
    stream.end_wait(0, (280, 400), waiter());
    let EventKind::Switch(switch) = &mut stream.events.last_mut().unwrap().kind else { unreachable!() };
    switch.idle_state = Some(2);
    let breakdown = breakdown(&stream);
    assert_eq!(components(&breakdown), [(Component::Idle, 100), (Component::Irq, 20)]);
    assert_eq!(breakdown.shares[0].culprit.actor, Actor::Idle(Some(2)));
    assert_eq!(breakdown.shares[0].times, 2);
}

#[test]
fn nested_interrupts_are_net() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    // A softirq from 200 to 600, in it an interrupt from 300 to 500, and in that another one from 350 to 400.
    stream.interrupt(0, (350, 400), irq(9, "acpi"));
    stream.interrupt(0, (300, 500), irq(4, "nvme"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (100, 1_000), waiter());
    let breakdown = breakdown(&stream);
    assert_eq!(components(&breakdown), [(Component::Same, 500), (Component::Irq, 200), (Component::Softirq, 200)]);
    let ns: Vec<u64> = breakdown.shares.iter().map(|share: &Share| share.ns).collect();
    assert_eq!(ns, [500, 200, 150, 50]);
}

#[test]
fn an_interrupt_in_which_the_wait_began_counts_from_there() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (500, 1_000), waiter());
    assert_eq!(components(&breakdown(&stream)), [(Component::Same, 400), (Component::Softirq, 100)]);
}

#[test]
fn an_interrupt_that_is_recorded_late_has_only_its_own_time() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    // An interrupt between the end of the softirq and its record.
    stream.interrupt(0, (605, 650), irq(4, "nvme"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (100, 1_000), waiter());
    assert_eq!(
        components(&breakdown(&stream)),
        [(Component::Same, 455), (Component::Irq, 45), (Component::Softirq, 400)]
    );
}

#[test]
fn a_preempted_softirq_is_not_charged_for_other_tasks() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.switch(0, 300, task(2, "rt"));
    stream.switch(0, 500, task(1, "hog"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (100, 700), waiter());
    assert_eq!(components(&breakdown(&stream)), [(Component::Same, 400), (Component::Softirq, 200)]);
}

#[test]
fn a_wait_follows_the_migrations_of_its_task() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "left"));
    stream.switch(1, 0, task(2, "right"));
    stream.interrupt(0, (300, 310), irq(1, "x"));
    stream.migrate(waiter(), 400, 0, 1);
    stream.end_wait(1, (200, 1_000), waiter()).cpu = Some(0);
    let breakdown = breakdown(&stream);
    let left = breakdown.spans.iter().filter(|span| span.cpu == Some(0));
    let left: u64 = left.map(|span| span.to_ns - span.from_ns).sum();
    assert_eq!((left, breakdown.component_ns(Component::Irq), breakdown.component_ns(Component::Same)), (200, 10, 790));
}

#[test]
fn throttling_is_separated_from_queueing() {
    for (at_start, class, first) in
        [(true, Class::Wakeup, true), (false, Class::Wakeup, false), (false, Class::Preempted, false)]
    {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "hog"));
        let waited = stream.end_wait(0, (100, 1_000), waiter());
        (waited.throttled_ns, waited.throttled_at_start, waited.wait.class) = (Some(600), at_start, class);
        waited.wait.cgroup_id = Some(42);
        let breakdown = breakdown(&stream);
        assert_eq!(components(&breakdown), [(Component::Same, 300), (Component::Throttled, 600)]);
        assert_eq!(breakdown.shares[0].culprit.component == Component::Throttled, first, "{class:?}");
        let throttled = breakdown.shares.iter().find(|share| share.culprit.component == Component::Throttled).unwrap();
        assert_eq!(throttled.culprit.actor, Actor::Cgroup(Some(42)));
    }
}

#[test]
fn clocks_that_exceed_the_wait_are_limited_to_its_length() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    let waited = stream.end_wait(0, (100, 1_000), waiter());
    (waited.throttled_ns, waited.stolen_ns) = (Some(700), 5_000);
    assert_eq!(components(&breakdown(&stream)), [(Component::Throttled, 700), (Component::Stolen, 200)]);
}

#[test]
fn only_real_time_tasks_are_rt_throttled() {
    for (flagged, waits, component) in [
        (true, fifo(T, "victim", 50), Component::RtThrottled),
        (false, fifo(T, "victim", 50), Component::Lower),
        (true, waiter(), Component::Same),
    ] {
        let mut stream = EventStream::default();
        stream.switch(0, 100, task(1, "hog")).rt_throttled = flagged;
        stream.end_wait(0, (200, 900), waits);
        let breakdown = breakdown(&stream);
        assert_eq!(components(&breakdown), [(component, 700)]);
        assert!(matches!(breakdown.shares[0].culprit.actor, Actor::Task(task) if task.tid == 1));
    }
}

#[test]
fn delivery_is_a_share_only_if_the_latency_begins_at_the_waker() {
    for (remote, component) in [(false, Component::Placement), (true, Component::Ipi)] {
        let mut stream = EventStream::default();
        stream.switch(0, 0, idle());
        let waited = stream.end_wait(0, (100, 1_000), waiter());
        (waited.remote, waited.wait.delivery_ns) = (remote, Some(300));
        let waking = breakdown_from(&stream, LatencyFrom::Waking);
        assert_eq!(components(&waking), [(component, 300), (Component::Idle, 600)]);
        let wakeup = breakdown_from(&stream, LatencyFrom::Wakeup);
        assert_eq!(components(&wakeup), [(Component::Idle, 900)]);
        assert_eq!(wakeup.delivery, Some(Delivery { component, ns: 300, is_counted: false }));
    }
}

#[test]
fn a_loss_is_unexplained_until_the_next_event() {
    let mut stream = EventStream::default();
    stream.lose(0, 1);
    stream.switch(0, 0, task(1, "hog"));
    stream.interrupt(0, (200, 210), irq(1, "x"));
    stream.lose(0, 2);
    stream.interrupt(0, (500, 510), irq(1, "x"));
    stream.switch(0, 700, task(2, "other"));
    stream.end_wait(0, (100, 1_000), waiter());
    let mut timeline = Timeline::new(LatencyFrom::Wakeup);
    let breakdown = stream.events.iter().find_map(|event| timeline.push(event).cloned()).unwrap();
    check(&breakdown);
    assert_eq!(timeline.event_counts(), EventCounts { events: 5, lost: 3 });
    // Unexplained up to the interrupt after the loss; the next switch shows which task had the CPU from then on.
    assert_eq!(components(&breakdown), [(Component::Same, 590), (Component::Irq, 10), (Component::Unexplained, 300)]);
    assert!(breakdown.shares.iter().any(|share| share.culprit.actor == Actor::Unknown(UnknownReason::Lost)));
}

#[test]
fn an_unseen_switch_is_unexplained() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.switch(0, 500, task(2, "other")).prev = task(3, "unseen");
    stream.end_wait(0, (100, 1_000), waiter());
    let breakdown = breakdown(&stream);
    assert_eq!(components(&breakdown), [(Component::Same, 500), (Component::Unexplained, 400)]);
    assert_eq!(breakdown.shares[0].culprit.actor, Actor::Unknown(UnknownReason::Unseen));
}

#[test]
fn an_unseen_switch_is_dated_by_the_switch_in_of_the_outgoing_task() {
    let unseen = |switches, switched_in_ns| {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "first"));
        stream.interrupt(0, (300, 330), irq(1, "x"));
        let switch = stream.switch(0, 500, task(2, "other"));
        (switch.prev, switch.unseen) = (task(3, "unseen"), Some(Unseen { switches, switched_in_ns }));
        stream.end_wait(0, (100, 1_000), waiter());
        breakdown(&stream).shares.iter().map(|share| (share.culprit.actor, share.ns)).collect::<Vec<_>>()
    };
    let tids = |shares: &[(Actor, u64)]| -> Vec<(u32, u64)> {
        let tid = |actor: &Actor| match actor {
            Actor::Task(task) => task.tid,
            Actor::Unknown(UnknownReason::Unseen) => 0,
            _ => u32::MAX,
        };
        shares.iter().map(|(actor, ns)| (tid(actor), *ns)).collect()
    };
    assert_eq!(tids(&unseen(Some(1), Some(310))), [(1, 200), (u32::MAX, 30), (3, 170), (2, 500)]);
    assert_eq!(tids(&unseen(Some(1), Some(200))), [(1, 100), (3, 270), (u32::MAX, 30), (2, 500)]);
    // After more than one unseen switch, the task that had the CPU in between is unknown.
    assert_eq!(tids(&unseen(Some(2), Some(310))), [(0, 200), (u32::MAX, 30), (3, 170), (2, 500)]);
    assert_eq!(tids(&unseen(Some(1), None)), [(0, 370), (u32::MAX, 30), (2, 500)]);
    assert_eq!(tids(&unseen(None, Some(900))), [(0, 370), (u32::MAX, 30), (2, 500)]);
}

#[test]
fn a_task_that_left_and_returned_unseen_has_the_time_since_its_return() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.switch(0, 500, task(2, "other")).unseen = Some(Unseen { switches: Some(2), switched_in_ns: Some(400) });
    stream.end_wait(0, (100, 1_000), waiter());
    let breakdown = breakdown(&stream);
    assert_eq!(components(&breakdown), [(Component::Same, 600), (Component::Unexplained, 300)]);
}

#[test]
fn time_before_the_first_record_is_unexplained() {
    let mut stream = EventStream::default();
    stream.switch(0, 400, task(1, "hog"));
    stream.end_wait(0, (100, 1_000), waiter());
    assert_eq!(components(&breakdown(&stream)), [(Component::Same, 600), (Component::Unexplained, 300)]);
}

#[test]
fn after_a_missed_migration_the_run_queue_is_unknown() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "left"));
    stream.switch(1, 0, task(2, "right"));
    stream.end_wait(1, (200, 1_000), waiter()).cpu = Some(0);
    let breakdown = breakdown(&stream);
    assert_eq!(breakdown.shares[0].culprit.actor, Actor::Unknown(UnknownReason::UnknownCpu));
    assert_eq!(components(&breakdown), [(Component::Unexplained, 800)]);
}

/// A random step: the CPU, the kind of event, and numbers for its fields.
type Random = (u32, u8, u64, u64, u32);

/// A random stream, and the number of waits that end in it. Clocks never step back; any event may be lost.
fn random_stream(random: &[Random]) -> (EventStream, u32) {
    let mut stream = EventStream::default();
    let mut clocks = [1_000_000u64; 3];
    let mut waits = 0;
    for (cpu, kind, a, b, who) in random {
        let now = clocks.iter().max().unwrap() + a % 5_000;
        clocks[*cpu as usize] = now;
        let occupant = if who % 4 == 0 { idle() } else { task(who % 9, "any") };
        match kind % 8 {
            0 | 1 => stream.switch(*cpu, now, occupant).rt_throttled = b % 2 == 0,
            2 | 3 => {
                let next = if b % 2 == 0 { fifo(100 + who % 3, "rt", 9) } else { task(100 + who % 3, "fair") };
                let waited = stream.end_wait(*cpu, (now - b % 60_000, now), next);
                waits += 1;
                waited.cpu = [None, Some(0), Some(1), Some(*cpu)][*who as usize % 4];
                waited.throttled_ns = [None, Some(b % 7_000), Some(u64::MAX), Some(0)][(a % 4) as usize];
                waited.throttled_at_start = a % 3 == 0;
                waited.stolen_ns = [0, b % 900, u64::MAX][(b % 3) as usize];
                waited.wait.delivery_ns = [None, Some(b % 3_000), Some(u64::MAX)][(a % 3) as usize];
                if b % 50 == 0 {
                    waited.wait.latency_ns = u64::MAX;
                }
            }
            4 | 5 => stream.interrupt(*cpu, (now - a % 900, now), InterruptSource::Softirq(who % 10)),
            6 => stream.migrate(task(100 + who % 3, "fair"), now, *cpu, (cpu + 1) % 3),
            _ => stream.lose(*cpu, who % 3),
        }
    }
    (stream, waits)
}

proptest! {
    #[test]
    fn shares_always_add_up_to_the_latency(
        random in prop::collection::vec((0..3u32, any::<u8>(), any::<u64>(), any::<u64>(), any::<u32>()), 1..150),
        from in prop_oneof![Just(LatencyFrom::Wakeup), Just(LatencyFrom::Waking)],
    ) {
        let (stream, waits) = random_stream(&random);
        let mut timeline = Timeline::new(from);
        let mut found = 0;
        for event in &stream.events {
            if let Some(breakdown) = timeline.push(event) {
                check(breakdown);
                found += 1;
            }
        }
        prop_assert_eq!(found, waits);
        prop_assert_eq!(timeline.event_counts().events, stream.events.len() as u64);
    }

    /// Interrupts nested like random brackets, so that the owner of each ns is known.
    #[test]
    fn innermost_owns_each_ns(steps in prop::collection::vec((any::<bool>(), 1..50u64), 1..80), begin in 0..2_000u64) {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "hog"));
        let mut now = 0;
        let mut open: Vec<(u64, u32)> = Vec::new();
        let mut whose = Vec::new();
        let mut number = 0;
        for (enters, ns) in steps {
            whose.resize(whose.len() + ns as usize, open.last().map(|(_, number)| *number));
            now += ns;
            if enters {
                number += 1;
                open.push((now, number));
            } else if let Some((from, number)) = open.pop() {
                stream.interrupt(0, (from, now), irq(number, "x"));
            }
        }
        while let Some((from, number)) = open.pop() {
            whose.push(Some(number));
            now += 1;
            stream.interrupt(0, (from, now), irq(number, "x"));
        }
        let begin = begin.min(now - 1);
        stream.end_wait(0, (begin, now), waiter());
        let breakdown = breakdown(&stream);
        let mut expected = std::collections::BTreeMap::new();
        whose[begin as usize..].iter().for_each(|who| *expected.entry(*who).or_insert(0u64) += 1);
        for share in &breakdown.shares {
            let number = match share.culprit.actor {
                Actor::Interrupt(InterruptSource::Irq { number, .. }) => Some(number),
                _ => None,
            };
            prop_assert_eq!(expected.remove(&number), Some(share.ns));
        }
        prop_assert!(expected.is_empty());
    }
}
