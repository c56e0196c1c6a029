//! How long the causes of waits took, in each round, by the clock of the causing task.

use std::{collections::BTreeMap, sync::atomic::Ordering::SeqCst};

use serde::{Deserialize, Serialize};

use crate::{clock::now_ns, shared::Shared};

/// Bounds of how long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeBounds {
    /// Without interrupts, and without the work at its start and end: ns.
    pub least_ns: u64,
    /// With both: ns.
    pub most_ns: u64,
}

impl TimeBounds {
    /// Bounds of any `count` of `all` together: at least the sum of the shortest, at most that of the longest.
    pub fn any(count: u64, all: &[Self]) -> Self {
        let mut least: Vec<u64> = all.iter().map(|took| took.least_ns).collect();
        let mut most: Vec<u64> = all.iter().map(|took| took.most_ns).collect();
        least.sort_unstable();
        most.sort_unstable_by(|a, b| b.cmp(a));
        let first = |all: &[u64]| all.iter().take(count as usize).sum();
        Self { least_ns: first(&least), most_ns: first(&most) }
    }
}

/// Causes and their times in each round, shared by the tasks of a load.
pub struct CauseTimes {
    names: &'static [&'static str],
    rounds: usize,
    ns: Shared,
}

impl CauseTimes {
    /// Creates the causes with zero times.
    pub fn new(names: &'static [&'static str], rounds: u64) -> Self {
        Self { names, rounds: rounds as usize, ns: Shared::new(2 * names.len() * rounds as usize) }
    }

    /// Adds to the time of the `cause`-th cause in `round`.
    pub fn add(&self, cause: usize, round: usize, took: TimeBounds) {
        let first = 2 * (cause * self.rounds + round);
        self.ns[first].fetch_add(took.least_ns, SeqCst);
        self.ns[first + 1].fetch_add(took.most_ns, SeqCst);
    }

    /// Runs `work`, and adds the ns that it returns as the least and its whole duration as the most.
    pub fn time(&self, cause: usize, round: usize, work: impl FnOnce() -> u64) {
        let begin_ns = now_ns();
        let least_ns = work();
        self.add(cause, round, TimeBounds { least_ns, most_ns: now_ns() - begin_ns });
    }

    /// The times of each cause, by its name, for each round.
    pub fn by_name(&self) -> BTreeMap<String, Vec<TimeBounds>> {
        let ns = |index: usize| self.ns[index].load(SeqCst);
        let took = |index: usize| TimeBounds { least_ns: ns(2 * index), most_ns: ns(2 * index + 1) };
        let of = |cause: usize| (cause * self.rounds..(cause + 1) * self.rounds).map(took).collect();
        self.names.iter().enumerate().map(|(cause, name)| ((*name).to_owned(), of(cause))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_of_three_are_between_the_shortest_and_the_longest() {
        let all = [(5, 6), (1, 2), (3, 9)].map(|(least_ns, most_ns)| TimeBounds { least_ns, most_ns });
        assert_eq!(TimeBounds::any(2, &all), TimeBounds { least_ns: 4, most_ns: 15 });
        assert_eq!(TimeBounds::any(3, &all), TimeBounds { least_ns: 9, most_ns: 17 });
        assert_eq!(TimeBounds::any(0, &all), TimeBounds::default());
    }

    #[test]
    fn each_cause_has_its_own_rounds() {
        let clocked = CauseTimes::new(&["a", "b"], 2);
        clocked.add(1, 0, TimeBounds { least_ns: 7, most_ns: 8 });
        clocked.add(1, 0, TimeBounds { least_ns: 1, most_ns: 1 });
        clocked.time(0, 1, || 3);
        let known = clocked.by_name();
        assert_eq!(known["b"], [TimeBounds { least_ns: 8, most_ns: 9 }, TimeBounds::default()]);
        assert_eq!((known["a"][0], known["a"][1].least_ns), (TimeBounds::default(), 3));
    }
}
