//! Who was in the way: the time that each task or interrupt had while others waited for it.

use std::collections::{HashMap, HashSet};

use super::sums::PartSum;
use crate::timeline::{
    Account,
    part::{CulpritKey, Who},
};

/// Those that are kept apart; further ones are counted together.
const CULPRITS: usize = 16_384;

/// Victims that are told apart for each.
const VICTIMS: usize = 16_384;

/// Those in the way of others.
#[derive(Debug, Default)]
pub struct Imposed {
    by_who: HashMap<CulpritKey, Antagonist>,
    rest: PartSum,
}

/// One that was in the way of others.
#[derive(Clone, Debug)]
pub struct Antagonist {
    /// Who, as last seen.
    pub who: Who,
    /// The time it had while others waited, over all of them.
    pub sum: PartSum,
    victims: HashSet<u32>,
}

impl Antagonist {
    /// How many threads waited for it.
    pub fn victims(&self) -> usize {
        self.victims.len()
    }
}

impl Imposed {
    /// Adds a wait.
    pub fn add(&mut self, account: &Account) {
        for share in &account.shares {
            let who = share.culprit.who;
            if !matches!(who, Who::Task(_) | Who::Noise(_)) {
                continue;
            }
            // In whatever part it was, it is the same task.
            let key = share.culprit.identity();
            let part = PartSum { ns: share.ns.into(), max_ns: share.ns, waits: 1 };
            if self.by_who.len() >= CULPRITS && !self.by_who.contains_key(&key) {
                self.rest.merge(&part);
                continue;
            }
            let empty = || Antagonist { who, sum: PartSum::default(), victims: HashSet::new() };
            let known = self.by_who.entry(key).or_insert_with(empty);
            known.who = who;
            known.sum.merge(&part);
            if known.victims.len() < VICTIMS {
                known.victims.insert(account.waiter.tid);
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_who.clear();
        self.rest = PartSum::default();
    }

    /// The first `limit`, the most in the way first, and how many there are.
    pub fn ranking(&self, limit: usize) -> (Vec<Antagonist>, usize) {
        let mut all: Vec<(&CulpritKey, &Antagonist)> = self.by_who.iter().collect();
        all.sort_by_key(|(key, antagonist)| (std::cmp::Reverse(antagonist.sum.ns), **key));
        (all.iter().take(limit).map(|(_, antagonist)| (*antagonist).clone()).collect(), all.len())
    }

    /// What those had for whom there was no room.
    pub fn rest(&self) -> PartSum {
        self.rest
    }
}
