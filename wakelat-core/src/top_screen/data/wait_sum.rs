//! The waits of a task, or of a group of tasks, added up.

use std::sync::Arc;

use super::{kept_wait::KeptWait, longest_kept::LongestKept, wait_buckets::WaitBuckets};
use crate::{
    aggregate::percentile_rank::Percentile,
    timeline::{
        Breakdown,
        component::{Component, Culprit},
    },
};

/// Figures of some waits.
#[derive(Clone, Debug, Default)]
pub struct WaitFigures {
    /// The number of waits.
    pub waits: u64,
    /// Their total latency: ns.
    pub ns: u64,
    /// The longest latency: ns.
    pub max_ns: u64,
    /// The time in each component: ns.
    pub components: [u64; Component::ALL.len()],
    /// Their latencies.
    pub latencies: WaitBuckets,
}

/// Figures of some waits, with the culprits that have most of the time, and the longest waits.
#[derive(Clone, Debug, Default)]
pub struct WaitSum {
    /// The figures.
    pub figures: WaitFigures,
    /// The culprits.
    pub culprits: CulpritTimes,
    /// The longest waits.
    pub longest: LongestKept,
}

/// The time of each culprit, for a limited number of culprits.
#[derive(Clone, Debug, Default)]
pub struct CulpritTimes(Vec<(Culprit, u64)>);

impl WaitFigures {
    fn add(&mut self, breakdown: &Breakdown) {
        self.waits += 1;
        self.ns = self.ns.saturating_add(breakdown.latency_ns);
        self.max_ns = self.max_ns.max(breakdown.latency_ns);
        for share in &breakdown.shares {
            let of = &mut self.components[share.culprit.component as usize];
            *of = of.saturating_add(share.ns);
        }
        self.latencies.add(breakdown.latency_ns);
    }

    /// Adds other waits.
    pub fn merge(&mut self, other: &Self) {
        self.merge_sums(other);
        self.latencies.merge(&other.latencies);
    }

    fn merge_sums(&mut self, other: &Self) {
        self.waits += other.waits;
        self.ns = self.ns.saturating_add(other.ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.components.iter_mut().zip(other.components).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
    }

    /// The sum of all these.
    pub fn sum_of(all: &[&Self]) -> Self {
        /// Up to this many are merged one by one.
        const FEW: usize = 8;
        let mut sum = Self::default();
        if all.len() <= FEW {
            all.iter().for_each(|figures| sum.merge(figures));
            return sum;
        }
        all.iter().for_each(|figures| sum.merge_sums(figures));
        sum.latencies = WaitBuckets::sum_of(all.iter().map(|figures| &figures.latencies));
        sum
    }

    /// A percentile of the latencies: ns.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        self.latencies.percentile_ns(percentile, self.max_ns)
    }

    /// The components that have time, the largest first.
    pub fn components(&self) -> Vec<(Component, u64)> {
        let all = Component::ALL.into_iter().zip(self.components);
        let mut some: Vec<_> = all.filter(|(_, ns)| *ns > 0).collect();
        some.sort_by_key(|(component, ns)| (std::cmp::Reverse(*ns), *component));
        some
    }
}

impl WaitSum {
    /// Number of culprits of a task in an interval.
    const CULPRITS: usize = 12;

    /// Number of the longest waits of a task, of a class and on a CPU, in an interval.
    const LONGEST: usize = 2;

    /// Adds a wait. `keep` returns what is kept of it, and is called if it is one of the longest.
    pub fn add(&mut self, breakdown: &Breakdown, keep: impl FnOnce() -> Arc<KeptWait>) {
        self.figures.add(breakdown);
        self.culprits.add_all(breakdown.shares.iter().map(|share| (share.culprit, share.ns)));
        self.culprits.shorten(Self::CULPRITS);
        if self.longest.wants(breakdown.latency_ns, Self::LONGEST) {
            self.longest.add(keep(), Self::LONGEST);
        } else {
            self.longest.miss(breakdown.latency_ns);
        }
    }

    /// Adds other waits.
    pub fn merge(&mut self, other: &Self) {
        self.figures.merge(&other.figures);
        self.culprits.merge(&other.culprits);
        self.culprits.shorten(Self::CULPRITS);
        self.longest.merge(&other.longest, Self::LONGEST);
    }
}

impl CulpritTimes {
    /// Adds times of culprits that all have different keys: of the shares of a wait, or of another one of these.
    fn add_all(&mut self, times: impl Iterator<Item = (Culprit, u64)>) {
        // A wait behind thousands of tasks has as many shares: each is compared only with the few that are kept.
        let kept = self.0.len();
        for (culprit, ns) in times {
            let key = culprit.key();
            match self.0[..kept].iter_mut().find(|(other, _)| other.key() == key) {
                Some((known, sum)) => (*known, *sum) = (culprit, sum.saturating_add(ns)),
                None => self.0.push((culprit, ns)),
            }
        }
    }

    /// Adds other times.
    pub fn merge(&mut self, other: &Self) {
        self.add_all(other.0.iter().copied());
    }

    /// Forgets the smallest if there are more than twice `most`.
    pub fn shorten(&mut self, most: usize) {
        if self.0.len() > 2 * most {
            self.sort();
            self.0.truncate(most);
        }
    }

    fn sort(&mut self) {
        self.0.sort_by_key(|(culprit, ns)| (std::cmp::Reverse(*ns), *culprit));
    }

    /// The culprits that are kept, with their time: ns.
    pub fn iter(&self) -> impl Iterator<Item = &(Culprit, u64)> {
        self.0.iter()
    }
}
