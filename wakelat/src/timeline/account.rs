//! Where the time of one wait went: shares that add up to its latency, to the ns.

use crate::hash::HashMap;

use super::{
    event::{Occupant, Waited},
    part::{Culprit, CulpritKey, Part},
};

/// Where the time of one wait went.
#[derive(Clone, Debug)]
pub struct Account {
    /// The wait.
    pub waited: Waited,
    /// The task that waited, as it was switched in.
    pub waiter: Occupant,
    /// When the time that is accounted for began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// That time: ns. Its end is [`crate::wait::Wait::at_ns`].
    pub latency_ns: u64,
    /// The stage before the wakeup latency, where it is known.
    pub delivery: Option<Delivery>,
    /// The shares, in the order in which each first had the time. Their sum is the latency.
    pub shares: Vec<Share>,
    /// The same on the time line, in its order.
    pub spans: Vec<Span>,
    /// What workers of workqueues did in their shares, the most first; empty unless somebody has looked.
    pub works: Vec<Did>,
    index: HashMap<CulpritKey, usize>,
}

/// From `sched_waking` to `sched_wakeup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// [`Part::Placement`] or [`Part::Ipi`].
    pub part: Part,
    /// How long it took: ns.
    pub ns: u64,
    /// It is part of the latency, and has a share.
    pub is_counted: bool,
}

/// A share of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What it went to.
    pub culprit: Culprit,
    /// How much: ns.
    pub ns: u64,
    /// In how many pieces.
    pub times: u64,
}

/// A piece of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which of the shares.
    pub share: usize,
    /// On whose run queue the task stood, where it is known.
    pub cpu: Option<u32>,
    /// Where it begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
}

/// What a worker of a workqueue did in its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Did {
    /// Which of the shares.
    pub share: usize,
    /// The address of the function.
    pub function: u64,
    /// How much of the share it had: ns.
    pub ns: u64,
}

/// So many shares are looked through; of more, an index is kept.
const FEW: usize = 8;

impl Account {
    /// Nothing accounted for yet.
    pub(super) fn new(waited: Waited, waiter: Occupant) -> Self {
        Self {
            waited,
            waiter,
            from_ns: 0,
            latency_ns: 0,
            delivery: None,
            shares: Vec::new(),
            spans: Vec::new(),
            works: Vec::new(),
            index: HashMap::default(),
        }
    }

    /// Begins anew, in the memory that is there.
    pub(super) fn reset(&mut self, waited: Waited, waiter: Occupant) {
        let latency_ns = waited.wait.latency_ns;
        let from_ns = waited.wait.at_ns.saturating_sub(latency_ns);
        (self.waited, self.waiter, self.from_ns, self.latency_ns) = (waited, waiter, from_ns, latency_ns);
        self.delivery = None;
        self.shares.clear();
        self.spans.clear();
        self.works.clear();
        self.index.clear();
    }

    /// Gives a piece of the time to somebody.
    pub(super) fn give(&mut self, culprit: Culprit, cpu: Option<u32>, from_ns: u64, to_ns: u64) {
        if from_ns < to_ns {
            let share = self.add(culprit, to_ns - from_ns);
            self.spans.push(Span { share, cpu, from_ns, to_ns });
        }
    }

    /// Gives so much to somebody, of which nobody knows when it was.
    pub(super) fn give_some(&mut self, culprit: Culprit, ns: u64) {
        if ns > 0 {
            self.add(culprit, ns);
        }
    }

    fn add(&mut self, culprit: Culprit, ns: u64) -> usize {
        let key = culprit.key();
        let known = if self.shares.len() <= FEW {
            self.shares.iter().position(|share| share.culprit.key() == key)
        } else {
            if self.index.is_empty() {
                self.index.extend(self.shares.iter().enumerate().map(|(index, share)| (share.culprit.key(), index)));
            }
            self.index.get(&key).copied()
        };
        match known {
            Some(index) => {
                self.shares[index].ns += ns;
                self.shares[index].times += 1;
                index
            }
            None => {
                self.shares.push(Share { culprit, ns, times: 1 });
                let index = self.shares.len() - 1;
                if !self.index.is_empty() {
                    self.index.insert(key, index);
                }
                index
            }
        }
    }

    /// The parts that have any of it: ns.
    pub fn parts(&self) -> impl Iterator<Item = (Part, u64)> + use<> {
        let mut parts = [0; Part::ALL.len()];
        self.shares.iter().for_each(|share| parts[share.culprit.part as usize] += share.ns);
        Part::ALL.into_iter().zip(parts).filter(|(_, ns)| *ns > 0)
    }

    /// How much went to a part: ns.
    pub fn of(&self, part: Part) -> u64 {
        self.shares.iter().filter(|share| share.culprit.part == part).map(|share| share.ns).sum()
    }
}
