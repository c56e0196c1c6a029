//! Sums of breakdowns, by component and by culprit.

use super::places::Places;
use crate::aggregate::space_saving::{Evicted, SpaceSaving, Sum};
use crate::timeline::{
    Breakdown,
    component::{Component, Culprit, CulpritKey},
};

/// The sum of the breakdowns of several waits.
#[derive(Clone, Debug, Default)]
pub struct BreakdownSum {
    /// The number of waits.
    pub waits: u64,
    /// Their total latency: ns.
    pub ns: u128,
    /// The longest latency: ns.
    pub max_ns: u64,
    /// How many of them include a migration.
    pub migrated: u64,
    /// Delivery that precedes the latency and is not part of it: placement, then IPI.
    pub before: [TimeSum; 2],
    components: [TimeSum; Component::ALL.len()],
    culprits: SpaceSaving<CulpritKey, CulpritSum>,
}

/// The time of a component, a culprit or a cause in several waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSum {
    /// Its time in all waits: ns.
    pub ns: u128,
    /// Its longest time in one wait: ns.
    pub max_ns: u64,
    /// The number of waits in which it had time.
    pub waits: u64,
}

/// The shares of one key in the wait that is being added: together, they count as one time of that wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharesInWait {
    /// The number of the wait; 0 before the first one.
    wait: u64,
    /// Their time so far: ns.
    ns: u64,
}

/// The time of one culprit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CulpritSum {
    /// The culprit, as last seen.
    pub culprit: Culprit,
    /// When it was last seen: ns of CLOCK_MONOTONIC.
    at_ns: u64,
    /// Its time.
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
    /// Adds the time in one more wait: ns. Does nothing if it is 0.
    pub fn add(&mut self, ns: u64) {
        if ns > 0 {
            self.ns += u128::from(ns);
            self.max_ns = self.max_ns.max(ns);
            self.waits += 1;
        }
    }

    /// Adds the time in other waits.
    pub fn merge(&mut self, other: &Self) {
        self.ns += other.ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.waits += other.waits;
    }
}

impl SharesInWait {
    /// Adds `ns` of a share to the sum of its key. Shares are added wait by wait; the first wait has the number 1.
    /// Returns whether it is the first share of the key in this wait.
    pub fn add(&mut self, wait: u64, ns: u64, sum: &mut TimeSum) -> bool {
        let is_first = ns > 0 && self.wait != wait;
        if ns > 0 {
            if is_first {
                *self = Self { wait, ns: 0 };
                sum.waits += 1;
            }
            self.ns += ns;
            sum.ns += u128::from(ns);
            sum.max_ns = sum.max_ns.max(self.ns);
        }
        is_first
    }

    /// The time of the shares of the last wait so far: ns.
    pub fn ns(&self) -> u64 {
        self.ns
    }
}

impl CulpritSum {
    fn new(culprit: Culprit) -> Self {
        Self { culprit, at_ns: 0, sum: TimeSum::default() }
    }

    /// Keeps the latest state of the culprit, whatever the order of the updates: a task's priority may have changed.
    fn update(&mut self, at_ns: u64, culprit: Culprit) {
        (self.at_ns, self.culprit) = (self.at_ns, self.culprit).max((at_ns, culprit));
    }

    fn merge(&mut self, other: &Self) {
        self.update(other.at_ns, other.culprit);
        self.sum.merge(&other.sum);
    }
}

impl BreakdownSum {
    /// Adds a wait. `places` has the places of this sum's culprits.
    pub fn add(&mut self, breakdown: &Breakdown, places: &mut Places) {
        self.waits += 1;
        self.ns += u128::from(breakdown.latency_ns);
        self.max_ns = self.max_ns.max(breakdown.latency_ns);
        self.migrated += u64::from(breakdown.ended_wait.migrations > 0);
        if let Some(delivery) = breakdown.delivery.filter(|delivery| !delivery.is_counted) {
            self.before[usize::from(delivery.component == Component::Ipi)].add(delivery.ns);
        }
        breakdown.components().for_each(|(component, ns)| self.components[component as usize].add(ns));
        for share in &breakdown.shares {
            let place = places.of(share.number);
            let known = self.culprits.entry_near(place, share.culprit.key(), || CulpritSum::new(share.culprit));
            known.update(breakdown.ended_wait.wait.at_ns, share.culprit);
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

    /// Evicts the smallest culprits if there are more than `limit`.
    pub fn evict_above(&mut self, limit: usize) {
        self.culprits.evict_above(limit, |_, _| ());
    }

    /// Keeps the `most` largest culprits and evicts the others.
    pub fn keep_largest(&mut self, most: usize) {
        self.culprits.keep(most, |_, _| ());
    }

    /// The number of culprits that are kept, which excludes evicted ones.
    pub fn culprit_count(&self) -> usize {
        self.culprits.size()
    }

    /// The time of one component.
    pub fn component(&self, component: Component) -> &TimeSum {
        &self.components[component as usize]
    }

    /// The components that have time, the largest first.
    pub fn components(&self) -> Vec<(Component, TimeSum)> {
        let mut components: Vec<(Component, TimeSum)> = Component::ALL
            .into_iter()
            .map(|component| (component, *self.component(component)))
            .filter(|(_, sum)| sum.ns > 0)
            .collect();
        components.sort_by_key(|(component, sum)| (std::cmp::Reverse(sum.ns), *component));
        components
    }

    /// The culprits that are kept, the largest first.
    pub fn culprits(&self) -> Vec<CulpritSum> {
        self.culprits.ranking().into_iter().map(|(_, culprit)| *culprit).collect()
    }

    /// The culprits that were evicted.
    pub fn evicted(&self) -> Evicted {
        self.culprits.evicted()
    }
}
