//! Accounts of waits, added up: by part, and by who or what had the time.

use std::collections::HashMap;

use crate::timeline::{
    Account,
    part::{Culprit, CulpritKey, Part},
};

/// Culprits that are kept apart; the time of any further one is known by its part alone.
const CULPRITS: usize = 4096;

/// The sum of some waits.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// How many waits.
    pub waits: u64,
    /// How long they took together: ns.
    pub ns: u128,
    /// The longest: ns.
    pub max_ns: u64,
    /// How many were moved to another CPU.
    pub moved: u64,
    /// Delivery that came before the latency and is not part of it, placement and IPI.
    pub before: [PartSum; 2],
    parts: [PartSum; Part::ALL.len()],
    culprits: HashMap<CulpritKey, CulpritSum>,
}

/// What a part had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSum {
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
    /// How much.
    pub sum: PartSum,
}

impl PartSum {
    fn add(&mut self, ns: u64) {
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

impl Sums {
    /// Adds a wait.
    pub fn add(&mut self, account: &Account) {
        self.waits += 1;
        self.ns += u128::from(account.latency_ns);
        self.max_ns = self.max_ns.max(account.latency_ns);
        self.moved += u64::from(account.waited.moves > 0);
        if let Some(delivery) = account.delivery.filter(|delivery| !delivery.is_counted) {
            self.before[usize::from(delivery.part == Part::Ipi)].add(delivery.ns);
        }
        account.parts().for_each(|(part, ns)| self.parts[part as usize].add(ns));
        for share in &account.shares {
            let key = share.culprit.key();
            if self.culprits.len() >= CULPRITS && !self.culprits.contains_key(&key) {
                continue;
            }
            let culprit = share.culprit;
            let known = self.culprits.entry(key).or_insert(CulpritSum { culprit, sum: PartSum::default() });
            known.culprit = culprit;
            known.sum.add(share.ns);
        }
    }

    /// Adds the sum of other waits.
    pub fn merge(&mut self, other: &Self) {
        self.waits += other.waits;
        self.ns += other.ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.moved += other.moved;
        self.before.iter_mut().zip(&other.before).for_each(|(mine, other)| mine.merge(other));
        self.parts.iter_mut().zip(&other.parts).for_each(|(mine, other)| mine.merge(other));
        for (key, other) in &other.culprits {
            if self.culprits.len() < CULPRITS || self.culprits.contains_key(key) {
                let empty = CulpritSum { culprit: other.culprit, sum: PartSum::default() };
                self.culprits.entry(*key).or_insert(empty).sum.merge(&other.sum);
            }
        }
    }

    /// What a part had.
    pub fn part(&self, part: Part) -> &PartSum {
        &self.parts[part as usize]
    }

    /// The parts that had any of it, the largest first.
    pub fn parts(&self) -> Vec<(Part, PartSum)> {
        let mut parts: Vec<(Part, PartSum)> =
            Part::ALL.into_iter().map(|part| (part, *self.part(part))).filter(|(_, sum)| sum.ns > 0).collect();
        parts.sort_by_key(|(part, sum)| (std::cmp::Reverse(sum.ns), *part));
        parts
    }

    /// Those who had any of it, the largest first.
    pub fn culprits(&self) -> Vec<CulpritSum> {
        let mut culprits: Vec<(&CulpritKey, &CulpritSum)> = self.culprits.iter().collect();
        culprits.sort_by_key(|(key, culprit)| (std::cmp::Reverse(culprit.sum.ns), **key));
        culprits.into_iter().map(|(_, culprit)| *culprit).collect()
    }
}
