//! Latencies by value: each interval of a run has its own.

use crate::aggregate::{distribution::Distribution, percentile_rank::Percentile};

/// The number of waits of each latency, as exact as the source has them: waits of a bucket have its lower end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts(Vec<(u64, u64)>);

impl LatencyCounts {
    /// The latencies of a distribution.
    pub fn of(distribution: &Distribution) -> Self {
        let mut latencies = Self::default();
        distribution.for_each_value(|ns, count| latencies.record(ns, count));
        latencies
    }

    /// Latencies (ns) in ascending order, each with the number of its waits, which can be 0.
    pub fn of_ascending(counts: Vec<(u64, u64)>) -> Self {
        Self(counts)
    }

    /// Adds `count` waits of `ns`.
    pub fn record(&mut self, ns: u64, count: u64) {
        match self.0.last_mut() {
            Some(last) if last.0 == ns => last.1 += count,
            Some(last) if last.0 > ns => match self.0.binary_search_by_key(&ns, |(ns, _)| *ns) {
                Ok(at) => self.0[at].1 += count,
                Err(at) => self.0.insert(at, (ns, count)),
            },
            _ => self.0.push((ns, count)),
        }
    }

    /// Adds the waits of `other`.
    pub fn add(&mut self, other: &Self) {
        let (mut merged, mut own) = (Self(Vec::with_capacity(self.0.len() + other.0.len())), self.0.iter().peekable());
        for (ns, count) in &other.0 {
            while let Some((before, count)) = own.next_if(|(own, _)| own <= ns) {
                merged.record(*before, *count);
            }
            merged.record(*ns, *count);
        }
        own.for_each(|(ns, count)| merged.record(*ns, *count));
        *self = merged;
    }

    /// Each latency (ns) with the number of its waits, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The smallest latency that this share of the waits does not exceed: ns; `None` if there is no wait.
    pub fn percentile_ns(&self, percentile: Percentile) -> Option<u64> {
        percentile.find(self.count(), self.iter())
    }

    /// The share of waits of at least `ns`, 0 to 1; `None` if there is no wait. Exact if a bucket begins at `ns`.
    pub fn share_above(&self, ns: u64) -> Option<f64> {
        let first = self.0.partition_point(|(latency_ns, _)| *latency_ns < ns);
        let above: u64 = self.0[first..].iter().map(|(_, count)| count).sum();
        let all = self.count();
        (all > 0).then(|| above as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> LatencyCounts {
        let mut latencies = LatencyCounts::default();
        values.iter().for_each(|ns| latencies.record(*ns, 1));
        latencies
    }

    #[test]
    fn a_limit_belongs_to_the_waits_above_it() {
        let waits = of(&[1, 2, 2, 7]);
        assert_eq!([0, 2, 3, 7, 8].map(|ns| waits.share_above(ns).unwrap()), [1.0, 0.75, 0.25, 0.25, 0.0]);
        assert_eq!(LatencyCounts::default().share_above(1), None);
    }

    proptest! {
        #[test]
        fn adding_is_recording_both(a in prop::collection::vec(0..50u64, 0..40), b in prop::collection::vec(0..50u64, 0..40)) {
            let mut added = of(&a);
            added.add(&of(&b));
            prop_assert_eq!(&added, &of(&[a, b].concat()));
            prop_assert!(added.iter().is_sorted());
        }
    }
}
