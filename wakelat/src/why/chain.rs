//! Who took the CPU from whom, by name, and how often.

use wakelat_common::start::PrevState;

use crate::aggregate::bounded::{Evicted, SpaceSaving, Sum};
use crate::{timeline::event::SwitchEvent, wait::Comm};

/// Pairs that are kept apart.
const MAX_PAIRS: usize = 16_384;

/// Preemptions, by the names of both tasks.
#[derive(Debug, Default)]
pub struct PreemptionPairs {
    pairs: SpaceSaving<(Comm, Comm), PairCount>,
    all: u64,
}

/// How often.
#[derive(Clone, Copy, Debug, Default)]
struct PairCount(u64);

impl Sum for PairCount {
    fn size(&self) -> u128 {
        self.0.into()
    }
}

/// A task took the CPU from another that could have gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionPair {
    /// Who lost it.
    pub from: Comm,
    /// Who got it.
    pub to: Comm,
    /// How often.
    pub count: u64,
}

impl PreemptionPairs {
    /// Adds a switch, if it is a preemption of a task that the filter takes.
    pub fn add(&mut self, turn: &SwitchEvent) {
        let preempted = matches!(turn.prev_state, PrevState::Runnable | PrevState::PreemptedSleeping);
        if preempted && turn.prev.wanted && turn.prev.tid != 0 && turn.next.tid != 0 {
            self.count(turn.prev.comm, turn.next.comm);
        }
    }

    fn count(&mut self, from: Comm, to: Comm) {
        self.all += 1;
        self.pairs.entry((from, to), PairCount::default).0 += 1;
        self.pairs.evict_above(MAX_PAIRS, |_, _| ());
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.all = 0;
    }

    /// The first `limit`, the most frequent first, and the number of all preemptions.
    pub fn ranking(&self, limit: usize) -> (Vec<PreemptionPair>, u64) {
        let first = self.pairs.ranking().into_iter().take(limit);
        (first.map(|((from, to), count)| PreemptionPair { from, to, count: count.0 }).collect(), self.all)
    }

    /// The pairs that there was no room for.
    pub fn evicted(&self) -> Evicted {
        self.pairs.evicted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_pair_that_comes_after_the_table_is_full_is_the_first() {
        let comm = |name: String| Comm::new(name.as_bytes());
        let mut chains = PreemptionPairs::default();
        let all = MAX_PAIRS as u32 + MAX_PAIRS as u32 / 2;
        (0..all).for_each(|n| chains.count(comm(format!("short{n}")), comm("a".to_owned())));
        (0..1_000).for_each(|_| chains.count(comm("late".to_owned()), comm("hog".to_owned())));
        let (first, preemptions) = chains.ranking(1);
        assert_eq!((first[0].from, preemptions), (comm("late".to_owned()), u64::from(all) + 1_000));
        let rest = chains.evicted();
        assert!(first[0].count <= 1_000 && u128::from(first[0].count) + rest.error >= 1_000, "{first:?}, {rest:?}");
    }
}
