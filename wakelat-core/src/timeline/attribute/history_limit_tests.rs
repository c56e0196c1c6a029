//! The room for the segments of all CPUs.

use super::{
    super::{
        breakdown::Share,
        testing::{EventStream, task},
    },
    tests::{breakdown, waiter},
    *,
};

#[test]
fn time_beyond_the_history_limit_is_unexplained() {
    let mut stream = EventStream::default();
    let rounds = MAX_CPU_SEGMENTS as u64 + 10;
    for round in 0..=rounds {
        stream.switch(0, 10 * round, task(1 + round as u32 % 2, "hog"));
    }
    stream.end_wait(0, (0, 10 * rounds + 10), waiter());
    let breakdown = breakdown(&stream);
    let is_beyond = |share: &&Share| share.culprit.actor == Actor::Unknown(UnknownReason::HistoryLimit);
    let share = breakdown.shares.iter().find(is_beyond).unwrap();
    assert_eq!((share.ns, breakdown.component_ns(Component::Same)), (100, 10 * MAX_CPU_SEGMENTS as u64 + 10));
}

#[test]
fn cpus_without_events_leave_their_room_to_the_others() {
    let mut timeline = Timeline::new(LatencyFrom::Wakeup);
    let rounds = MAX_CPU_SEGMENTS as u64 - 10;
    // One CPU after another, each in a time of its own, as in several recordings.
    for cpu in 0..16 {
        let begin_ns = 100 * rounds * u64::from(cpu);
        let mut stream = EventStream::default();
        for round in 0..=rounds {
            stream.switch(cpu, begin_ns + 10 * round, task(1 + round as u32 % 2, "hog"));
        }
        stream.end_wait(cpu, (begin_ns, begin_ns + 10 * rounds + 10), waiter());
        let mut unexplained = None;
        for event in &stream.events {
            if let Some(breakdown) = timeline.push(event) {
                unexplained = Some(breakdown.component_ns(Component::Unexplained));
            }
        }
        assert_eq!(unexplained, Some(0), "CPU {cpu}");
        assert!(timeline.segments <= SEGMENTS, "{}", timeline.segments);
        assert_eq!(timeline.segments, timeline.cpus.values().map(History::segments).sum::<usize>());
    }
}

#[test]
fn tasks_without_a_segment_lose_their_number_and_the_others_keep_their_time() {
    let (tasks, waits_ns, mut stream) = (4 * MAX_CPU_SEGMENTS as u32, 10_000, EventStream::default());
    (0..tasks).for_each(|number| _ = stream.switch(0, 10 * u64::from(number), task(100 + number, "once")));
    let end_ns = 10 * u64::from(tasks);
    stream.end_wait(0, (end_ns - waits_ns, end_ns), waiter());
    let (mut timeline, mut most) = (Timeline::new(LatencyFrom::Wakeup), 0);
    let mut tids = Vec::new();
    for event in &stream.events {
        if let Some(breakdown) = timeline.push(event) {
            tids.extend(breakdown.shares.iter().map(|share| match share.culprit.actor {
                Actor::Task(runs) => (runs.tid, share.ns),
                _ => panic!("{share:?}"),
            }));
        }
        most = most.max(timeline.occupants.size());
    }
    assert!(most <= 2 * MAX_CPU_SEGMENTS + 100, "{most}");
    let last = tasks - waits_ns as u32 / 10..tasks;
    assert_eq!(tids, last.map(|number| (100 + number, 10)).collect::<Vec<_>>());
}
