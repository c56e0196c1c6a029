//! One side of a comparison: the waits as one instrument counted them.

use std::collections::BTreeMap;

use wakelat_tracefs::hist_trigger::log2_bucket::{log2_bucket, log2_range};
use wakelat_tracefs::hist_trigger::wakeup_latency::Buckets;
use wakelat_tracefs::hist_trigger::{EntryKey, HistogramTotals, TriggerHistogram};

/// Smallest and largest value of a bucket in ns, both inclusive.
pub type BucketRange = (u64, u64);

/// The waits that one instrument counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideCounts {
    /// Waits by bucket; empty buckets are absent.
    pub counts: BTreeMap<BucketRange, u64>,
    /// The sum of all latencies in ns, if the instrument has one.
    pub sum_ns: Option<u128>,
    /// The instrument's own totals.
    pub totals: HistogramTotals,
}

impl SideCounts {
    /// The counts of a hist trigger; none if its key is not a single latency in buckets.
    pub fn of(histogram: &TriggerHistogram) -> Option<Self> {
        if histogram.entries.is_empty() {
            // Value names come from the entries, so an empty histogram has none.
            return Some(Self { sum_ns: Some(0), totals: histogram.totals?, ..Self::default() });
        }
        let mut side = Self {
            sum_ns: histogram.column("lat").map(|sums| sums.into_iter().map(u128::from).sum()),
            totals: histogram.totals?,
            ..Self::default()
        };
        let hits = histogram.column("hitcount")?;
        for (entry, hits) in histogram.entries.iter().zip(hits) {
            let range = match entry.keys[..] {
                [EntryKey::Log2(power)] => log2_range(power),
                [EntryKey::Range(from, to)] => (from, to),
                _ => return None,
            };
            // The kernel may show a key twice if two CPUs inserted it at the same time (tracing_map).
            *side.counts.entry(range).or_default() += hits;
        }
        Some(side)
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }
}

/// The side that sees every wait. Counts the waits in the kernel's buckets, and for each edge between two
/// buckets the waits so close to it that another clock reading may put them on its other side.
#[derive(Clone, Debug)]
pub struct ExactCounts {
    buckets: Buckets,
    clock_ns: u64,
    /// The waits by bucket.
    pub side: SideCounts,
    /// Waits within the clock's tolerance of an edge, by the edge: the largest value of the bucket below it.
    pub near: BTreeMap<u64, u64>,
}

impl ExactCounts {
    /// Creates empty counts in `buckets`; two clock readings for the same wait may differ by `clock_ns`.
    pub fn new(buckets: Buckets, clock_ns: u64) -> Self {
        let side = SideCounts { sum_ns: Some(0), ..SideCounts::default() };
        Self { buckets, clock_ns, side, near: BTreeMap::new() }
    }

    /// Maximum difference of two clock readings, in ns.
    pub fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// Adds one wait.
    pub fn record(&mut self, latency_ns: u64) {
        *self.side.counts.entry(self.bucket(latency_ns)).or_default() += 1;
        self.side.totals.hits += 1;
        self.side.totals.entries = self.side.counts.len() as u64;
        self.side.sum_ns = self.side.sum_ns.map(|sum| sum + u128::from(latency_ns));
        if self.clock_ns == 0 {
            return;
        }
        // An edge lies between its value and the next one, so this wait may cross the edges from
        // `latency - clock` up to one below `latency + clock`.
        let last = latency_ns.saturating_add(self.clock_ns - 1);
        let mut edge = self.bucket(latency_ns.saturating_sub(self.clock_ns)).1;
        while edge <= last && edge < u64::MAX {
            *self.near.entry(edge).or_default() += 1;
            edge = self.bucket(edge + 1).1;
        }
    }

    /// How many waits may cross all edges from `first` to `last` because of another clock reading.
    pub fn may_cross(&self, first: u64, last: u64) -> u64 {
        let (mut edge, mut fewest) = (first, u64::MAX);
        while edge <= last && fewest > 0 {
            fewest = fewest.min(self.near.get(&edge).copied().unwrap_or(0));
            edge = self.bucket(edge.saturating_add(1)).1;
        }
        fewest
    }

    /// The bucket that the kernel uses for a latency.
    fn bucket(&self, latency_ns: u64) -> BucketRange {
        match self.buckets {
            Buckets::Log2 => log2_range(log2_bucket(latency_ns)),
            Buckets::Linear { width_ns, .. } => {
                let from = latency_ns - latency_ns % width_ns;
                (from, from.saturating_add(width_ns - 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_tracefs::hist_trigger::parse::{Completeness, parse};

    #[test]
    fn a_trigger_without_hits_has_counted_no_waits() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=lat.log2:vals=hitcount,lat:sort=lat.log2:size=2048 [active]\n\
                    #\n\n\nTotals:\n    Hits: 0\n    Entries: 0\n    Dropped: 0\n";
        let histograms = parse(text.as_bytes(), Completeness::Whole).unwrap();
        let side = SideCounts::of(&histograms[0]).expect("the key is a latency in buckets");
        assert_eq!((side.count(), side.sum_ns, side.totals.hits), (0, Some(0), 0));
    }
}
