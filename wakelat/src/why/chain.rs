//! Who took the CPU from whom, by name, and how often.

use wakelat_common::start::Leaving;

use crate::{hash::HashMap, timeline::event::Turn, wait::Comm};

/// Pairs that are kept apart; further ones are counted together.
const PAIRS: usize = 16_384;

/// Preemptions, by the names of both tasks.
#[derive(Debug, Default)]
pub struct Chains {
    pairs: HashMap<(Comm, Comm), u64>,
    rest: u64,
}

/// A task took the CPU from another that could have gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Who lost it.
    pub from: Comm,
    /// Who got it.
    pub to: Comm,
    /// How often.
    pub count: u64,
}

impl Chains {
    /// Adds a switch, if it is a preemption of a task that the filter takes.
    pub fn add(&mut self, turn: &Turn) {
        let preempted = matches!(turn.leaving, Leaving::Runnable | Leaving::RunnableYetWakeable);
        if !preempted || !turn.prev.wanted || turn.prev.tid == 0 || turn.next.tid == 0 {
            return;
        }
        let pair = (turn.prev.comm, turn.next.comm);
        if self.pairs.len() < PAIRS || self.pairs.contains_key(&pair) {
            *self.pairs.entry(pair).or_default() += 1;
        } else {
            self.rest += 1;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.rest = 0;
    }

    /// The first `limit`, the most frequent first, and the number of all preemptions.
    pub fn ranking(&self, limit: usize) -> (Vec<Chain>, u64) {
        let mut all: Vec<Chain> =
            self.pairs.iter().map(|((from, to), count)| Chain { from: *from, to: *to, count: *count }).collect();
        all.sort_by_key(|chain| (std::cmp::Reverse(chain.count), chain.from, chain.to));
        let count = all.iter().map(|chain| chain.count).sum::<u64>() + self.rest;
        all.truncate(limit);
        (all, count)
    }
}
