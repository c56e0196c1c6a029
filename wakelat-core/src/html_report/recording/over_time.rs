//! Waits by time: their number by latency, and their time by component.

use std::collections::BTreeMap;

use super::ComponentDocument;
use crate::{
    timeline::{Breakdown, component::Component},
    why::render::labels,
};

/// Most intervals; for a longer time, intervals are twice as long.
const MAX_INTERVALS: u64 = 160;

/// The shortest interval: ns.
const SHORTEST_NS: u64 = 1_000_000;

/// What was added up in one interval.
#[derive(Clone, Debug, Default)]
struct Interval {
    /// Number of waits by the exponent of the greatest power of two (ns) that is not above their latency.
    waits: BTreeMap<u32, u64>,
    ns: [u64; Component::ALL.len()],
}

/// Waits by the interval in which they ended. The intervals begin at multiples of their length.
#[derive(Debug)]
pub struct OverTime {
    interval_ns: u64,
    intervals: BTreeMap<u64, Interval>,
}

impl Default for OverTime {
    fn default() -> Self {
        Self { interval_ns: SHORTEST_NS, intervals: BTreeMap::new() }
    }
}

impl OverTime {
    /// Adds a wait that ended at `at_ns`.
    pub fn add(&mut self, breakdown: &Breakdown, at_ns: u64) {
        let interval = self.intervals.entry(at_ns / self.interval_ns).or_default();
        *interval.waits.entry(breakdown.latency_ns.max(1).ilog2()).or_default() += 1;
        for (component, ns) in breakdown.components() {
            interval.ns[component as usize] += ns;
        }
        while self.span().is_some_and(|(first, last)| last - first >= MAX_INTERVALS) {
            self.double();
        }
    }

    /// Makes room for the time from `start_ns` to `end_ns`, which waits can be far apart from. Returns the number of
    /// intervals in it and up to the last wait.
    pub fn cover(&mut self, start_ns: u64, end_ns: u64) -> u64 {
        loop {
            let last = self.span().map_or(0, |(_, last)| last).max(end_ns.saturating_sub(1) / self.interval_ns);
            let count = last.saturating_sub(start_ns / self.interval_ns) + 1;
            if count <= MAX_INTERVALS {
                return count;
            }
            self.double();
        }
    }

    /// The length of an interval: ns.
    pub const fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// For each interval, counted from the one of `start_ns` on, and each exponent: the number of waits.
    pub fn cells(&self, start_ns: u64) -> Vec<(usize, u32, u64)> {
        let cells = self.from(start_ns).flat_map(|(index, interval)| {
            interval.waits.iter().map(move |(exponent, waits)| (index, *exponent, *waits))
        });
        cells.collect()
    }

    /// For each component, the time of each interval, counted from the one of `start_ns` on.
    pub fn components(&self, start_ns: u64) -> Vec<ComponentDocument> {
        let length = self.from(start_ns).map(|(index, _)| index + 1).max().unwrap_or(0);
        let of = |component: Component| {
            let mut ns = vec![0; length];
            self.from(start_ns).for_each(|(index, interval)| ns[index] += interval.ns[component as usize]);
            ComponentDocument { id: component.name(), name: labels::component(component), ns }
        };
        Component::ALL.into_iter().map(of).collect()
    }

    /// Each interval with its number, counted from the one of `start_ns` on.
    fn from(&self, start_ns: u64) -> impl Iterator<Item = (usize, &Interval)> {
        let first = start_ns / self.interval_ns;
        self.intervals.iter().map(move |(number, interval)| (number.saturating_sub(first) as usize, interval))
    }

    fn span(&self) -> Option<(u64, u64)> {
        Some((*self.intervals.first_key_value()?.0, *self.intervals.last_key_value()?.0))
    }

    fn double(&mut self) {
        self.interval_ns *= 2;
        for (number, interval) in std::mem::take(&mut self.intervals) {
            let wider = self.intervals.entry(number / 2).or_default();
            interval.waits.into_iter().for_each(|(exponent, waits)| *wider.waits.entry(exponent).or_default() += waits);
            wider.ns.iter_mut().zip(interval.ns).for_each(|(sum, ns)| *sum += ns);
        }
    }
}
