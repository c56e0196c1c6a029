//! Sums by key in a table of bounded size, with a bound on the error: Space-Saving (Metwally, Agrawal,
//! El Abbadi 2005), in batches.
//!
//! A key that is evicted takes at most [`Evicted::error`] with it, and a key that enters the table is
//! assumed to have had as much before. So its true sum is at least the one shown, and at most
//! [`Evicted::error`] more. The keys with the smallest upper bounds are evicted first, so that a key
//! that grows slowly stays as long as new keys grow more slowly still.
//!
//! The bound, for a table that continues with `kept` keys: each time keys are evicted, `kept` keys and
//! one more have all had at least as much above the previous error as the error grows. So the error is
//! at most the total of all sums divided by `kept + 1`.

use std::{cmp::Reverse, hash::Hash};

use crate::hash::HashMap;

/// A value that a table adds up by key.
pub trait Sum {
    /// The size of the sum: ns, or a count.
    fn size(&self) -> u128;
}

impl Sum for u128 {
    fn size(&self) -> u128 {
        *self
    }
}

/// A table of sums by key, and what was evicted from it.
#[derive(Clone, Debug)]
pub struct SpaceSaving<K, V> {
    kept: Vec<KeptSum<K, V>>,
    /// The index in `kept` of each key.
    places: HashMap<K, u32>,
    evicted: Evicted,
}

/// The sum of a key since it entered the table.
#[derive(Clone, Debug)]
struct KeptSum<K, V> {
    key: K,
    sum: V,
    /// The key had at most this much before.
    error: u128,
}

/// What was evicted from the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// The total of the evicted sums, without what their keys have in the table now: ns, or a count.
    pub sum: u128,
    /// The number of evictions; a key that came back can be evicted again.
    pub count: u64,
    /// No evicted key has more than this, and the sum of a key in the table is at most this much too
    /// low: ns, or a count.
    pub error: u128,
}

impl<K, V> Default for SpaceSaving<K, V> {
    fn default() -> Self {
        Self { kept: Vec::new(), places: HashMap::default(), evicted: Evicted::default() }
    }
}

impl<K, V: Sum> KeptSum<K, V> {
    fn upper_bound(&self) -> u128 {
        self.sum.size().saturating_add(self.error)
    }
}

impl<K: Clone + Ord + Hash, V: Sum> SpaceSaving<K, V> {
    /// The sum of a key, inserting `empty()` if the key is not in the table.
    pub fn entry(&mut self, key: K, empty: impl FnOnce() -> V) -> &mut V {
        let place = self.place(key, empty);
        &mut self.kept[place as usize].sum
    }

    /// As [`Self::entry`], without a lookup if `place` is what the last call with this key left in it and the key has
    /// not moved since. Any other `place` costs a comparison.
    #[inline]
    pub fn entry_near(&mut self, place: &mut u32, key: K, empty: impl FnOnce() -> V) -> &mut V {
        if self.kept.get(*place as usize).is_none_or(|kept| kept.key != key) {
            *place = self.place(key, empty);
        }
        &mut self.kept[*place as usize].sum
    }

    /// The index of the sum of a key, inserting `empty()` if the key is not in the table.
    fn place(&mut self, key: K, empty: impl FnOnce() -> V) -> u32 {
        let Self { kept, places, evicted } = self;
        *places.entry(key).or_insert_with_key(|key| {
            kept.push(KeptSum { key: key.clone(), sum: empty(), error: evicted.error });
            kept.len() as u32 - 1
        })
    }

    fn find(&self, key: &K) -> Option<&KeptSum<K, V>> {
        self.places.get(key).map(|place| &self.kept[*place as usize])
    }

    /// The sum of a key that is in the table.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).map(|kept| &kept.sum)
    }

    /// A mutable reference to the sum of a key that is in the table.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.places.get(key).map(|place| &mut self.kept[*place as usize].sum)
    }

    /// The number of keys in the table.
    pub fn size(&self) -> usize {
        self.kept.len()
    }

    /// All keys and sums in the table, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.kept.iter().map(|kept| (&kept.key, &kept.sum))
    }

    /// All sums in the table, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.kept.iter().map(|kept| &kept.sum)
    }

    /// Mutable references to all sums in the table, in no particular order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.kept.iter_mut().map(|kept| &mut kept.sum)
    }

    /// If there are more than `limit` keys, keeps the largest seven eighths of `limit` and passes the
    /// others to `on_evict`. Returns whether keys were evicted.
    pub fn evict_above(&mut self, limit: usize, on_evict: impl FnMut(K, V)) -> bool {
        let is_full = self.kept.len() > limit;
        if is_full {
            self.keep(limit - limit / 8, on_evict);
        }
        is_full
    }

    /// Keeps the `most` largest keys, of equal ones the first by key, independent of the order in which
    /// they were added; passes the others to `on_evict`.
    pub fn keep(&mut self, most: usize, mut on_evict: impl FnMut(K, V)) {
        if self.kept.len() <= most {
            return;
        }
        let mut order: Vec<(Reverse<u128>, K)> =
            self.kept.iter().map(|kept| (Reverse(kept.upper_bound()), kept.key.clone())).collect();
        let (_, (Reverse(largest), _), _) = order.select_nth_unstable(most);
        self.evicted.error = self.evicted.error.max(*largest);
        for (_, key) in &order[most..] {
            let Some(place) = self.places.remove(key) else { continue };
            let KeptSum { key, sum, .. } = self.kept.swap_remove(place as usize);
            if let Some(moved) = self.kept.get(place as usize) {
                self.places.insert(moved.key.clone(), place);
            }
            self.evicted.sum = self.evicted.sum.saturating_add(sum.size());
            self.evicted.count += 1;
            on_evict(key, sum);
        }
    }

    /// Removes the keys that are not `wanted` any more. They do not count as evicted.
    pub fn retain(&mut self, wanted: impl Fn(&K) -> bool) {
        self.kept.retain(|kept| wanted(&kept.key));
        self.places = self.kept.iter().zip(0..).map(|(kept, place)| (kept.key.clone(), place)).collect();
    }

    /// Adds all sums of another table; `add` adds the sums of a key that both have. The error bounds add
    /// up.
    pub fn merge(&mut self, other: &Self, add: impl Fn(&mut V, &V))
    where
        V: Clone,
    {
        for kept in &mut self.kept {
            kept.error += other.find(&kept.key).map_or(other.evicted.error, |theirs| theirs.error);
        }
        for theirs in &other.kept {
            if let Some(ours) = self.get_mut(&theirs.key) {
                add(ours, &theirs.sum);
            } else {
                let place = self.place(theirs.key.clone(), || theirs.sum.clone());
                self.kept[place as usize].error += theirs.error;
            }
        }
        self.evicted.sum += other.evicted.sum;
        self.evicted.count += other.evicted.count;
        self.evicted.error += other.evicted.error;
    }

    /// Removes all keys, and resets the error.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.places.clear();
        self.evicted = Evicted::default();
    }

    /// All keys and sums, the largest sum first; equal ones by key, so that the order is deterministic.
    pub fn ranking(&self) -> Vec<(K, &V)> {
        let mut all: Vec<(K, &V)> = self.iter().map(|(key, sum)| (key.clone(), sum)).collect();
        all.sort_unstable_by(|(a, of_a), (b, of_b)| (of_b.size(), a).cmp(&(of_a.size(), b)));
        all
    }

    /// Consumes the table and returns its keys and sums, in no particular order.
    pub fn into_sums(self) -> impl Iterator<Item = (K, V)> {
        self.kept.into_iter().map(|kept| (kept.key, kept.sum))
    }

    /// What was evicted from the table.
    pub fn evicted(&self) -> Evicted {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn ranking(table: &SpaceSaving<u32, u128>) -> Vec<(u32, u128)> {
        table.ranking().into_iter().map(|(key, ns)| (key, *ns)).collect()
    }

    #[test]
    fn a_late_key_with_a_large_sum_is_in_the_table() {
        let mut table = SpaceSaving::default();
        for key in 0..1_000 {
            *table.entry(key, || 0u128) += 5;
            table.evict_above(10, |_, _| ());
        }
        for _ in 0..1_000 {
            *table.entry(7_777, || 0) += 7;
            *table.entry(table.evicted().count as u32 + 10_000, || 0) += 5;
            table.evict_above(10, |_, _| ());
        }
        let (first, ns) = ranking(&table)[0];
        assert_eq!(first, 7_777);
        assert!(ns <= 7_000 && ns + table.evicted().error >= 7_000, "{ns}, {:?}", table.evicted());
    }

    /// Half of the table holds long-lived keys; short-lived ones pass through the other half. A late key
    /// that gets half as much as each long-lived one is never in the larger half, but has more than all
    /// short-lived ones.
    #[test]
    fn a_steady_key_accumulates_among_long_lived_and_short_lived_keys() {
        const LIMIT: u32 = 1_024;
        const LATE: u32 = 1_000_000_000;
        let (mut table, mut whole) = (SpaceSaving::default(), 0);
        for round in 0..200 {
            for key in 0..LIMIT / 2 {
                *table.entry(key, || 0u128) += 10_000;
            }
            *table.entry(LATE, || 0) += 5_000;
            for short in 0..LIMIT {
                *table.entry(LIMIT * (1 + round) + short, || 0) += 1;
                table.evict_above(LIMIT as usize, |_, _| ());
            }
            whole += u128::from(LIMIT / 2) * 10_000 + 5_000 + u128::from(LIMIT);
        }
        let late = *table.get(&LATE).expect("it has more than any short-lived key");
        let error = table.evicted().error;
        assert!(late <= 200 * 5_000 && late + error >= 200 * 5_000, "{late}, {error}");
        assert!(error * u128::from(LIMIT - LIMIT / 8 + 1) <= whole && error < 5_000, "{error}");
    }

    #[test]
    fn of_equal_keys_the_first_are_kept() {
        let mut table = SpaceSaving::default();
        [9, 3, 7, 1, 5].into_iter().for_each(|key| *table.entry(key, || 0u128) += 2);
        table.keep(2, |_, _| ());
        assert_eq!((ranking(&table), table.evicted()), (vec![(1, 2), (3, 2)], Evicted { sum: 6, count: 3, error: 2 }));
    }

    #[test]
    fn keys_that_are_not_wanted_any_more_leave_the_others_as_they_were() {
        let mut table = SpaceSaving::default();
        [9, 3, 7, 1, 5].into_iter().for_each(|key| *table.entry(key, || 0u128) += u128::from(key));
        table.retain(|key| *key != 3 && *key != 9);
        *table.entry(5, || 0) += 10;
        *table.entry(3, || 0) += 1;
        assert_eq!((ranking(&table), table.evicted()), (vec![(5, 15), (7, 7), (1, 1), (3, 1)], Evicted::default()));
    }

    proptest! {
        #[test]
        fn every_sum_is_within_the_error_in_a_table_of_any_size(
            sums in prop::collection::vec((0..30u32, 0..100u64), 0..200), limit in 0..20usize, at in 0..200usize,
        ) {
            let whole: u128 = sums.iter().map(|(_, ns)| u128::from(*ns)).sum();
            let mut exact: BTreeMap<u32, u128> = (0..30).map(|key| (key, 0)).collect();
            sums.iter().for_each(|(key, ns)| *exact.entry(*key).or_default() += u128::from(*ns));
            // Two keys share each place, as keys whose numbers are given anew may do.
            let mut places = [0; 15];
            let mut add = |sums: &[(u32, u64)]| {
                let (mut table, mut looked_up) = (SpaceSaving::default(), SpaceSaving::default());
                let mut evicted = 0;
                for (key, ns) in sums {
                    let place = &mut places[*key as usize % 15];
                    *table.entry_near(place, *key, || 0u128) += u128::from(*ns);
                    *looked_up.entry(*key, || 0u128) += u128::from(*ns);
                    looked_up.evict_above(limit, |_, _| ());
                    table.evict_above(limit, |_, sum| evicted += sum);
                    assert!(table.size() <= limit);
                }
                assert_eq!(table.evicted().sum, evicted);
                assert_eq!((ranking(&table), table.evicted()), (ranking(&looked_up), looked_up.evicted()));
                table
            };
            let check = |table: &SpaceSaving<u32, u128>| {
                for (key, exact) in &exact {
                    let (known, error) = (table.get(key).copied().unwrap_or(0), table.evicted().error);
                    assert!(known <= *exact && *exact <= known + error, "{key}: {known} of {exact}, {error}");
                }
                let kept: u128 = ranking(table).iter().map(|(_, ns)| ns).sum();
                assert_eq!(kept + table.evicted().sum, whole);
            };
            let one_table = add(&sums);
            check(&one_table);
            prop_assert!(one_table.evicted().error * (limit - limit / 8 + 1) as u128 <= whole);
            let (first, second) = sums.split_at(at.min(sums.len()));
            let (first, second) = (add(first), add(second));
            let (mut one, mut other) = (first.clone(), second.clone());
            one.merge(&second, |mine, ns| *mine += ns);
            other.merge(&first, |mine, ns| *mine += ns);
            check(&one);
            prop_assert_eq!((ranking(&one), one.evicted()), (ranking(&other), other.evicted()));
        }
    }
}
