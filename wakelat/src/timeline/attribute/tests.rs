use proptest::prelude::*;
use wakelat_common::{Class, timeline::vector};

use super::super::{
    account::Share,
    event::{InterruptSource, TaskInfo, Unseen},
    fixtures::{EventStream, fifo, idle, irq, task},
};
use super::*;

const T: u32 = 7;

/// The account of the only wait in a stream.
fn breakdown_from(stream: &EventStream, from: LatencyFrom) -> Breakdown {
    let mut timeline = Timeline::new(from);
    let mut accounts: Vec<Breakdown> = stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect();
    assert_eq!(accounts.len(), 1);
    let account = accounts.remove(0);
    check(&account);
    account
}

fn breakdown(stream: &EventStream) -> Breakdown {
    breakdown_from(stream, LatencyFrom::Wakeup)
}

/// What holds of every account.
pub(super) fn check(account: &Breakdown) {
    let sum: u64 = account.shares.iter().map(|share| share.ns).sum();
    assert_eq!(sum, account.latency_ns, "{:?}", account.shares);
    assert!(account.shares.iter().all(|share| share.ns > 0 && share.times > 0));
    let keys: std::collections::HashSet<_> = account.shares.iter().map(|share| share.culprit.key()).collect();
    assert_eq!(keys.len(), account.shares.len());
    let mut end = account.from_ns;
    for span in &account.spans {
        assert!(end <= span.from_ns && span.from_ns < span.to_ns, "{:?}", account.spans);
        end = span.to_ns;
    }
    assert!(end <= account.ended_wait.wait.at_ns);
}

/// The parts that have a share.
fn components(account: &Breakdown) -> Vec<(Component, u64)> {
    Component::ALL.into_iter().map(|part| (part, account.component_ns(part))).filter(|(_, ns)| *ns > 0).collect()
}

fn waiter() -> TaskInfo {
    task(T, "victim")
}

#[test]
fn the_task_that_ran_is_named() {
    let mut stream = EventStream::default();
    stream.switch(0, 100, task(1, "hog"));
    stream.end_wait(0, (200, 900), waiter());
    let account = breakdown(&stream);
    assert_eq!(components(&account), [(Component::Same, 700)]);
    assert!(matches!(account.shares[0].culprit.actor, Actor::Task(task) if task.tid == 1));
}

#[test]
fn two_tasks_in_turn_have_a_share_each() {
    let mut stream = EventStream::default();
    for turn in 0..10 {
        stream.switch(0, 100 * turn, task(1 + turn as u32 % 2, "hog"));
    }
    stream.end_wait(0, (50, 1_000), waiter());
    let account = breakdown(&stream);
    let shares: Vec<(u64, u64)> = account.shares.iter().map(|share| (share.ns, share.times)).collect();
    assert_eq!(shares, [(450, 5), (500, 5)]);
}

#[test]
fn a_class_or_priority_above_is_told_from_one_below() {
    for (waits, runs, part) in [
        (waiter(), fifo(1, "rt", 50), Component::Higher),
        (fifo(T, "victim", 50), task(1, "hog"), Component::Lower),
        (fifo(T, "victim", 50), fifo(1, "rt", 50), Component::Same),
    ] {
        let mut stream = EventStream::default();
        stream.switch(0, 100, runs);
        stream.end_wait(0, (200, 900), waits);
        assert_eq!(components(&breakdown(&stream)), [(part, 700)]);
    }
}

#[test]
fn the_way_out_of_idle_has_its_state() {
    let mut stream = EventStream::default();
    stream.switch(0, 100, idle());
    stream.interrupt(0, (300, 320), InterruptSource::Vector(vector::RESCHEDULE));
    stream.end_wait(0, (280, 400), waiter());
    let EventKind::Switch(turn) = &mut stream.events.last_mut().unwrap().kind else { unreachable!() };
    turn.idle_state = Some(2);
    let account = breakdown(&stream);
    assert_eq!(components(&account), [(Component::Idle, 100), (Component::Irq, 20)]);
    assert_eq!(account.shares[0].culprit.actor, Actor::Idle(Some(2)));
    assert_eq!(account.shares[0].times, 2);
}

#[test]
fn nested_noise_is_net() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    // A softirq from 200 to 600, in it an interrupt from 300 to 500, in that another from 350 to 400.
    stream.interrupt(0, (350, 400), irq(9, "acpi"));
    stream.interrupt(0, (300, 500), irq(4, "nvme"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (100, 1_000), waiter());
    let account = breakdown(&stream);
    assert_eq!(components(&account), [(Component::Same, 500), (Component::Irq, 200), (Component::Softirq, 200)]);
    let ns: Vec<u64> = account.shares.iter().map(|share: &Share| share.ns).collect();
    assert_eq!(ns, [500, 200, 150, 50]);
}

#[test]
fn noise_in_which_the_wait_began_counts_from_there() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (500, 1_000), waiter());
    assert_eq!(components(&breakdown(&stream)), [(Component::Same, 400), (Component::Softirq, 100)]);
}

#[test]
fn noise_told_of_late_has_no_more_than_its_own() {
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
fn a_softirq_that_was_preempted_has_not_what_others_had() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.switch(0, 300, task(2, "rt"));
    stream.switch(0, 500, task(1, "hog"));
    stream.interrupt(0, (200, 600), InterruptSource::Softirq(3));
    stream.end_wait(0, (100, 700), waiter());
    assert_eq!(components(&breakdown(&stream)), [(Component::Same, 400), (Component::Softirq, 200)]);
}

#[test]
fn a_wait_goes_where_its_task_is_moved() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "left"));
    stream.switch(1, 0, task(2, "right"));
    stream.interrupt(0, (300, 310), irq(1, "x"));
    stream.migrate(waiter(), 400, 0, 1);
    stream.end_wait(1, (200, 1_000), waiter()).cpu = Some(0);
    let account = breakdown(&stream);
    let left: u64 = account.spans.iter().filter(|span| span.cpu == Some(0)).map(|span| span.to_ns - span.from_ns).sum();
    assert_eq!((left, account.component_ns(Component::Irq), account.component_ns(Component::Same)), (200, 10, 790));
}

#[test]
fn throttling_and_queueing_are_told_apart() {
    for (at_start, class, first) in
        [(true, Class::Wakeup, true), (false, Class::Wakeup, false), (false, Class::Preempted, false)]
    {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "hog"));
        let waited = stream.end_wait(0, (100, 1_000), waiter());
        (waited.throttled_ns, waited.throttled_at_start, waited.wait.class) = (Some(600), at_start, class);
        waited.wait.cgroup_id = Some(42);
        let account = breakdown(&stream);
        assert_eq!(components(&account), [(Component::Same, 300), (Component::Throttled, 600)]);
        assert_eq!(account.shares[0].culprit.component == Component::Throttled, first, "{class:?}");
        let throttled = account.shares.iter().find(|share| share.culprit.component == Component::Throttled).unwrap();
        assert_eq!(throttled.culprit.actor, Actor::Cgroup(Some(42)));
    }
}

#[test]
fn clocks_that_say_more_than_the_wait_lasted_get_no_more() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    let waited = stream.end_wait(0, (100, 1_000), waiter());
    (waited.throttled_ns, waited.stolen_ns) = (Some(700), 5_000);
    assert_eq!(components(&breakdown(&stream)), [(Component::Throttled, 700), (Component::Stolen, 200)]);
}

#[test]
fn real_time_tasks_that_have_used_up_their_time_are_told_from_others() {
    for (flagged, waits, part) in [
        (true, fifo(T, "victim", 50), Component::RtThrottled),
        (false, fifo(T, "victim", 50), Component::Lower),
        (true, waiter(), Component::Same),
    ] {
        let mut stream = EventStream::default();
        stream.switch(0, 100, task(1, "hog")).rt_throttled = flagged;
        stream.end_wait(0, (200, 900), waits);
        let account = breakdown(&stream);
        assert_eq!(components(&account), [(part, 700)]);
        assert!(matches!(account.shares[0].culprit.actor, Actor::Task(task) if task.tid == 1));
    }
}

#[test]
fn delivery_is_a_share_only_where_the_latency_begins_with_the_waker() {
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
fn what_was_lost_is_unexplained_and_what_comes_after_is_not() {
    let mut stream = EventStream::default();
    stream.lose(0, 1);
    stream.switch(0, 0, task(1, "hog"));
    stream.interrupt(0, (200, 210), irq(1, "x"));
    stream.lose(0, 2);
    stream.interrupt(0, (500, 510), irq(1, "x"));
    stream.switch(0, 700, task(2, "other"));
    stream.end_wait(0, (100, 1_000), waiter());
    let mut timeline = Timeline::new(LatencyFrom::Wakeup);
    let account = stream.events.iter().find_map(|event| timeline.push(event).cloned()).unwrap();
    check(&account);
    assert_eq!(timeline.event_counts(), EventCounts { events: 5, lost: 3 });
    // Until the interrupt after the loss; the next switch tells who had the CPU then.
    assert_eq!(components(&account), [(Component::Same, 590), (Component::Irq, 10), (Component::Unexplained, 300)]);
    assert!(account.shares.iter().any(|share| share.culprit.actor == Actor::Unknown(UnknownReason::Lost)));
}

#[test]
fn a_switch_that_was_not_shown_is_unexplained() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.switch(0, 500, task(2, "other")).prev = task(3, "hidden");
    stream.end_wait(0, (100, 1_000), waiter());
    let account = breakdown(&stream);
    assert_eq!(components(&account), [(Component::Same, 500), (Component::Unexplained, 400)]);
    assert_eq!(account.shares[0].culprit.actor, Actor::Unknown(UnknownReason::Unseen));
}

#[test]
fn a_switch_that_was_not_shown_is_known_by_when_whoever_leaves_had_come() {
    let unseen = |switches, came_ns| {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "came"));
        stream.interrupt(0, (300, 330), irq(1, "x"));
        let turn = stream.switch(0, 500, task(2, "other"));
        (turn.prev, turn.unseen) = (task(3, "leaves"), Some(Unseen { switches, switched_in_ns: came_ns }));
        stream.end_wait(0, (100, 1_000), waiter());
        breakdown(&stream).shares.iter().map(|share| (share.culprit.actor, share.ns)).collect::<Vec<_>>()
    };
    let tids = |shares: &[(Actor, u64)]| -> Vec<(u32, u64)> {
        let tid = |who: &Actor| match who {
            Actor::Task(task) => task.tid,
            Actor::Unknown(UnknownReason::Unseen) => 0,
            _ => u32::MAX,
        };
        shares.iter().map(|(who, ns)| (tid(who), *ns)).collect()
    };
    assert_eq!(tids(&unseen(Some(1), Some(310))), [(1, 200), (u32::MAX, 30), (3, 170), (2, 500)]);
    assert_eq!(tids(&unseen(Some(1), Some(200))), [(1, 100), (3, 270), (u32::MAX, 30), (2, 500)]);
    // Of more than one it is not known who had the CPU between.
    assert_eq!(tids(&unseen(Some(2), Some(310))), [(0, 200), (u32::MAX, 30), (3, 170), (2, 500)]);
    assert_eq!(tids(&unseen(Some(1), None)), [(0, 370), (u32::MAX, 30), (2, 500)]);
    assert_eq!(tids(&unseen(None, Some(900))), [(0, 370), (u32::MAX, 30), (2, 500)]);
}

#[test]
fn a_task_that_went_and_came_back_unseen_has_what_it_had_since() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.switch(0, 500, task(2, "other")).unseen = Some(Unseen { switches: Some(2), switched_in_ns: Some(400) });
    stream.end_wait(0, (100, 1_000), waiter());
    let account = breakdown(&stream);
    assert_eq!(components(&account), [(Component::Same, 600), (Component::Unexplained, 300)]);
}

#[test]
fn what_was_before_the_first_record_is_unexplained() {
    let mut stream = EventStream::default();
    stream.switch(0, 400, task(1, "hog"));
    stream.end_wait(0, (100, 1_000), waiter());
    assert_eq!(components(&breakdown(&stream)), [(Component::Same, 600), (Component::Unexplained, 300)]);
}

#[test]
fn what_is_longer_ago_than_is_remembered_is_unexplained() {
    let mut stream = EventStream::default();
    let turns = MAX_CPU_SEGMENTS as u64 + 10;
    for turn in 0..=turns {
        stream.switch(0, 10 * turn, task(1 + turn as u32 % 2, "hog"));
    }
    stream.end_wait(0, (0, 10 * turns + 10), waiter());
    let account = breakdown(&stream);
    let share =
        account.shares.iter().find(|share| share.culprit.actor == Actor::Unknown(UnknownReason::HistoryLimit)).unwrap();
    assert_eq!((share.ns, account.component_ns(Component::Same)), (100, 10 * MAX_CPU_SEGMENTS as u64 + 10));
}

#[test]
fn a_task_that_came_from_nowhere_is_without_a_place() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "left"));
    stream.switch(1, 0, task(2, "right"));
    stream.end_wait(1, (200, 1_000), waiter()).cpu = Some(0);
    let account = breakdown(&stream);
    assert_eq!(account.shares[0].culprit.actor, Actor::Unknown(UnknownReason::UnknownCpu));
    assert_eq!(components(&account), [(Component::Unexplained, 800)]);
}

/// Anything at all: which CPU, which kind, and numbers.
type Random = (u32, u8, u64, u64, u32);

/// A stream in which every CPU's clock goes on, and anything may be lost.
fn drawn(random: &[Random]) -> (EventStream, u32) {
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
    fn shares_add_up_whatever_comes(
        random in prop::collection::vec((0..3u32, any::<u8>(), any::<u64>(), any::<u64>(), any::<u32>()), 1..150),
        from in prop_oneof![Just(LatencyFrom::Wakeup), Just(LatencyFrom::Waking)],
    ) {
        let (stream, waits) = drawn(&random);
        let mut timeline = Timeline::new(from);
        let mut accounts = 0;
        for event in &stream.events {
            if let Some(account) = timeline.push(event) {
                check(account);
                accounts += 1;
            }
        }
        prop_assert_eq!(accounts, waits);
        prop_assert_eq!(timeline.event_counts().events, stream.events.len() as u64);
    }

    /// Nested noise, drawn as brackets: who has each ns is known from the drawing.
    #[test]
    fn each_ns_is_the_innermosts(steps in prop::collection::vec((any::<bool>(), 1..50u64), 1..80), begin in 0..2_000u64) {
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
        let account = breakdown(&stream);
        let mut expected = std::collections::BTreeMap::new();
        whose[begin as usize..].iter().for_each(|who| *expected.entry(*who).or_insert(0u64) += 1);
        for share in &account.shares {
            let number = match share.culprit.actor {
                Actor::Interrupt(InterruptSource::Irq { number, .. }) => Some(number),
                _ => None,
            };
            prop_assert_eq!(expected.remove(&number), Some(share.ns));
        }
        prop_assert!(expected.is_empty());
    }
}
