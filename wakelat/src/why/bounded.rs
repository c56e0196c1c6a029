//! Sums by key in a table of bounded size. Where it is full the smaller ones make room, and are counted together: whoever comes
//! late and takes much is told apart all the same.

use crate::hash::HashMap;

use std::{cmp::Reverse, collections::hash_map::Entry, hash::Hash};

/// What a table adds up.
pub trait Sum {
    /// How much it is: ns.
    fn ns(&self) -> u128;
}

impl Sum for u128 {
    fn ns(&self) -> u128 {
        *self
    }
}

/// Sums by key, and the rest.
#[derive(Clone, Debug)]
pub struct Bounded<K, V> {
    kept: HashMap<K, V>,
    rest: Rest,
}

/// Those that are no longer told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// What they had together: ns.
    pub ns: u128,
    /// How many they are. One that came again afterwards may be among them more than once.
    pub count: u64,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self { kept: HashMap::default(), rest: Rest::default() }
    }
}

impl<K: Copy + Ord + Hash, V: Sum> Bounded<K, V> {
    /// The sum of a key, `empty` where it is new.
    pub fn entry(&mut self, key: K, empty: impl FnOnce() -> V) -> &mut V {
        self.kept.entry(key).or_insert_with(empty)
    }

    /// That of a key that is told apart.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.kept.get(key)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.kept.get_mut(key)
    }

    /// How many are told apart.
    pub fn told_apart(&self) -> usize {
        self.kept.len()
    }

    /// All that are told apart, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.kept.values()
    }

    /// Where there are more than `limit`, keeps the larger half of so many. Returns whether there were.
    pub fn make_room(&mut self, limit: usize) -> bool {
        let is_full = self.kept.len() > limit;
        if is_full {
            self.keep(limit / 2);
        }
        is_full
    }

    /// Keeps the `most` largest, of equal ones the first by key: whatever the order in which they came.
    pub fn keep(&mut self, most: usize) {
        if self.kept.len() <= most {
            return;
        }
        let smaller: Vec<K> = self.ranking().into_iter().skip(most).map(|(key, _)| key).collect();
        for key in smaller {
            if let Some(sum) = self.kept.remove(&key) {
                self.rest.add(Rest { ns: sum.ns(), count: 1 });
            }
        }
    }

    /// Adds all of another table; `add` adds what both have.
    pub fn merge(&mut self, other: &Self, add: impl Fn(&mut V, &V))
    where
        V: Clone,
    {
        for (key, sum) in &other.kept {
            match self.kept.entry(*key) {
                Entry::Occupied(mut same) => add(same.get_mut(), sum),
                Entry::Vacant(none) => _ = none.insert(sum.clone()),
            }
        }
        self.rest.add(other.rest);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.rest = Rest::default();
    }

    /// All that are told apart, the largest first; equal ones by key, so that the order is always the same.
    pub fn ranking(&self) -> Vec<(K, &V)> {
        let mut all: Vec<(K, &V)> = self.kept.iter().map(|(key, sum)| (*key, sum)).collect();
        all.sort_unstable_by_key(|(key, sum)| (Reverse(sum.ns()), *key));
        all
    }

    /// Those that are not.
    pub fn rest(&self) -> Rest {
        self.rest
    }
}

impl Rest {
    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.count += other.count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranking(table: &Bounded<u32, u128>) -> Vec<(u32, u128)> {
        table.ranking().into_iter().map(|(key, ns)| (key, *ns)).collect()
    }

    #[test]
    fn who_comes_late_and_takes_much_is_told_apart() {
        let mut table = Bounded::default();
        for key in 0..1_000 {
            *table.entry(key, || 0u128) += 5;
            table.make_room(10);
        }
        for _ in 0..1_000 {
            *table.entry(7_777, || 0) += 7;
            *table.entry(table.rest().count as u32 + 10_000, || 0) += 5;
            table.make_room(10);
        }
        assert_eq!(ranking(&table)[0], (7_777, 7_000));
    }

    #[test]
    fn of_equal_ones_the_first_by_key_stay() {
        let mut table = Bounded::default();
        [9, 3, 7, 1, 5].into_iter().for_each(|key| *table.entry(key, || 0u128) += 2);
        table.keep(2);
        assert_eq!((ranking(&table), table.rest()), (vec![(1, 2), (3, 2)], Rest { ns: 6, count: 3 }));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_a_table_of_any_size(
            sums in prop::collection::vec((0..30u32, 0..100u64), 0..200), limit in 0..20usize, at in 0..200usize,
        ) {
            let whole: u128 = sums.iter().map(|(_, ns)| u128::from(*ns)).sum();
            let add = |sums: &[(u32, u64)]| {
                let mut table = Bounded::default();
                for (key, ns) in sums {
                    *table.entry(*key, || 0u128) += u128::from(*ns);
                    table.make_room(limit);
                    assert!(table.told_apart() <= limit);
                }
                table
            };
            let whole_of = |table: &Bounded<u32, u128>| ranking(table).iter().map(|(_, ns)| ns).sum::<u128>() + table.rest().ns;
            let (first, second) = sums.split_at(at.min(sums.len()));
            let (first, second) = (add(first), add(second));
            let (mut one, mut other) = (first.clone(), second.clone());
            one.merge(&second, |mine, ns| *mine += ns);
            other.merge(&first, |mine, ns| *mine += ns);
            prop_assert_eq!(whole_of(&add(&sums)), whole);
            prop_assert_eq!((ranking(&one), one.rest()), (ranking(&other), other.rest()));
            prop_assert_eq!(whole_of(&one), whole);
        }
    }
}
