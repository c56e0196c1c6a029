//! The breakdown of one wait: shares that add up to its latency, to the ns.

use super::{
    component::{Component, Culprit},
    culprit_number::CulpritNumber,
    event::{DetailedWait, TaskInfo},
};

/// The latency of one wait, divided into shares.
#[derive(Clone, Debug)]
pub struct Breakdown {
    /// The wait.
    pub ended_wait: DetailedWait,
    /// The task that waited, as it was switched in.
    pub waiter: TaskInfo,
    /// When the latency begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// The latency: ns. It ends at [`crate::wait::Wait::at_ns`].
    pub latency_ns: u64,
    /// The stage before the wakeup latency, if known.
    pub delivery: Option<Delivery>,
    /// One share for each culprit, in the order in which the culprits first had the time. They add up to the latency.
    pub shares: Vec<Share>,
    /// The pieces of the shares on the timeline, in chronological order.
    pub spans: Vec<Span>,
    /// The work items that workqueue workers ran in their shares, the longest first; empty unless looked up.
    pub work_items: Vec<WorkItemShare>,
}

/// The stage from `sched_waking` to `sched_wakeup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// [`Component::Placement`] or [`Component::Ipi`].
    pub component: Component,
    /// How long it took: ns.
    pub ns: u64,
    /// Whether delivery is part of the latency and has a share.
    pub is_counted: bool,
}

/// The time of a wait that one culprit caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The culprit.
    pub culprit: Culprit,
    /// The number of the culprit, for lookups while the wait is added to sums.
    pub number: CulpritNumber,
    /// Its time: ns.
    pub ns: u64,
    /// The number of pieces that the time consists of.
    pub times: u64,
}

/// A contiguous piece of a wait that one culprit caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of its share in [`Breakdown::shares`].
    pub share: usize,
    /// The CPU whose run queue held the task, if known.
    pub cpu: Option<u32>,
    /// When it begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ends: ns of CLOCK_MONOTONIC.
    pub to_ns: u64,
}

/// The time of a worker's share in which it ran one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItemShare {
    /// Index of the worker's share in [`Breakdown::shares`].
    pub share: usize,
    /// Address of the function.
    pub function: u64,
    /// How much of the share it took: ns.
    pub ns: u64,
}

impl Breakdown {
    /// Begin and end of the pieces of a share since the wait began: ns. Pieces with a gap of at most `gap_ns` are one.
    pub fn pieces(&self, share: usize, gap_ns: u64) -> Vec<(u64, u64)> {
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for span in self.spans.iter().filter(|span| span.share == share) {
            let (from_ns, to_ns) = (span.from_ns - self.from_ns, span.to_ns - self.from_ns);
            match pieces.last_mut() {
                Some((_, end_ns)) if from_ns - *end_ns <= gap_ns => *end_ns = to_ns,
                _ => pieces.push((from_ns, to_ns)),
            }
        }
        pieces
    }

    /// A breakdown without shares.
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
        }
    }

    /// Starts the breakdown of another wait, reusing the memory of this one.
    pub(super) fn reset(&mut self, waited: DetailedWait, waiter: TaskInfo) {
        let latency_ns = waited.wait.latency_ns;
        let from_ns = waited.wait.at_ns.saturating_sub(latency_ns);
        (self.ended_wait, self.waiter, self.from_ns, self.latency_ns) = (waited, waiter, from_ns, latency_ns);
        self.delivery = None;
        self.shares.clear();
        self.spans.clear();
        self.work_items.clear();
    }

    /// The components that the wait has time in, with that time: ns.
    pub fn components(&self) -> impl Iterator<Item = (Component, u64)> + use<> {
        let mut sums = [0; Component::ALL.len()];
        self.shares.iter().for_each(|share| sums[share.culprit.component as usize] += share.ns);
        Component::ALL.into_iter().zip(sums).filter(|(_, ns)| *ns > 0)
    }

    /// The time in one component: ns.
    pub fn component_ns(&self, component: Component) -> u64 {
        self.shares.iter().filter(|share| share.culprit.component == component).map(|share| share.ns).sum()
    }
}
