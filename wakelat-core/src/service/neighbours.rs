//! For which cgroups the tasks of other cgroups wait: series of a bounded number of pairs.

use std::sync::Arc;

use super::series::can_have_series;
use crate::{
    aggregate::space_saving::{SpaceSaving, Sum},
    why::counted::summary::{CountedCause, PairCauses},
};

/// Waiting time from which a pair has a series: ns. Most pairs never reach it.
const LEAST_NS: u128 = 100_000_000;

/// Maximum number of pairs with series.
const MAX_SERIES: usize = 500;

/// If there are as many, a pair with this many times the recent waiting time of the one with the least takes its place.
const TIMES_AS_MUCH: f64 = 10.0;

/// Half-life of the recent waiting time: seconds.
const HALF_LIFE_S: f64 = 600.0;

/// Maximum number of pairs whose time is known: those with series, and of the others the ones with the most time.
const MAX_PAIRS: usize = 4_096;

/// The pair of cgroups: the one that waited and the one that ran.
type PairOfCgroups = (Arc<str>, Arc<str>);

/// How long tasks of one cgroup waited while tasks of another one ran.
#[derive(Clone, Copy, Debug, Default)]
struct PairTime {
    ns: u128,
    /// Since when it is counted: ns after the measurement began.
    since_ns: u64,
    /// Of this, the recent part, as of `until_s`: ns.
    recent_ns: f64,
    until_s: u64,
    /// The number of its series; 0 if it has none.
    number: u64,
}

impl PairTime {
    /// Adds waiting time after `after_ns` since the measurement began.
    fn add(&mut self, ns: u128, now_s: u64, after_ns: u64) {
        if self.ns == 0 {
            self.since_ns = after_ns;
        }
        self.ns += ns;
        self.recent_ns = self.recent_ns_at(now_s) + ns as f64;
        self.until_s = now_s;
    }

    fn recent_ns_at(&self, now_s: u64) -> f64 {
        self.recent_ns * (-(now_s.saturating_sub(self.until_s) as f64) / HALF_LIFE_S).exp2()
    }
}

impl Sum for PairTime {
    /// A pair with a series is never evicted: its counter would go back.
    fn size(&self) -> u128 {
        if self.number > 0 { u128::MAX } else { self.ns }
    }
}

/// The pairs of cgroups, by the one that waited and the one that ran.
#[derive(Clone, Debug, Default)]
pub struct NeighbourTable {
    pairs: SpaceSaving<PairOfCgroups, PairTime>,
    with_series: usize,
    /// The number of the last series that began.
    last_number: u64,
    /// How much of the measurement all earlier additions cover: ns.
    covered_ns: u64,
}

/// A pair with a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSeries<'a> {
    /// The cgroup that waited.
    pub waiting: &'a str,
    /// The cgroup that ran meanwhile.
    pub running: &'a str,
    /// For how long: ns.
    pub ns: u128,
    /// Since when that time is counted, which is usually before the series began: ns after the measurement began.
    pub since_ns: u64,
    /// The number of the series: no two have the same, also if one of the same pair has ended.
    pub number: u64,
}

impl NeighbourTable {
    /// Adds the waiting time of pairs until `now_s`, seconds of any clock that does not go back. Only cgroups that are `named`
    /// have series; kernel threads belong to no cgroup.
    pub fn add(&mut self, pairs: &[PairCauses], now_s: u64, named: impl Fn(&str) -> bool) {
        let mut without_series: Vec<PairOfCgroups> = Vec::new();
        for PairCauses { waiting, running, cause, time } in pairs {
            let is_neighbour = waiting != running && *cause != CountedCause::KernelThreads;
            if !is_neighbour {
                continue;
            }
            // Most pairs are known already, and all of these have named cgroups.
            let key = (Arc::clone(waiting), Arc::clone(running));
            if self.pairs.get(&key).is_none() && (!named(waiting) || !can_have_series(running)) {
                continue;
            }
            let pair = self.pairs.entry(key, PairTime::default);
            pair.add(time.ns, now_s, self.covered_ns);
            if pair.number == 0 && pair.ns >= LEAST_NS {
                without_series.push((Arc::clone(waiting), Arc::clone(running)));
            }
        }
        // A pair is there twice if it had time by two causes.
        without_series.sort_unstable();
        without_series.dedup();
        self.begin_series(without_series, now_s);
        self.pairs.evict_above(MAX_PAIRS, |_, _| ());
    }

    /// Everything that was added so far is of the first `duration_ns` of the measurement; what follows is of later.
    pub fn covered(&mut self, duration_ns: u64) {
        self.covered_ns = duration_ns;
    }

    /// Begins the series of the `pairs` with the most recent time. As long as there is room, all get one. A series that
    /// ends for another one takes its total with it, so that the counter begins again if the pair has a series later.
    fn begin_series(&mut self, pairs: Vec<PairOfCgroups>, now_s: u64) {
        let recent_ns = |key: &PairOfCgroups| self.pairs.get(key).map_or(0.0, |pair| pair.recent_ns_at(now_s));
        let mut pairs: Vec<(f64, PairOfCgroups)> = pairs.into_iter().map(|key| (recent_ns(&key), key)).collect();
        pairs.sort_by(|(a_ns, a), (b_ns, b)| b_ns.total_cmp(a_ns).then_with(|| a.cmp(b)));
        let mut least: Vec<(f64, PairOfCgroups)> = Vec::new();
        if self.with_series + pairs.len() > MAX_SERIES {
            let with_series = self.pairs.iter().filter(|(_, pair)| pair.number > 0);
            least.extend(with_series.map(|(key, pair)| (pair.recent_ns_at(now_s), key.clone())));
        }
        least.sort_unstable_by(|(a_ns, a), (b_ns, b)| a_ns.total_cmp(b_ns).then_with(|| a.cmp(b)));
        let mut least = least.into_iter();
        for (recent_ns, key) in pairs {
            if self.with_series == MAX_SERIES {
                let replaced = least.next().filter(|(least_ns, _)| recent_ns >= TIMES_AS_MUCH * least_ns);
                let Some(pair) = replaced.and_then(|(_, key)| self.pairs.get_mut(&key)) else { return };
                *pair = PairTime::default();
                self.with_series -= 1;
            }
            if let Some(pair) = self.pairs.get_mut(&key) {
                self.with_series += 1;
                self.last_number += 1;
                pair.number = self.last_number;
            }
        }
    }

    /// Ends the series of cgroups that are not `named` any more.
    pub fn retain(&mut self, named: impl Fn(&str) -> bool) {
        self.pairs.retain(|(waiting, _)| named(waiting));
        self.with_series = self.pairs.values().filter(|pair| pair.number > 0).count();
    }

    /// The pairs with series, by name.
    pub fn series(&self) -> impl Iterator<Item = NeighbourSeries<'_>> {
        let series = self.pairs.iter().filter(|(_, pair)| pair.number > 0);
        let mut series: Vec<NeighbourSeries> = series
            .map(|((waiting, running), pair)| NeighbourSeries {
                waiting,
                running,
                ns: pair.ns,
                since_ns: pair.since_ns,
                number: pair.number,
            })
            .collect();
        series.sort_unstable_by_key(|series| (series.waiting, series.running));
        series.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::counted::CauseTime;

    const MS: u128 = 1_000_000;

    fn pair(waiting: &str, running: &str, ns: u128) -> PairCauses {
        let time = CauseTime { ns, waits: 1 };
        PairCauses { waiting: waiting.into(), running: running.into(), cause: CountedCause::OtherGroups, time }
    }

    fn shown(table: &NeighbourTable) -> Vec<(String, String, u128)> {
        table.series().map(|series| (series.waiting.to_owned(), series.running.to_owned(), series.ns)).collect()
    }

    #[test]
    fn a_neighbour_has_a_series_once_it_costs_time_and_all_of_that_time_counts() {
        let mut table = NeighbourTable::default();
        let pairs = [pair("/a", "/b", 60 * MS), pair("/a", "/a", 900 * MS), pair("/a", "(cgroup 7, gone)", 900 * MS)];
        table.add(&pairs, 0, |_| true);
        assert_eq!(shown(&table), []);
        table.add(&pairs, 0, |_| true);
        assert_eq!(shown(&table), [("/a".to_owned(), "/b".to_owned(), 120 * MS)]);
        table.add(&[pair("/other", "/b", 900 * MS)], 0, |name| name != "/other");
        assert_eq!(shown(&table).len(), 1);
    }

    #[test]
    fn a_neighbour_has_a_series_however_many_pairs_there_were_before() {
        let mut table = NeighbourTable::default();
        // After an hour, each of them has had more time than the late one has in a reading.
        let old = (0..MAX_PAIRS).map(|n| pair("/a", &format!("/old-{n}"), 50 * MS)).collect::<Vec<_>>();
        table.add(&old, 0, |_| true);
        for reading in 0..20 {
            let mut pairs: Vec<_> = (0..500).map(|n| pair("/a", &format!("/{reading}-{n}"), 1_000)).collect();
            pairs.push(pair("/a", "/late", 10 * MS));
            table.add(&pairs, 0, |_| true);
        }
        // All but its first reading, with which it was evicted.
        assert_eq!(shown(&table), [("/a".to_owned(), "/late".to_owned(), 190 * MS)]);
        assert!(table.pairs.size() <= MAX_PAIRS);
    }

    #[test]
    fn the_number_of_series_is_bounded_and_none_goes_back() {
        let mut table = NeighbourTable::default();
        let name = |n: usize| format!("/{n:04}");
        let pairs: Vec<_> = (1..2 * MAX_PAIRS).map(|n| pair("/0000", &name(n), 100 * MS)).collect();
        table.add(&pairs, 0, |_| true);
        let before = shown(&table);
        assert_eq!((before.len(), table.pairs.size()), (MAX_SERIES, MAX_PAIRS / 8 * 7));
        table.add(&pairs[..10], 0, |_| true);
        let after = shown(&table);
        assert!(before.iter().zip(&after).all(|(before, after)| before.1 == after.1 && before.2 <= after.2));
        // Room for others, with another number each.
        table.retain(|waiting| waiting != "/0000");
        assert_eq!(shown(&table), []);
        table.add(&[pair("/0000", "/0001", 100 * MS)], 0, |_| true);
        assert_eq!(table.series().map(|series| series.number).collect::<Vec<_>>(), [MAX_SERIES as u64 + 1]);
    }

    #[test]
    fn a_neighbour_takes_the_series_of_a_pair_that_has_become_quiet() {
        let mut table = NeighbourTable::default();
        let pairs: Vec<_> = (0..MAX_SERIES).map(|n| pair("/a", &format!("/{n:03}"), 200 * MS)).collect();
        table.add(&pairs, 0, |_| true);
        let later = [pair("/a", "/new", 200 * MS)];
        table.add(&later, 0, |_| true);
        assert!(!shown(&table).iter().any(|(_, running, _)| running == "/new"), "as much as each of the others");
        // After an hour, a 64th of the others' time is recent.
        table.add(&pairs[1..], 3_600, |_| true);
        table.add(&later, 3_600, |_| true);
        let after = shown(&table);
        assert_eq!(after.len(), MAX_SERIES);
        assert!(after.contains(&("/a".to_owned(), "/new".to_owned(), 400 * MS)));
        assert!(!after.iter().any(|(_, running, _)| running == "/000"));
        // Its counter begins again.
        table.add(&[pair("/a", "/000", 99 * MS)], 9_000, |_| true);
        assert!(!shown(&table).iter().any(|(_, running, _)| running == "/000"));
        table.add(&[pair("/a", "/000", 1_000 * MS)], 9_000, |_| true);
        assert!(shown(&table).contains(&("/a".to_owned(), "/000".to_owned(), 1_099 * MS)));
    }
}
