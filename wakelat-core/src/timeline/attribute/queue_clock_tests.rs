//! Waits by the run queue's clock: where they begin is not seen, and their migrations are not counted.

use super::super::testing::{EventStream, task};
use super::tests::check;
use super::*;
use crate::timeline::event::TaskInfo;

const T: u32 = 7;

fn waiter() -> TaskInfo {
    task(T, "victim")
}

fn breakdown(stream: &EventStream) -> Breakdown {
    let mut timeline = Timeline::new(LatencyFrom::Queued);
    let mut found: Vec<Breakdown> = stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect();
    assert_eq!(found.len(), 1);
    check(&found[0]);
    found.remove(0)
}

/// The actor and time of each share.
fn shares(breakdown: &Breakdown) -> Vec<(Option<u32>, u64)> {
    let tid = |actor| if let Actor::Task(task) = actor { Some(task.tid) } else { None };
    breakdown.shares.iter().map(|share| (tid(share.culprit.actor), share.ns)).collect()
}

/// Ends a wait of which only its length and the last CPU are known, and whether it has `migrated`.
fn end_wait(stream: &mut EventStream, cpu: u32, times: (u64, u64), migrated: bool) {
    let waited = stream.end_wait(cpu, times, waiter());
    (waited.cpu, waited.migrations) = if migrated { (None, 1) } else { (Some(cpu), 0) };
}

#[test]
fn a_wait_that_begins_before_the_slice_of_its_task_ends_has_no_share_of_its_own_task() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, waiter());
    stream.preempt(0, 1_000, task(1, "hog"));
    end_wait(&mut stream, 0, (900, 5_000), false);
    assert_eq!(shares(&breakdown(&stream)), [(Some(1), 4_100)]);
}

#[test]
fn if_nothing_is_known_after_the_slice_of_its_task_the_cause_is_unexplained() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, waiter());
    stream.switch(0, 1_000, task(1, "hog"));
    stream.switch(1, 0, task(2, "other"));
    stream.migrate(waiter(), 950, 0, 1);
    end_wait(&mut stream, 1, (900, 5_000), true);
    let breakdown = breakdown(&stream);
    assert_eq!(shares(&breakdown), [(None, 50), (Some(2), 4_050)]);
    assert_eq!(breakdown.shares[0].culprit.actor, Actor::Unknown(UnknownReason::Unseen));
}

#[test]
fn migrations_are_counted_and_each_part_has_the_task_of_its_cpu() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "first"));
    stream.switch(1, 0, task(2, "second"));
    stream.migrate(waiter(), 2_000, 0, 1);
    stream.migrate(waiter(), 3_000, 1, 0);
    stream.migrate(waiter(), 4_000, 0, 1);
    end_wait(&mut stream, 1, (1_000, 5_000), true);
    let breakdown = breakdown(&stream);
    assert_eq!(breakdown.ended_wait.migrations, 3);
    assert_eq!(shares(&breakdown), [(Some(1), 2_000), (Some(2), 2_000)]);
}

#[test]
fn a_wait_that_migrated_without_a_record_of_it_is_unexplained() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    end_wait(&mut stream, 0, (1_000, 5_000), true);
    let breakdown = breakdown(&stream);
    assert_eq!(breakdown.ended_wait.migrations, 1);
    assert_eq!(breakdown.shares[0].culprit.actor, Actor::Unknown(UnknownReason::UnknownCpu));
}
