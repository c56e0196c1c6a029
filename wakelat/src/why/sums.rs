//! Accounts of waits, added up: by part, and by who or what had the time.

use crate::aggregate::bounded::{Evicted, SpaceSaving, Sum};
use crate::timeline::{
    Breakdown,
    part::{Component, Culprit, CulpritKey},
};

/// The sum of some waits.
#[derive(Clone, Debug, Default)]
pub struct BreakdownSum {
    /// How many waits.
    pub waits: u64,
    /// How long they took together: ns.
    pub ns: u128,
    /// The longest: ns.
    pub max_ns: u64,
    /// How many were moved to another CPU.
    pub migrated: u64,
    /// Delivery that came before the latency and is not part of it, placement and IPI.
    pub before: [TimeSum; 2],
    components: [TimeSum; Component::ALL.len()],
    culprits: SpaceSaving<CulpritKey, CulpritSum>,
}

/// What a part had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSum {
    /// Of all waits: ns.
    pub ns: u128,
    /// Of one wait: ns.
    pub max_ns: u64,
    /// In how many waits.
    pub waits: u64,
}

/// What somebody had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CulpritSum {
    /// Who, as last seen.
    pub culprit: Culprit,
    /// When: ns of CLOCK_MONOTONIC.
    at_ns: u64,
    /// How much.
    pub sum: TimeSum,
}

impl Sum for TimeSum {
    fn size(&self) -> u128 {
        self.ns
    }
}

impl Sum for CulpritSum {
    fn size(&self) -> u128 {
        self.sum.ns
    }
}

impl TimeSum {
    /// Adds what it had of one more wait: ns.
    pub fn add(&mut self, ns: u64) {
        if ns > 0 {
            self.ns += u128::from(ns);
            self.max_ns = self.max_ns.max(ns);
            self.waits += 1;
        }
    }

    /// Adds what another had in other waits.
    pub fn merge(&mut self, other: &Self) {
        self.ns += other.ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.waits += other.waits;
    }
}

impl CulpritSum {
    fn new(culprit: Culprit) -> Self {
        Self { culprit, at_ns: 0, sum: TimeSum::default() }
    }

    /// The same task may have had another priority: the last counts, whatever the order of adding up.
    fn update(&mut self, at_ns: u64, culprit: Culprit) {
        (self.at_ns, self.culprit) = (self.at_ns, self.culprit).max((at_ns, culprit));
    }

    fn merge(&mut self, other: &Self) {
        self.update(other.at_ns, other.culprit);
        self.sum.merge(&other.sum);
    }
}

impl BreakdownSum {
    /// Adds a wait.
    pub fn add(&mut self, account: &Breakdown) {
        self.waits += 1;
        self.ns += u128::from(account.latency_ns);
        self.max_ns = self.max_ns.max(account.latency_ns);
        self.migrated += u64::from(account.ended_wait.migrations > 0);
        if let Some(delivery) = account.delivery.filter(|delivery| !delivery.is_counted) {
            self.before[usize::from(delivery.component == Component::Ipi)].add(delivery.ns);
        }
        account.components().for_each(|(part, ns)| self.components[part as usize].add(ns));
        for share in &account.shares {
            let known = self.culprits.entry(share.culprit.key(), || CulpritSum::new(share.culprit));
            known.update(account.ended_wait.wait.at_ns, share.culprit);
            known.sum.add(share.ns);
        }
    }

    /// Adds the sum of other waits.
    pub fn merge(&mut self, other: &Self) {
        self.waits += other.waits;
        self.ns += other.ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.migrated += other.migrated;
        self.before.iter_mut().zip(&other.before).for_each(|(mine, other)| mine.merge(other));
        self.components.iter_mut().zip(&other.components).for_each(|(mine, other)| mine.merge(other));
        self.culprits.merge(&other.culprits, CulpritSum::merge);
    }

    /// Where there are more than `limit` culprits, goes on with the larger ones.
    pub fn evict_above(&mut self, limit: usize) {
        self.culprits.evict_above(limit, |_, _| ());
    }

    /// Goes on with the `most` largest culprits.
    pub fn keep_largest(&mut self, most: usize) {
        self.culprits.keep(most, |_, _| ());
    }

    /// How many culprits are known one by one.
    pub fn culprit_count(&self) -> usize {
        self.culprits.size()
    }

    /// What a part had.
    pub fn component(&self, part: Component) -> &TimeSum {
        &self.components[part as usize]
    }

    /// The parts that had any of it, the largest first.
    pub fn components(&self) -> Vec<(Component, TimeSum)> {
        let mut parts: Vec<(Component, TimeSum)> = Component::ALL
            .into_iter()
            .map(|part| (part, *self.component(part)))
            .filter(|(_, sum)| sum.ns > 0)
            .collect();
        parts.sort_by_key(|(part, sum)| (std::cmp::Reverse(sum.ns), *part));
        parts
    }

    /// Those who had any of it, the largest first.
    pub fn culprits(&self) -> Vec<CulpritSum> {
        self.culprits.ranking().into_iter().map(|(_, culprit)| *culprit).collect()
    }

    /// The culprits that there was no room for.
    pub fn evicted(&self) -> Evicted {
        self.culprits.evicted()
    }
}

/// What each had of a wait, once for each `K` that `of` makes of its shares, in the order of `K`: the last of its culprits, and
/// all that they had, ns.
pub fn sum_by<K: Ord>(account: &Breakdown, of: impl Fn(&Culprit) -> Option<K>) -> Vec<(K, Culprit, u64)> {
    let shares = account.shares.iter();
    let mut all: Vec<(K, Culprit, u64)> =
        shares.filter_map(|share| Some((of(&share.culprit)?, share.culprit, share.ns))).collect();
    all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    all.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            (kept.1, kept.2) = (next.1, kept.2 + next.2);
        }
        is_same
    });
    all
}
