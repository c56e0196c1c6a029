//! Where the time of one wait went: shares that add up to its latency, to the ns.

use crate::hash::HashMap;

use super::{
    event::{DetailedWait, TaskInfo},
    part::{Component, Culprit, CulpritKey},
};

/// Where the time of one wait went.
#[derive(Clone, Debug)]
pub struct Breakdown {
    /// The wait.
    pub ended_wait: DetailedWait,
    /// The task that waited, as it was switched in.
    pub waiter: TaskInfo,
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
    pub work_items: Vec<WorkItemShare>,
    index: HashMap<CulpritKey, usize>,
}

/// From `sched_waking` to `sched_wakeup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// [`Component::Placement`] or [`Component::Ipi`].
    pub component: Component,
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
pub struct WorkItemShare {
    /// Which of the shares.
    pub share: usize,
    /// The address of the function.
    pub function: u64,
    /// How much of the share it had: ns.
    pub ns: u64,
}

/// So many shares are looked through; of more, an index is kept.
const FEW: usize = 8;

impl Breakdown {
    /// Nothing accounted for yet.
    pub(super) fn new(ended_wait: DetailedWait, waiter: TaskInfo) -> Self {
        Self {
            ended_wait,
            waiter,
            from_ns: 0,
            latency_ns: 0,
            delivery: None,
            shares: Vec::new(),
            spans: Vec::new(),
            work_items: Vec::new(),
            index: HashMap::default(),
        }
    }

    /// Begins anew, in the memory that is there.
    pub(super) fn reset(&mut self, waited: DetailedWait, waiter: TaskInfo) {
        let latency_ns = waited.wait.latency_ns;
        let from_ns = waited.wait.at_ns.saturating_sub(latency_ns);
        (self.ended_wait, self.waiter, self.from_ns, self.latency_ns) = (waited, waiter, from_ns, latency_ns);
        self.delivery = None;
        self.shares.clear();
        self.spans.clear();
        self.work_items.clear();
        self.index.clear();
    }

    /// Gives a piece of the time to somebody.
    pub(super) fn add_span(&mut self, culprit: Culprit, cpu: Option<u32>, from_ns: u64, to_ns: u64) {
        if from_ns < to_ns {
            let share = self.add_share(culprit, to_ns - from_ns);
            self.spans.push(Span { share, cpu, from_ns, to_ns });
        }
    }

    /// Gives so much to somebody, of which nobody knows when it was.
    pub(super) fn add_undated(&mut self, culprit: Culprit, ns: u64) {
        if ns > 0 {
            self.add_share(culprit, ns);
        }
    }

    fn add_share(&mut self, culprit: Culprit, ns: u64) -> usize {
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
    pub fn components(&self) -> impl Iterator<Item = (Component, u64)> + use<> {
        let mut parts = [0; Component::ALL.len()];
        self.shares.iter().for_each(|share| parts[share.culprit.component as usize] += share.ns);
        Component::ALL.into_iter().zip(parts).filter(|(_, ns)| *ns > 0)
    }

    /// How much went to a part: ns.
    pub fn component_ns(&self, part: Component) -> u64 {
        self.shares.iter().filter(|share| share.culprit.component == part).map(|share| share.ns).sum()
    }
}
