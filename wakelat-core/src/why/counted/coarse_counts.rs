//! Numbers of waits by the kernel's buckets, in little memory: most groups use a few neighbouring ones of 256.

use wakelat_common::cause_sums::{COARSE_BUCKETS, coarse_upper};

/// Numbers of waits by bucket (`coarse_upper` of wakelat-common).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoarseCounts {
    /// The index of the first bucket with waits; 0 if there are none.
    first: usize,
    /// From the first bucket with waits to the last.
    counts: Vec<u64>,
}

impl CoarseCounts {
    /// Adds the numbers of all buckets from the first one on.
    pub fn add(&mut self, counts: &[u64; COARSE_BUCKETS]) {
        let Some(first) = counts.iter().position(|count| *count > 0) else { return };
        let end = counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        self.add_from(first, &counts[first..end]);
    }

    /// Adds the numbers of another.
    pub fn merge(&mut self, other: &Self) {
        if !other.counts.is_empty() {
            self.add_from(other.first, &other.counts);
        }
    }

    fn add_from(&mut self, first: usize, counts: &[u64]) {
        if self.counts.is_empty() {
            (self.first, self.counts) = (first, counts.to_vec());
            return;
        }
        let missing = self.first.saturating_sub(first);
        if missing > 0 {
            self.counts.splice(..0, std::iter::repeat_n(0, missing));
            self.first = first;
        }
        let at = first - self.first;
        if self.counts.len() < at + counts.len() {
            self.counts.reserve_exact(at + counts.len() - self.counts.len());
            self.counts.resize(at + counts.len(), 0);
        }
        self.counts[at..].iter_mut().zip(counts).for_each(|(mine, count)| *mine += count);
    }

    /// Subtracts the numbers of another, each at most to 0.
    pub fn subtract(&mut self, other: &Self) {
        for (index, count) in other.iter() {
            if let Some(mine) = index.checked_sub(self.first).and_then(|at| self.counts.get_mut(at)) {
                *mine = mine.saturating_sub(count);
            }
        }
        let end = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        self.counts.truncate(end);
        let empty = self.counts.iter().take_while(|count| **count == 0).count();
        self.counts.drain(..empty);
        self.first = if self.counts.is_empty() { 0 } else { self.first + empty };
    }

    /// The buckets with waits, in rising order: the index of each, and its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> + Clone {
        (self.first..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// The number of waits below `bound_ns`, if that is the upper bound of a bucket.
    pub fn below(&self, bound_ns: u64) -> u64 {
        self.iter().take_while(|(index, _)| coarse_upper(*index) <= bound_ns).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Some buckets with waits, and all others without.
    fn dense() -> impl Strategy<Value = [u64; COARSE_BUCKETS]> {
        prop::collection::vec((0..COARSE_BUCKETS, 1..1_000u64), 0..8).prop_map(|used| {
            let mut counts = [0; COARSE_BUCKETS];
            used.into_iter().for_each(|(index, count)| counts[index] = count);
            counts
        })
    }

    fn of(counts: &[u64; COARSE_BUCKETS]) -> CoarseCounts {
        let mut found = CoarseCounts::default();
        found.add(counts);
        found
    }

    fn each(found: &CoarseCounts) -> [u64; COARSE_BUCKETS] {
        let mut counts = [0; COARSE_BUCKETS];
        found.iter().for_each(|(index, count)| counts[index] = count);
        counts
    }

    proptest! {
        #[test]
        fn sums_and_differences_are_those_of_each_bucket(one in dense(), other in dense()) {
            let mut sum = of(&one);
            sum.merge(&of(&other));
            prop_assert_eq!(each(&sum), std::array::from_fn(|index| one[index] + other[index]));
            let mut added = sum.clone();
            added.add(&other);
            sum.merge(&of(&other));
            prop_assert_eq!(&added, &sum);
            let mut rest = of(&one);
            rest.subtract(&of(&other));
            prop_assert_eq!(each(&rest), std::array::from_fn(|index| one[index].saturating_sub(other[index])));
            // The same numbers are equal, however they came about.
            prop_assert_eq!(&rest, &of(&each(&rest)));
        }
    }
}
