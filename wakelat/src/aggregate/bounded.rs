//! Sums by key in a table of bounded size, with a bound on what that costs: Space-Saving (Metwally, Agrawal, El Abbadi 2005) in
//! batches.
//!
//! A key that leaves the table takes with it at most [`Evicted::error`], and one that comes to the table is taken to have had as much
//! before: so its true sum is at least the one shown, and at most [`Evicted::error`] more. Keys leave by what they may have had, the
//! least first, so that one that adds up slowly stays as long as newcomers add up more slowly still.
//!
//! The bound, for a table that goes on with `kept` keys: each time keys leave, `kept` and one more have all had at least as much
//! above the former error as the error grows. So the error is at most the sum of everything divided by `kept + 1`.

use std::{cmp::Reverse, collections::hash_map, hash::Hash};

use crate::hash::HashMap;

/// What a table adds up.
pub trait Sum {
    /// How much it is: ns, or how many.
    fn size(&self) -> u128;
}

impl Sum for u128 {
    fn size(&self) -> u128 {
        *self
    }
}

/// Sums by key, and the rest.
#[derive(Clone, Debug)]
pub struct SpaceSaving<K, V> {
    kept: HashMap<K, SumEntry<V>>,
    evicted: Evicted,
}

/// The sum of a key since it came to the table.
#[derive(Clone, Debug)]
struct SumEntry<V> {
    sum: V,
    /// It had at most this much before.
    error: u128,
}

/// The keys that are not in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Their sum, without what they had in the table afterwards: ns, or how many.
    pub sum: u128,
    /// How many times a key left the table: one that came back may have left it again.
    pub count: u64,
    /// None of them has more than this, and the sum of a key in the table is at most this much too low: ns, or how many.
    pub error: u128,
}

impl<K, V> Default for SpaceSaving<K, V> {
    fn default() -> Self {
        Self { kept: HashMap::default(), evicted: Evicted::default() }
    }
}

impl<V: Sum> SumEntry<V> {
    fn upper_bound(&self) -> u128 {
        self.sum.size() + self.error
    }
}

impl<K: Copy + Ord + Hash, V: Sum> SpaceSaving<K, V> {
    /// The sum of a key, `empty` where it is not in the table.
    pub fn entry(&mut self, key: K, empty: impl FnOnce() -> V) -> &mut V {
        let before = self.evicted.error;
        &mut self.kept.entry(key).or_insert_with(|| SumEntry { sum: empty(), error: before }).sum
    }

    /// The sum of a key that is in the table.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.kept.get(key).map(|entry| &entry.sum)
    }

    /// The sum of a key that is in the table, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.kept.get_mut(key).map(|entry| &mut entry.sum)
    }

    /// How many keys are in the table.
    pub fn size(&self) -> usize {
        self.kept.len()
    }

    /// All that are in the table, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.kept.iter().map(|(key, entry)| (key, &entry.sum))
    }

    /// All sums in the table, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.kept.values().map(|entry| &entry.sum)
    }

    /// All sums in the table, in no order, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.kept.values_mut().map(|entry| &mut entry.sum)
    }

    /// Where there are more than `limit` keys, goes on with the largest seven eighths of so many, and gives the others to `leaves`.
    /// Returns whether there were.
    pub fn evict_above(&mut self, limit: usize, leaves: impl FnMut(K, V)) -> bool {
        let is_full = self.kept.len() > limit;
        if is_full {
            self.keep(limit - limit / 8, leaves);
        }
        is_full
    }

    /// Goes on with the `most` largest keys, of equal ones the first by key, whatever the order in which they came; gives the others
    /// to `leaves`.
    pub fn keep(&mut self, most: usize, mut leaves: impl FnMut(K, V)) {
        if self.kept.len() <= most {
            return;
        }
        let mut order: Vec<(Reverse<u128>, K)> =
            self.kept.iter().map(|(key, entry)| (Reverse(entry.upper_bound()), *key)).collect();
        let (_, (Reverse(largest), _), _) = order.select_nth_unstable(most);
        self.evicted.error = self.evicted.error.max(*largest);
        for (_, key) in &order[most..] {
            if let Some(SumEntry { sum, .. }) = self.kept.remove(key) {
                self.evicted.sum += sum.size();
                self.evicted.count += 1;
                leaves(*key, sum);
            }
        }
    }

    /// Adds all of another table; `add` adds what both have. The bounds of both add up.
    pub fn merge(&mut self, other: &Self, add: impl Fn(&mut V, &V))
    where
        V: Clone,
    {
        for (key, entry) in &mut self.kept {
            entry.error += other.kept.get(key).map_or(other.evicted.error, |other| other.error);
        }
        for (key, theirs) in &other.kept {
            match self.kept.entry(*key) {
                hash_map::Entry::Occupied(mut ours) => add(&mut ours.get_mut().sum, &theirs.sum),
                hash_map::Entry::Vacant(none) => {
                    none.insert(SumEntry { sum: theirs.sum.clone(), error: theirs.error + self.evicted.error });
                }
            }
        }
        self.evicted.sum += other.evicted.sum;
        self.evicted.count += other.evicted.count;
        self.evicted.error += other.evicted.error;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.evicted = Evicted::default();
    }

    /// The table, the largest sum first; equal ones by key, so that the order is always the same.
    pub fn ranking(&self) -> Vec<(K, &V)> {
        let mut all: Vec<(K, &V)> = self.iter().map(|(key, sum)| (*key, sum)).collect();
        all.sort_unstable_by_key(|(key, sum)| (Reverse(sum.size()), *key));
        all
    }

    /// The table for good, in no order.
    pub fn into_sums(self) -> impl Iterator<Item = (K, V)> {
        self.kept.into_iter().map(|(key, entry)| (key, entry.sum))
    }

    /// The keys that are not in the table.
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
    fn a_key_that_comes_late_and_has_much_is_in_the_table() {
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

    /// Half of the table are keys that live on; short-lived ones pass through the other half. A key that comes late and has half
    /// as much as each of those is never among the larger half, and has more than all that pass.
    #[test]
    fn a_steady_key_adds_up_beside_long_lived_ones_and_a_stream_of_short_lived_ones() {
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
        let late = *table.get(&LATE).expect("it had more than any that passed");
        let error = table.evicted().error;
        assert!(late <= 200 * 5_000 && late + error >= 200 * 5_000, "{late}, {error}");
        assert!(error * u128::from(LIMIT - LIMIT / 8 + 1) <= whole && error < 5_000, "{error}");
    }

    #[test]
    fn of_equal_ones_the_first_by_key_stay() {
        let mut table = SpaceSaving::default();
        [9, 3, 7, 1, 5].into_iter().for_each(|key| *table.entry(key, || 0u128) += 2);
        table.keep(2, |_, _| ());
        assert_eq!((ranking(&table), table.evicted()), (vec![(1, 2), (3, 2)], Evicted { sum: 6, count: 3, error: 2 }));
    }

    proptest! {
        #[test]
        fn every_sum_is_within_the_error_in_a_table_of_any_size(
            sums in prop::collection::vec((0..30u32, 0..100u64), 0..200), limit in 0..20usize, at in 0..200usize,
        ) {
            let whole: u128 = sums.iter().map(|(_, ns)| u128::from(*ns)).sum();
            let mut exact: BTreeMap<u32, u128> = (0..30).map(|key| (key, 0)).collect();
            sums.iter().for_each(|(key, ns)| *exact.entry(*key).or_default() += u128::from(*ns));
            let add = |sums: &[(u32, u64)]| {
                let mut table = SpaceSaving::default();
                let mut left = 0;
                for (key, ns) in sums {
                    *table.entry(*key, || 0u128) += u128::from(*ns);
                    table.evict_above(limit, |_, sum| left += sum);
                    assert!(table.size() <= limit);
                }
                assert_eq!(table.evicted().sum, left);
                table
            };
            let check = |table: &SpaceSaving<u32, u128>| {
                for (key, exact) in &exact {
                    let (known, error) = (table.get(key).copied().unwrap_or(0), table.evicted().error);
                    assert!(known <= *exact && *exact <= known + error, "{key}: {known} of {exact}, {error}");
                }
                let told: u128 = ranking(table).iter().map(|(_, ns)| ns).sum();
                assert_eq!(told + table.evicted().sum, whole);
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
