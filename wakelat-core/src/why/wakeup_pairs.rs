//! Wakeup pairs: which task woke which, and how long the wakees waited.

use std::collections::BTreeMap;

use wakelat_common::bucket;

use super::name_cache::NameCache;
use crate::aggregate::{
    mapped_places::MappedPlaces,
    space_saving::{SpaceSaving, Sum},
};
use crate::{
    aggregate::{
        key::{GroupKey, Key, Names, by_name},
        percentile_rank::Percentile,
    },
    report::{KeyPart, KeyValue},
    wait::Wait,
};

/// Maximum number of pairs; the waits of the others are counted together.
const MAX_PAIRS: usize = 4096;

/// Wakeups that led to a wait, by waker and wakee.
#[derive(Debug)]
pub struct WakeupPairs {
    keys: Vec<Key>,
    pairs: SpaceSaving<(WakerKey, GroupKey), PairWaits>,
    /// The places of pairs, by the TIDs of waker and wakee.
    places: MappedPlaces,
    evicted: PairWaits,
}

/// The waker of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WakerKey {
    /// An interrupt on an idle CPU.
    Idle,
    /// A task.
    Task(GroupKey),
    /// A task whose requested keys are unknown.
    Unknown,
}

/// The waits of a wakee after wakeups by one waker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairWaits {
    /// The number of waits.
    pub count: u64,
    /// Their total latency: ns.
    pub ns: u128,
    /// The longest latency: ns.
    pub max_ns: u64,
    /// The number of waits in each [`bucket`]; most pairs have waits in only a few.
    buckets: BTreeMap<usize, u64>,
}

/// A waker and a wakee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeupPair {
    /// The waker: `comm` is `idle` for an interrupt on an idle CPU; empty if the waker is unknown.
    pub waker: Vec<KeyPart>,
    /// The wakee.
    pub wakee: Vec<KeyPart>,
    /// The waits that followed the wakeups.
    pub waits: PairWaits,
}

/// The wakeup pairs of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankedWakeupPairs {
    /// The pairs with the longest total wait, the longest first.
    pub pairs: Vec<WakeupPair>,
    /// The waits of all pairs, including evicted ones.
    pub all: PairWaits,
    /// The total wait of a pair is at most this much longer than shown, because pairs were evicted: ns.
    pub error_ns: u128,
}

impl Sum for PairWaits {
    fn size(&self) -> u128 {
        self.ns
    }
}

impl PairWaits {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
        *self.buckets.entry(bucket::index(ns)).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.ns += other.ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        other.buckets.iter().for_each(|(bucket, count)| *self.buckets.entry(*bucket).or_default() += count);
    }

    /// The smallest latency that at least this share of the waits does not exceed: ns. At most 1/32 too high, and never
    /// above the longest wait.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        let found = percentile.find(self.count, self.buckets.iter().map(|(index, count)| (*index, *count)));
        found.map_or(0, |index| (bucket::upper(index) - 1).min(self.max_ns))
    }
}

impl WakeupPairs {
    /// No pairs yet. Tasks are identified by the keys in `by` that describe a task, or by name if there are none.
    pub fn new(by: &[Key]) -> Self {
        let of_tasks = |key: &&Key| {
            matches!(key, Key::Comm | Key::Tid | Key::Pid | Key::Cgroup | Key::Container) || key.is_of_recordings()
        };
        let mut keys: Vec<Key> = by.iter().filter(of_tasks).copied().collect();
        // An ID without a name says little.
        if keys.is_empty() || keys.iter().all(|key| matches!(key, Key::Tid | Key::Pid) || key.is_of_recordings()) {
            keys.insert(0, Key::Comm);
        }
        Self { keys, pairs: SpaceSaving::default(), places: MappedPlaces::default(), evicted: PairWaits::default() }
    }

    /// Adds a wait, if its task was woken.
    pub fn add(&mut self, wait: &Wait, known: &NameCache) {
        let Some(tid) = wait.waker_tid else { return };
        let key = |wait: &Wait| GroupKey::new(wait, &self.keys, true);
        let waker = match known.task(tid) {
            _ if tid == 0 => WakerKey::Idle,
            Some(task) => {
                let (pid, comm, cgroup_id) = (task.pid, task.comm, task.cgroup_id);
                WakerKey::Task(key(&Wait { tid, pid, comm, cgroup_id, ..*wait }))
            }
            None if self.keys.iter().all(|key| matches!(key, Key::Comm | Key::Tid) || key.is_of_recordings()) => {
                known.comm(tid).map_or(WakerKey::Unknown, |comm| WakerKey::Task(key(&Wait { tid, comm, ..*wait })))
            }
            None => WakerKey::Unknown,
        };
        let pair = (waker, key(wait));
        let place = self.places.of(u64::from(tid) << 32 | u64::from(wait.tid));
        self.pairs.entry_near(place, pair, PairWaits::default).add(wait.latency_ns);
        self.pairs.evict_above(MAX_PAIRS, |_, waits| self.evicted.merge(&waits));
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.evicted = PairWaits::default();
    }

    /// The `limit` pairs with the longest total wait, the longest first.
    pub fn ranking(&self, limit: usize, names: &dyn Names) -> RankedWakeupPairs {
        let parts = |key: &GroupKey| key.key_parts(&self.keys, names);
        let mut all = self.evicted.clone();
        self.pairs.values().for_each(|waits| all.merge(waits));
        let named = self.pairs.iter().map(|((waker, wakee), waits)| {
            let waker = match waker {
                WakerKey::Idle => vec![KeyPart { name: "comm", value: KeyValue::Text("idle".to_owned()) }],
                WakerKey::Task(key) => parts(key),
                WakerKey::Unknown => Vec::new(),
            };
            ((waker, parts(wakee)), waits.clone())
        });
        let mut pairs: Vec<WakeupPair> = by_name(named, PairWaits::merge)
            .into_iter()
            .map(|((waker, wakee), waits)| WakeupPair { waker, wakee, waits })
            .collect();
        // The sort is stable: equal pairs stay in the order of their names.
        pairs.sort_by_key(|pair| std::cmp::Reverse((pair.waits.ns, pair.waits.count)));
        pairs.truncate(limit);
        RankedWakeupPairs { pairs, all, error_ns: self.pairs.evicted().error }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        render::testing,
        timeline::{
            event::{Event, EventKind, TaskInfo},
            testing::{EventStream, task},
        },
        wait::Comm,
        why::testing::TestNames,
    };

    /// Knows the wakers 77, which a switch has shown, and 78, whose name is only in /proc, but not 79.
    fn known() -> NameCache {
        struct ProcNames;
        impl Names for ProcNames {
            fn cgroup(&self, id: u64) -> String {
                TestNames.cgroup(id)
            }

            fn comm(&self, tid: u32) -> Option<Comm> {
                (tid == 78).then(|| Comm::new(b"pinned"))
            }
        }
        let mut stream = EventStream::default();
        stream.switch(0, 1, TaskInfo { cgroup_id: Some(8), pid: 70, ..task(77, "bash") });
        stream.end_wait(0, (2, 3), TaskInfo { cgroup_id: Some(7), ..task(1234, "nginx") }).wait.waker_tid = Some(78);
        let mut known = NameCache::default();
        stream.events.iter().for_each(|event: &Event| {
            assert!(matches!(event.kind, EventKind::Switch(_)));
            known.learn(event, &ProcNames);
        });
        known
    }

    fn ranked(by: &[Key], wakers: &[u32]) -> Vec<(String, String, u64)> {
        let known = known();
        let mut pairs = WakeupPairs::new(by);
        for (index, tid) in wakers.iter().enumerate() {
            let latency_ns = 1_000 - index as u64;
            let wait = Wait { waker_tid: Some(*tid), cgroup_id: Some(7), latency_ns, ..testing::wait() };
            pairs.add(&wait, &known);
        }
        pairs.add(&Wait { waker_tid: None, ..testing::wait() }, &known);
        let words = |parts: &[KeyPart]| {
            let words: Vec<String> = parts.iter().map(|part| format!("{} {}", part.name, part.value)).collect();
            words.join(", ")
        };
        let ranking = pairs.ranking(10, &known);
        assert_eq!(ranking.all.count, wakers.len() as u64);
        ranking.pairs.iter().map(|pair| (words(&pair.waker), words(&pair.wakee), pair.waits.count)).collect()
    }

    fn row(waker: &str, wakee: &str, count: u64) -> (String, String, u64) {
        (waker.to_owned(), wakee.to_owned(), count)
    }

    #[test]
    fn tasks_are_identified_by_name_by_default() {
        let rows = ranked(&[Key::Cpu], &[77, 78, 0, 79, 77]);
        let expected = ["comm bash", "comm pinned", "comm idle", ""];
        let expected: Vec<_> =
            expected.iter().map(|waker| row(waker, "comm nginx", if *waker == "comm bash" { 2 } else { 1 })).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn wakers_have_the_keys_of_groups() {
        assert_eq!(ranked(&[Key::Tid], &[78]), [row("comm pinned, tid 78", "comm nginx, tid 1234", 1)]);
        assert_eq!(ranked(&[Key::Pid], &[77]), [row("comm bash, pid 70", "comm nginx, pid 1230", 1)]);
        let user = "cgroup /user.slice/user-1000.slice/session-3.scope";
        assert_eq!(ranked(&[Key::Cgroup], &[77]), [row(user, "cgroup /system.slice/nginx.service", 1)]);
        // If only the name of a task is known, its cgroup is not.
        assert_eq!(ranked(&[Key::Cgroup], &[78])[0].0, "");
        assert_eq!(ranked(&[Key::Container], &[77]), [row("container (none)", "container (none)", 1)]);
    }

    #[test]
    fn evicted_pairs_are_counted_together() {
        let mut pairs = WakeupPairs::new(&[Key::Tid]);
        for tid in 0..MAX_PAIRS as u32 + 3 {
            pairs.add(&Wait { tid, waker_tid: Some(0), latency_ns: 5, ..testing::wait() }, &NameCache::default());
        }
        let ranking = pairs.ranking(1, &TestNames);
        assert_eq!(
            (ranking.pairs.len(), ranking.all.count, ranking.all.ns),
            (1, MAX_PAIRS as u64 + 3, (MAX_PAIRS as u128 + 3) * 5)
        );
        assert!(pairs.ranking(usize::MAX, &TestNames).pairs.len() <= MAX_PAIRS);
        assert_eq!(ranking.error_ns, 5);
        pairs.clear();
        assert_eq!(pairs.ranking(1, &TestNames), RankedWakeupPairs::default());
    }

    proptest! {
        #[test]
        fn a_percentile_is_at_most_a_bucket_above_the_wait_of_its_rank(
            mut values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 64)), 1..100), percent in 1u16..=100,
        ) {
            let mut waits = PairWaits::default();
            values.iter().for_each(|ns| waits.add(*ns));
            values.sort_unstable();
            let has_share = |rank: &usize| rank * 100 >= values.len() * usize::from(percent);
            let exact = values[(1..=values.len()).find(has_share).unwrap() - 1];
            let found = waits.percentile_ns(Percentile::per_mille(percent * 10));
            prop_assert!(found >= exact && found <= *values.last().unwrap());
            prop_assert!(found - exact <= exact / 32, "{found} {exact}");
        }
    }
}
