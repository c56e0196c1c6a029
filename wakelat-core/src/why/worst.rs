//! The longest waits, each with its breakdown and stacks.

use std::cmp::Reverse;

use super::{
    stacks::{SymbolizedStacks, WaitStacks},
    work_items::WorkItems,
};
use crate::timeline::Breakdown;

/// One of the longest waits.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// The breakdown of the wait.
    pub breakdown: Breakdown,
    /// The stacks of the waker and of the task that waited.
    pub stacks: WaitStacks,
    /// The stacks with the names of their functions; `None` until they are looked up.
    pub symbolized: Option<SymbolizedStacks>,
}

/// The longest waits, the longest first; of equally long ones, the one that ended first.
#[derive(Clone, Debug, Default)]
pub struct LongestWaits {
    kept: Vec<Exemplar>,
    /// The first wait that was given up for lack of room. No wait that sorts after it is added again: the result would
    /// have a gap.
    given_up: Option<WaitOrder>,
}

/// The sort key of a wait: latency, end, thread.
type WaitOrder = (Reverse<u64>, u64, u32);

fn order(breakdown: &Breakdown) -> WaitOrder {
    let wait = &breakdown.ended_wait.wait;
    (Reverse(breakdown.latency_ns), wait.at_ns, wait.tid)
}

impl Exemplar {
    fn order(&self) -> WaitOrder {
        order(&self.breakdown)
    }

    /// The memory that the wait takes: bytes.
    pub fn bytes(&self) -> usize {
        let Breakdown { shares, spans, work_items, .. } = &self.breakdown;
        size_of::<Self>() + size_of_val(&shares[..]) + size_of_val(&spans[..]) + size_of_val(&work_items[..])
    }
}

impl LongestWaits {
    /// Adds a wait, with the work items that ran in it, if it is one of the `limit` longest. Returns whether it is.
    pub fn offer(&mut self, breakdown: &Breakdown, stacks: WaitStacks, limit: usize, work_items: &WorkItems) -> bool {
        let order = order(breakdown);
        let at = self.kept.partition_point(|other| other.order() < order);
        if at >= limit || self.given_up.is_some_and(|first| first < order) {
            return false;
        }
        let mut breakdown = breakdown.clone();
        work_items.annotate(&mut breakdown);
        self.kept.insert(at, Exemplar { breakdown, stacks, symbolized: None });
        self.kept.truncate(limit);
        true
    }

    /// Adds the longest of other waits. `limit` is the limit of both.
    pub fn merge(&mut self, other: &Self, limit: usize) {
        self.kept.extend(other.kept.iter().cloned());
        self.given_up = [self.given_up, other.given_up].into_iter().flatten().min();
        if let Some(first) = self.given_up {
            self.kept.retain(|exemplar| exemplar.order() < first);
        }
        self.kept.sort_by_key(Exemplar::order);
        self.kept.truncate(limit);
    }

    /// Gives up the last wait for lack of room, and with it all waits that sort after it.
    pub fn give_up(&mut self) -> Option<Exemplar> {
        let last = self.kept.pop()?;
        self.given_up = Some(last.order());
        Some(last)
    }

    /// Whether some waits were given up for lack of room.
    pub fn has_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// The waits, the longest first.
    pub fn waits(&self) -> &[Exemplar] {
        &self.kept
    }

    /// Consumes the table and returns the waits, the longest first.
    pub fn into_waits(self) -> Vec<Exemplar> {
        self.kept
    }

    /// The memory that the waits take: bytes.
    pub fn bytes(&self) -> usize {
        self.kept.iter().map(Exemplar::bytes).sum()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{
            Timeline,
            testing::{EventStream, task},
        },
    };

    /// The breakdown of a wait of `latency_ns` that ended at `at_ns`, behind one task.
    fn breakdown(latency_ns: u64, at_ns: u64) -> Breakdown {
        let mut stream = EventStream::default();
        stream.switch(0, 1, task(7, "hog"));
        stream.end_wait(0, (at_ns - latency_ns, at_ns), task(1, "waits"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().find_map(|event| timeline.push(event).cloned()).unwrap()
    }

    fn keys(longest: &LongestWaits) -> Vec<(u64, u64)> {
        longest.waits().iter().map(|wait| (wait.breakdown.latency_ns, wait.breakdown.ended_wait.wait.at_ns)).collect()
    }

    proptest! {
        #[test]
        fn the_longest_are_kept_whatever_the_order(waits in prop::collection::vec((1..20u64, 100..120u64), 0..30), limit in 0..5usize) {
            let mut waits: Vec<(u64, u64)> = waits.into_iter().collect();
            waits.sort_unstable();
            waits.dedup();
            let offer = |waits: &[(u64, u64)]| {
                let mut longest = LongestWaits::default();
                for (latency_ns, at_ns) in waits {
                    longest.offer(&breakdown(*latency_ns, *at_ns), WaitStacks::default(), limit, &WorkItems::default());
                }
                longest
            };
            let (first, second) = waits.split_at(waits.len() / 2);
            let (mut one, mut other) = (offer(first), offer(second));
            let before = one.clone();
            one.merge(&other, limit);
            other.merge(&before, limit);
            prop_assert_eq!(keys(&one), keys(&other));
            prop_assert_eq!(keys(&one), keys(&offer(&waits)));
            waits.sort_by_key(|(latency_ns, at_ns)| (Reverse(*latency_ns), *at_ns));
            waits.truncate(limit);
            prop_assert_eq!(keys(&one), waits);
        }
    }

    #[test]
    fn a_shorter_wait_does_not_replace_one_that_was_given_up() {
        let mut longest = LongestWaits::default();
        let offer = |longest: &mut LongestWaits, ns| {
            longest.offer(&breakdown(ns, 100 + ns), WaitStacks::default(), 3, &WorkItems::default())
        };
        [50, 40, 30].into_iter().for_each(|ns| assert!(offer(&mut longest, ns)));
        assert_eq!(longest.give_up().map(|wait| wait.breakdown.latency_ns), Some(30));
        assert!(!offer(&mut longest, 20));
        assert!(offer(&mut longest, 60));
        assert_eq!((keys(&longest), longest.has_given_up()), (vec![(60, 160), (50, 150), (40, 140)], true));
    }
}
