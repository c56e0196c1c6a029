//! The longest waits of a group, with everything known about each.

use std::cmp::Reverse;

use wakelat_common::histogram::WORST;

use crate::wait::Wait;

/// The longest waits, longest first; of equally long ones the earliest first.
#[derive(Clone, Debug, Default)]
pub struct WorstWaits {
    kept: Vec<Wait>,
    /// The longest of the waits that are known only by their bucket is at most this long: ns.
    others_up_to_ns: u64,
}

impl WorstWaits {
    /// Keeps `wait` if it is one of the longest so far.
    pub fn offer(&mut self, wait: &Wait) {
        let order = |wait: &Wait| (Reverse(wait.latency_ns), wait.at_ns);
        if self.kept.len() == WORST {
            match self.kept.last() {
                Some(least) if order(wait) < order(least) => drop(self.kept.pop()),
                _ => return,
            }
        }
        let position = self.kept.partition_point(|other| order(other) <= order(wait));
        self.kept.insert(position, *wait);
    }

    /// Takes into account waits of at most `ns` that only their bucket is known of: shorter ones are not among
    /// the longest for certain.
    pub fn add_others(&mut self, ns: u64) {
        self.others_up_to_ns = self.others_up_to_ns.max(ns);
    }

    /// Adds the waits of another group.
    pub fn add(&mut self, other: &Self) {
        other.kept.iter().for_each(|wait| self.offer(wait));
        self.add_others(other.others_up_to_ns);
    }

    /// The waits that are certainly the longest, longest first. Fewer than [`WORST`] only if there are fewer
    /// waits, or if the kernel aggregated them and others may be longer than the rest.
    pub fn waits(&self) -> &[Wait] {
        let certain = self.kept.partition_point(|wait| wait.latency_ns >= self.others_up_to_ns);
        &self.kept[..certain]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::testing::wait;

    proptest! {
        #[test]
        fn the_longest_are_kept_in_any_order_of_arrival(mut values in prop::collection::vec(0..50u64, 0..40)) {
            let mut worst = WorstWaits::default();
            for (at_ns, latency_ns) in (0..).zip(&values) {
                worst.offer(&Wait { at_ns, latency_ns: *latency_ns, ..wait() });
            }
            values.sort_unstable_by_key(|value| Reverse(*value));
            values.truncate(WORST);
            prop_assert_eq!(worst.waits().iter().map(|wait| wait.latency_ns).collect::<Vec<_>>(), values);
        }

        #[test]
        fn a_wait_is_shown_only_if_no_unknown_one_can_be_longer(
            known in prop::collection::vec(0..50u64, 1..10), unknown in prop::collection::vec(0..50u64, 0..10), cut in 0..10usize,
        ) {
            // An unknown wait comes with a known one that is at least as long.
            let longest = unknown.iter().copied().max();
            let known: Vec<u64> = known.into_iter().chain(longest).collect();
            let (first, second) = known.split_at(cut.min(known.len()));
            let [mut worst, mut other] = [WorstWaits::default(), WorstWaits::default()];
            first.iter().for_each(|latency_ns| worst.offer(&Wait { latency_ns: *latency_ns, ..wait() }));
            second.iter().for_each(|latency_ns| other.offer(&Wait { latency_ns: *latency_ns, ..wait() }));
            unknown.iter().for_each(|ns| other.add_others(*ns));
            worst.add(&other);
            let shown: Vec<u64> = worst.waits().iter().map(|wait| wait.latency_ns).collect();
            let mut all: Vec<u64> = known.iter().chain(&unknown).copied().collect();
            all.sort_unstable_by_key(|value| Reverse(*value));
            prop_assert!(!shown.is_empty());
            prop_assert_eq!(shown[0], all[0]);
            prop_assert!(shown.iter().all(|ns| longest.is_none_or(|longest| *ns >= longest)));
            if unknown.is_empty() {
                prop_assert_eq!(shown.len(), known.len().min(WORST));
            }
        }
    }
}
