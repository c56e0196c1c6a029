//! The longest waits that are kept.

use std::sync::Arc;

use super::kept_wait::KeptWait;

/// The longest waits, the longest first.
#[derive(Clone, Debug, Default)]
pub struct LongestKept {
    waits: Vec<Arc<KeptWait>>,
    /// The longest wait that is not kept: ns.
    missing_ns: u64,
}

impl LongestKept {
    /// Whether a wait of this latency would be kept as one of the `most` longest.
    pub fn wants(&self, latency_ns: u64, most: usize) -> bool {
        self.waits.len() < most || self.waits.last().is_some_and(|last| last.latency_ns < latency_ns)
    }

    /// Whether this wait would be kept as one of the `most` longest.
    pub fn has_room(&self, wait: &KeptWait, most: usize) -> bool {
        self.waits.get(most - 1).is_none_or(|last| wait.order() <= last.order())
    }

    /// Takes into account a wait that is not kept.
    pub fn miss(&mut self, latency_ns: u64) {
        self.missing_ns = self.missing_ns.max(latency_ns);
    }

    /// Adds a wait, and keeps the `most` longest.
    pub fn add(&mut self, wait: Arc<KeptWait>, most: usize) {
        let at = self.waits.partition_point(|other| other.order() < wait.order());
        if self.waits.get(at).is_none_or(|other| other.order() != wait.order()) {
            self.waits.insert(at, wait);
        }
        self.shorten(most);
    }

    /// The `most` longest of many.
    pub fn of_all<'a>(all: impl Iterator<Item = &'a Self>, most: usize) -> Self {
        let mut longest = Self::default();
        for other in all {
            longest.miss(other.missing_ns);
            for wait in &other.waits {
                // Most of the waits of many tasks are shorter than the longest of all: no sorting.
                if !longest.has_room(wait, most) {
                    longest.miss(wait.latency_ns);
                    break;
                }
                longest.add(Arc::clone(wait), most);
            }
        }
        longest
    }

    /// Adds the longest of other waits, and keeps the `most` longest of all.
    pub fn merge(&mut self, other: &Self, most: usize) {
        self.miss(other.missing_ns);
        self.waits.extend(other.waits.iter().cloned());
        self.waits.sort_by_key(|wait| wait.order());
        self.waits.dedup_by_key(|wait| wait.order());
        self.shorten(most);
    }

    fn shorten(&mut self, most: usize) {
        if let Some(first) = self.waits.get(most) {
            self.missing_ns = self.missing_ns.max(first.latency_ns);
            self.waits.truncate(most);
        }
    }

    /// The waits, the longest first.
    pub fn waits(&self) -> &[Arc<KeptWait>] {
        &self.waits
    }

    /// Waits of this latency or less may be missing: ns.
    pub fn missing_ns(&self) -> u64 {
        self.missing_ns
    }
}
