//! The longest waits, each with all that is known about it.

use std::cmp::Reverse;

use super::{
    stacks::{SymbolizedStacks, WaitStacks},
    works::WorkItems,
};
use crate::timeline::{Breakdown, account::Share, part::CulpritKey};

/// A wait.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// Where its time went.
    pub breakdown: Breakdown,
    /// Its stacks.
    pub stacks: WaitStacks,
    /// The same by names, once somebody has looked them up.
    pub symbolized: Option<SymbolizedStacks>,
}

/// The longest first; of equally long ones the one that ended first.
#[derive(Clone, Debug, Default)]
pub struct LongestWaits {
    kept: Vec<Exemplar>,
    /// The first that there was no room for: whatever comes behind it is not one of the longest that are known.
    given_up: Option<WaitOrder>,
}

/// Where a wait stands among others: latency, end, thread.
type WaitOrder = (Reverse<u64>, u64, u32);

fn order(account: &Breakdown) -> WaitOrder {
    let wait = &account.ended_wait.wait;
    (Reverse(account.latency_ns), wait.at_ns, wait.tid)
}

impl Exemplar {
    fn order(&self) -> WaitOrder {
        order(&self.breakdown)
    }

    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        let Breakdown { shares, spans, work_items: works, .. } = &self.breakdown;
        // Many shares have an index beside them.
        let share = size_of::<Share>() + size_of::<(CulpritKey, usize)>();
        size_of::<Self>() + shares.len() * share + size_of_val(&spans[..]) + size_of_val(&works[..])
    }
}

impl LongestWaits {
    /// Keeps a wait where it is among the `limit` longest, with what workers did in it. Returns whether it is.
    pub fn offer(&mut self, account: &Breakdown, stacks: WaitStacks, limit: usize, works: &WorkItems) -> bool {
        let order = order(account);
        let at = self.kept.partition_point(|other| other.order() < order);
        if at >= limit || self.given_up.is_some_and(|first| first < order) {
            return false;
        }
        let mut account = account.clone();
        works.annotate(&mut account);
        self.kept.insert(at, Exemplar { breakdown: account, stacks, symbolized: None });
        self.kept.truncate(limit);
        true
    }

    /// Adds those of other waits; `limit` is that of both.
    pub fn merge(&mut self, other: &Self, limit: usize) {
        self.kept.extend(other.kept.iter().cloned());
        self.given_up = [self.given_up, other.given_up].into_iter().flatten().min();
        if let Some(first) = self.given_up {
            self.kept.retain(|exemplar| exemplar.order() < first);
        }
        self.kept.sort_by_key(Exemplar::order);
        self.kept.truncate(limit);
    }

    /// Gives up the last, for want of room, and whatever would come behind it.
    pub fn give_up(&mut self) -> Option<Exemplar> {
        let last = self.kept.pop()?;
        self.given_up = Some(last.order());
        Some(last)
    }

    /// Whether there was no room for some.
    pub fn has_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// They.
    pub fn waits(&self) -> &[Exemplar] {
        &self.kept
    }

    /// The same, for good.
    pub fn into_waits(self) -> Vec<Exemplar> {
        self.kept
    }

    /// How much memory they take.
    pub fn bytes(&self) -> usize {
        self.kept.iter().map(Exemplar::bytes).sum()
    }

    /// Forgets all.
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
            fixtures::{EventStream, task},
        },
    };

    /// The account of a wait of so long that ended then, behind one task.
    fn account(latency_ns: u64, at_ns: u64) -> Breakdown {
        let mut stream = EventStream::default();
        stream.switch(0, 1, task(7, "hog"));
        stream.end_wait(0, (at_ns - latency_ns, at_ns), task(1, "waits"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().find_map(|event| timeline.push(event).cloned()).unwrap()
    }

    fn of(longest: &LongestWaits) -> Vec<(u64, u64)> {
        longest.waits().iter().map(|one| (one.breakdown.latency_ns, one.breakdown.ended_wait.wait.at_ns)).collect()
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
                    longest.offer(&account(*latency_ns, *at_ns), WaitStacks::default(), limit, &WorkItems::default());
                }
                longest
            };
            let (first, second) = waits.split_at(waits.len() / 2);
            let (mut one, mut other) = (offer(first), offer(second));
            let before = one.clone();
            one.merge(&other, limit);
            other.merge(&before, limit);
            prop_assert_eq!(of(&one), of(&other));
            prop_assert_eq!(of(&one), of(&offer(&waits)));
            waits.sort_by_key(|(latency_ns, at_ns)| (Reverse(*latency_ns), *at_ns));
            waits.truncate(limit);
            prop_assert_eq!(of(&one), waits);
        }
    }

    #[test]
    fn a_shorter_one_does_not_take_the_place_of_one_that_was_given_up() {
        let mut longest = LongestWaits::default();
        let offer = |longest: &mut LongestWaits, ns| {
            longest.offer(&account(ns, 100 + ns), WaitStacks::default(), 3, &WorkItems::default())
        };
        [50, 40, 30].into_iter().for_each(|ns| assert!(offer(&mut longest, ns)));
        assert_eq!(longest.give_up().map(|one| one.breakdown.latency_ns), Some(30));
        assert!(!offer(&mut longest, 20));
        assert!(offer(&mut longest, 60));
        assert_eq!((of(&longest), longest.has_given_up()), (vec![(60, 160), (50, 150), (40, 140)], true));
    }
}
