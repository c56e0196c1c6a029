//! Direct-mapped tables in front of the hash maps of a program: each key has one place, and the first key that comes gets it until
//! user space empties the table. A key whose place is taken goes to the hash map.
//!
//! Each CPU has a part of the table for each half. A key is found there with some multiplications and one comparison. A hash
//! map of the kernel takes several times as long: it mixes the words of the key one after the other, follows a list, and
//! compares byte by byte (`__htab_map_lookup_elem()`, kernel/bpf/hashtab.c).

/// A key of such a table.
pub trait TableKey<const WORDS: usize>: Copy {
    /// What tells it from all other keys of the same CPU and half.
    fn words(&self) -> [u64; WORDS];
}

impl<const WORDS: usize> TableKey<WORDS> for [u64; WORDS] {
    #[inline(always)]
    fn words(&self) -> [u64; WORDS] {
        *self
    }
}

/// What a table keeps for a key. Zeros are a value of which nothing has been added up.
pub trait TableValue {
    /// Whether nothing has been added up.
    fn is_empty(&self) -> bool;
}

/// A place of a table: a key and its value. Zeros are a free place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Place<K, V> {
    /// The key.
    pub key: K,
    /// Its value.
    pub value: V,
}

/// The index in a table of the place for `key` of this CPU in this half (0 or 1). The table has `places`, a power of two,
/// for each CPU and half.
#[inline(always)]
pub fn index<const WORDS: usize>(cpu: u32, half: u32, places: u32, key: &impl TableKey<WORDS>) -> u32 {
    /// An odd number without a pattern: 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, mut mixed, mut factor, mut word) = (key.words(), 0_u64, FACTOR, 0);
    while word < WORDS {
        mixed = mixed.wrapping_add(words[word].wrapping_mul(factor));
        factor = factor.wrapping_mul(FACTOR);
        word += 1;
    }
    part(cpu, half, places) + ((mixed >> 32) as u32 & (places - 1))
}

/// The index of the first place of this CPU in this half.
#[inline(always)]
pub const fn part(cpu: u32, half: u32, places: u32) -> u32 {
    (cpu * 2 + (half & 1)) * places
}

impl<K, V: TableValue> Place<K, V> {
    /// The value of `key`, if the place is its own or free.
    #[inline(always)]
    pub fn take<const WORDS: usize>(&mut self, key: &K) -> Option<&mut V>
    where
        K: TableKey<WORDS>,
    {
        if !is_same(&self.key.words(), &key.words()) {
            if !self.value.is_empty() {
                return None;
            }
            self.key = *key;
        }
        Some(&mut self.value)
    }
}

/// Whether two keys are the same, with one branch: the verifier follows what comes after each.
#[inline(always)]
const fn is_same<const WORDS: usize>(one: &[u64; WORDS], other: &[u64; WORDS]) -> bool {
    let (mut differ, mut word) = (0, 0);
    while word < WORDS {
        differ |= one[word] ^ other[word];
        word += 1;
    }
    differ == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl TableValue for u64 {
        fn is_empty(&self) -> bool {
            *self == 0
        }
    }

    const PLACES: u32 = 8;

    #[test]
    fn keys_that_count_up_spread_over_the_places() {
        let used = |keys: &mut dyn Iterator<Item = [u64; 2]>| {
            let mut places: Vec<u32> = keys.map(|key| index(0, 0, 64, &key)).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        // Random keys would take 41 places.
        assert!(used(&mut (0..64).map(|id| [id, 0])) > 30);
        assert!(used(&mut (0..64).map(|id| [7, id << 32])) > 30);
        assert!(used(&mut (0..64).map(|id| [id, id])) > 30);
    }

    proptest! {
        #[test]
        fn no_two_cpus_and_halves_share_a_place(
            [cpu, other] in prop::array::uniform2(0..8_u32),
            [half, other_half] in prop::array::uniform2(0..2_u32),
            keys in prop::array::uniform2(prop::array::uniform3(any::<u64>())),
        ) {
            prop_assume!((cpu, half) != (other, other_half));
            prop_assert_ne!(index(cpu, half, PLACES, &keys[0]), index(other, other_half, PLACES, &keys[1]));
            let own = part(cpu, half, PLACES);
            prop_assert!((own..own + PLACES).contains(&index(cpu, half, PLACES, &keys[0])));
        }

        #[test]
        fn table_and_hash_map_together_have_each_sum(
            added in prop::collection::vec((prop::array::uniform2(0..4_u64), 1..100_u64), 0..200),
        ) {
            let mut table = [Place { key: [0_u64; 2], value: 0_u64 }; PLACES as usize];
            let mut rest = std::collections::HashMap::<[u64; 2], u64>::new();
            let mut expected = rest.clone();
            for (key, number) in added {
                *expected.entry(key).or_default() += number;
                match table[index(0, 0, PLACES, &key) as usize].take(&key) {
                    Some(sum) => *sum += number,
                    None => *rest.entry(key).or_default() += number,
                }
            }
            for place in table.iter().filter(|place| !place.value.is_empty()) {
                prop_assert_eq!(rest.insert(place.key, place.value), None);
            }
            prop_assert_eq!(rest, expected);
        }
    }
}
