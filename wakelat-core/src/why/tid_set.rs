//! Sets of TIDs. The threads of a process were mostly created one after the other, so their TIDs are close.

/// A set of TIDs in little memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TidSet {
    /// For each 64 TIDs that the set has any of: the number of the block, and a bit for each TID. In ascending order.
    blocks: Vec<(u32, u64)>,
    size: usize,
}

impl TidSet {
    /// Adds a TID. Returns whether it is new.
    #[inline]
    pub fn insert(&mut self, tid: u32) -> bool {
        let (number, bit) = (tid / u64::BITS, 1 << (tid % u64::BITS));
        let at = self.blocks.partition_point(|(known, _)| *known < number);
        let is_new = match self.blocks.get_mut(at) {
            Some((known, bits)) if *known == number => {
                let is_new = *bits & bit == 0;
                *bits |= bit;
                is_new
            }
            _ => {
                self.blocks.insert(at, (number, bit));
                true
            }
        };
        self.size += usize::from(is_new);
        is_new
    }

    /// The number of TIDs.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// The number of words of [`TidFilter`].
const WORDS: usize = 1 << 10;

/// Excludes most TIDs that are not in a map, without a lookup in it.
#[derive(Clone, Debug)]
pub struct TidFilter(Box<[u64; WORDS]>);

impl Default for TidFilter {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl FromIterator<u32> for TidFilter {
    fn from_iter<I: IntoIterator<Item = u32>>(tids: I) -> Self {
        let mut filter = Self::default();
        tids.into_iter().for_each(|tid| filter.insert(tid));
        filter
    }
}

impl TidFilter {
    const fn place(tid: u32) -> (usize, u64) {
        (tid as usize / u64::BITS as usize % WORDS, 1 << (tid % u64::BITS))
    }

    /// Adds a TID.
    pub fn insert(&mut self, tid: u32) {
        let (word, bit) = Self::place(tid);
        self.0[word] |= bit;
    }

    /// False only for a TID that was not added.
    #[inline]
    pub fn may_have(&self, tid: u32) -> bool {
        let (word, bit) = Self::place(tid);
        self.0[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_tids_has_what_any_other_set_has(
            tids in prop::collection::vec(any::<u32>(), 0..200), shift in 0..32u32,
        ) {
            let (mut set, mut simple) = (TidSet::default(), BTreeSet::new());
            let filter: TidFilter = tids.iter().map(|tid| tid >> shift).collect();
            for tid in tids.iter().map(|tid| tid >> shift) {
                prop_assert!(filter.may_have(tid));
                prop_assert_eq!(set.insert(tid), simple.insert(tid));
                prop_assert_eq!(set.size(), simple.len());
            }
        }
    }

    #[test]
    fn a_filter_excludes_most_tids() {
        let filter: TidFilter = (1_000..1_100).collect();
        assert_eq!((0..65_536).filter(|tid| filter.may_have(*tid)).count(), 100);
    }
}
