//! How many waits have which latency, in as little memory as a short interval of one task needs.

use wakelat_common::bucket::{self, BUCKETS, PER_OCTAVE};

use crate::aggregate::percentile_rank::Percentile;

/// Number of powers of two that a latency in ns can begin with.
pub const OCTAVES: usize = 64;

/// The number of waits in each [`bucket`] that has any, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitBuckets(Vec<(u16, u64)>);

impl WaitBuckets {
    /// Adds a wait: ns.
    pub fn add(&mut self, latency_ns: u64) {
        // There are fewer than 2^11 buckets.
        let bucket = bucket::index(latency_ns) as u16;
        match self.0.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (bucket, 1)),
        }
    }

    /// Adds other waits.
    pub fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        let (mine, theirs) = (std::mem::take(&mut self.0), &other.0);
        self.0.reserve(mine.len() + theirs.len());
        let (mut mine, mut theirs) = (mine.into_iter().peekable(), theirs.iter().copied().peekable());
        loop {
            let next = match (mine.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let sum = (a.0, a.1.saturating_add(b.1));
                    mine.next();
                    theirs.next();
                    Some(sum)
                }
                (Some(a), Some(b)) if a.0 < b.0 => mine.next(),
                (Some(_), None) => mine.next(),
                _ => theirs.next(),
            };
            match next {
                Some(next) => self.0.push(next),
                None => return,
            }
        }
    }

    /// The sum of many counts.
    pub fn sum_of<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = [0u64; BUCKETS];
        for (bucket, count) in all.flat_map(|counts| &counts.0) {
            let of = &mut sum[usize::from(*bucket)];
            *of = of.saturating_add(*count);
        }
        Self((0..).zip(sum).filter(|(_, count)| *count > 0).collect())
    }

    /// The smallest latency that at least this share of the waits does not exceed: ns, at most 1/32 too high, and never
    /// above `max_ns`; 0 without waits.
    pub fn percentile_ns(&self, percentile: Percentile, max_ns: u64) -> u64 {
        let found = percentile.find(self.count(), self.0.iter().copied());
        found.map_or(0, |bucket| bucket::upper(bucket.into()).saturating_sub(1)).min(max_ns)
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Adds the number of waits by the greatest power of two that is not above their latency; those below the width of a
    /// bucket count as that.
    pub fn add_octaves(&self, octaves: &mut [u64; OCTAVES]) {
        for (bucket, count) in &self.0 {
            let octave = bucket::lower((*bucket).into()).max(PER_OCTAVE).ilog2() as usize;
            octaves[octave] = octaves[octave].saturating_add(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merged_counts_are_those_of_all_waits(values in prop::collection::vec(any::<u64>(), 0..60), cut in 0..60usize) {
            let counts = |values: &[u64]| {
                let mut counts = WaitBuckets::default();
                values.iter().for_each(|value| counts.add(*value));
                counts
            };
            let (first, second) = values.split_at(cut.min(values.len()));
            let mut merged = counts(first);
            merged.merge(&counts(second));
            prop_assert_eq!(&merged, &counts(&values));
            prop_assert_eq!(&merged, &WaitBuckets::sum_of([counts(first), counts(second)].iter()));
            let mut octaves = [0; OCTAVES];
            merged.add_octaves(&mut octaves);
            prop_assert_eq!(octaves.iter().sum::<u64>(), values.len() as u64);
        }

        #[test]
        fn a_percentile_is_at_most_a_bucket_too_high(mut values in prop::collection::vec(1..1u64 << 50, 1..60)) {
            let mut counts = WaitBuckets::default();
            values.iter().for_each(|value| counts.add(*value));
            values.sort_unstable();
            let max_ns = values[values.len() - 1];
            for percentile in [Percentile::P50, Percentile::P99, Percentile::MAX] {
                let exact = values[percentile.rank(values.len() as u64) as usize - 1];
                let found = counts.percentile_ns(percentile, max_ns);
                prop_assert!(exact <= found && found <= exact + exact / 32, "{} {}", exact, found);
            }
        }
    }
}
