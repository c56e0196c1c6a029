//! A wait that is being divided into shares.

use super::super::{
    breakdown::{Breakdown, Share, Span},
    component::Culprit,
    culprit_number::CulpritNumber,
    occupants::{CpuOccupant, OccupantId, Occupants},
};

/// The share that each occupant and each culprit has in the wait that is being divided, by their numbers.
#[derive(Debug, Default)]
pub struct ShareIndex {
    /// The number of the wait; the first is 1.
    wait: u64,
    /// The share of each occupant, or [`ShareIndex::OF_WAITER`].
    by_occupant: Vec<ShareInWait>,
    by_culprit: Vec<ShareInWait>,
}

/// The index of a share in [`Breakdown::shares`].
#[derive(Clone, Copy, Debug, Default)]
struct ShareInWait {
    /// The wait that has the share; 0 before the first one.
    wait: u64,
    share: u32,
}

impl ShareIndex {
    /// The occupant is the waiting task itself.
    const OF_WAITER: u32 = u32::MAX;
}

/// The breakdown of a wait, to which time is added.
pub struct Division<'a> {
    /// The breakdown.
    pub breakdown: &'a mut Breakdown,
    index: &'a mut ShareIndex,
    occupants: &'a Occupants,
}

impl<'a> Division<'a> {
    /// Begins to divide the wait of `breakdown`, which has no shares yet.
    pub fn new(breakdown: &'a mut Breakdown, index: &'a mut ShareIndex, occupants: &'a Occupants) -> Self {
        index.wait += 1;
        if index.by_occupant.len() < occupants.size() {
            index.by_occupant.resize(occupants.size(), ShareInWait::default());
        }
        Self { breakdown, index, occupants }
    }

    /// Assigns the time from `from_ns` to `to_ns` to a culprit that is no occupant of a CPU.
    pub fn add_span(&mut self, culprit: Culprit, cpu: Option<u32>, from_ns: u64, to_ns: u64) {
        if from_ns < to_ns {
            let share = self.share_of(culprit, CulpritNumber::of(&culprit, 0));
            self.add_span_to(share, cpu, from_ns, to_ns);
        }
    }

    /// Assigns the time from `from_ns` to `to_ns`, which is later, to a share of [`Self::share_of_occupant`].
    #[inline]
    pub fn add_span_to(&mut self, share: usize, cpu: Option<u32>, from_ns: u64, to_ns: u64) {
        self.add_to(share, to_ns - from_ns);
        self.breakdown.spans.push(Span { share, cpu, from_ns, to_ns });
    }

    /// Assigns `ns` to a culprit that is no occupant of a CPU, without a position on the timeline.
    pub fn add_undated(&mut self, culprit: Culprit, ns: u64) {
        if ns > 0 {
            let share = self.share_of(culprit, CulpritNumber::of(&culprit, 0));
            self.add_to(share, ns);
        }
    }

    #[inline]
    fn add_to(&mut self, share: usize, ns: u64) {
        let share = &mut self.breakdown.shares[share];
        share.ns += ns;
        share.times += 1;
    }

    /// The index of the share of an occupant, which is appended, without any time, if there is none yet; `None` if the
    /// occupant is the waiting task.
    #[inline]
    pub fn share_of_occupant(&mut self, id: OccupantId) -> Option<usize> {
        let known = self.index.by_occupant[id.index()];
        let share = if known.wait == self.index.wait { known.share } else { self.find_share_of_occupant(id) };
        (share != ShareIndex::OF_WAITER).then_some(share as usize)
    }

    fn find_share_of_occupant(&mut self, id: OccupantId) -> u32 {
        let waiter = &self.breakdown.waiter;
        let is_waiter = matches!(self.occupants.get(id), CpuOccupant::Task(task, _) if task.tid == waiter.tid);
        let share = if is_waiter {
            ShareIndex::OF_WAITER
        } else {
            let (culprit, number) = self.occupants.culprit(id, (waiter.prio, waiter.policy));
            self.share_of(culprit, number) as u32
        };
        self.index.by_occupant[id.index()] = ShareInWait { wait: self.index.wait, share };
        share
    }

    /// The index of the share of a culprit, which is appended, without any time, if there is none yet.
    fn share_of(&mut self, culprit: Culprit, number: CulpritNumber) -> usize {
        let Self { breakdown, index, .. } = self;
        if index.by_culprit.len() <= number.index() {
            index.by_culprit.resize(number.index() + 1, ShareInWait::default());
        }
        let known = &mut index.by_culprit[number.index()];
        if known.wait != index.wait {
            *known = ShareInWait { wait: index.wait, share: breakdown.shares.len() as u32 };
            breakdown.shares.push(Share { culprit, number, ns: 0, times: 0 });
        }
        known.share as usize
    }
}
