//! Preemptions: which task took the CPU from which, by name, and how often.

use wakelat_common::pending_wait::PrevState;

use crate::aggregate::{
    mapped_places::MappedPlaces,
    space_saving::{Evicted, SpaceSaving, Sum},
};
use crate::{
    timeline::event::{SwitchEvent, TaskInfo},
    wait::Comm,
};

/// Maximum number of pairs.
const MAX_PAIRS: usize = 16_384;

/// The number of preemptions by the names of both tasks.
#[derive(Debug, Default)]
pub struct PreemptionPairs {
    pairs: SpaceSaving<(PairTask, PairTask), PairCount>,
    /// The places of pairs, by the TIDs of both tasks.
    places: MappedPlaces,
    all: u64,
    own_pids: Vec<u32>,
}

/// The name of a task of a pair, and whether it is a thread of wakelat itself.
type PairTask = (Comm, bool);

/// The number of preemptions of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct PairCount(u64);

impl Sum for PairCount {
    fn size(&self) -> u128 {
        self.0.into()
    }
}

/// A task that took the CPU from another one that was still runnable, by names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionPair {
    /// The name of the preempted task.
    pub from: Comm,
    /// The name of the task that got the CPU.
    pub to: Comm,
    /// Whether these tasks are threads of wakelat itself.
    pub is_own: [bool; 2],
    /// The number of preemptions.
    pub count: u64,
}

impl PreemptionPairs {
    /// No pairs yet. Tasks of the processes `own_pids` are wakelat itself.
    pub fn new(own_pids: Vec<u32>) -> Self {
        Self { own_pids, ..Self::default() }
    }

    /// Adds a switch, if it preempts a task that the filter accepts.
    pub fn add(&mut self, switch: &SwitchEvent) {
        let preempted = matches!(switch.prev_state, PrevState::Runnable | PrevState::PreemptedSleeping);
        if preempted && switch.prev.wanted && switch.prev.tid != 0 && switch.next.tid != 0 {
            self.count(&switch.prev, &switch.next);
        }
    }

    fn count(&mut self, from: &TaskInfo, to: &TaskInfo) {
        self.all += 1;
        let place = self.places.of(u64::from(from.tid) << 32 | u64::from(to.tid));
        let [from, to] = [from, to].map(|task| (task.comm, self.own_pids.contains(&task.pid)));
        self.pairs.entry_near(place, (from, to), PairCount::default).0 += 1;
        self.pairs.evict_above(MAX_PAIRS, |_, _| ());
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.all = 0;
    }

    /// The `limit` most frequent pairs, the most frequent first, and the number of all preemptions.
    pub fn ranking(&self, limit: usize) -> (Vec<PreemptionPair>, u64) {
        let first = self.pairs.ranking().into_iter().take(limit);
        let pair = |((from, to), count): ((PairTask, PairTask), &PairCount)| PreemptionPair {
            from: from.0,
            to: to.0,
            is_own: [from.1, to.1],
            count: count.0,
        };
        (first.map(pair).collect(), self.all)
    }

    /// The pairs that were evicted.
    pub fn evicted(&self) -> Evicted {
        self.pairs.evicted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::testing::task;

    #[test]
    fn wakelat_itself_is_not_another_task_of_its_name() {
        let mut pairs = PreemptionPairs::new(vec![2]);
        (0..2).for_each(|_| pairs.count(&task(1, "a"), &task(2, "wakelat")));
        pairs.count(&task(1, "a"), &task(3, "wakelat"));
        let found = pairs.ranking(9).0.iter().map(|pair| (pair.is_own, pair.count)).collect::<Vec<_>>();
        assert_eq!(found, [([false, true], 2), ([false, false], 1)]);
    }

    #[test]
    fn a_frequent_pair_ranks_first_even_if_the_table_was_full() {
        let mut pairs = PreemptionPairs::default();
        let all = MAX_PAIRS as u32 + MAX_PAIRS as u32 / 2;
        (0..all).for_each(|n| pairs.count(&task(n, &format!("short{n}")), &task(1, "a")));
        (0..1_000).for_each(|_| pairs.count(&task(1, "late"), &task(2, "hog")));
        let (first, preemptions) = pairs.ranking(1);
        assert_eq!((first[0].from, preemptions), (Comm::new(b"late"), u64::from(all) + 1_000));
        let others = pairs.evicted();
        assert!(first[0].count <= 1_000 && u128::from(first[0].count) + others.error >= 1_000, "{first:?}, {others:?}");
    }
}
