//! The longest waits of a group, with everything known about each.

use std::cmp::Reverse;

use wakelat_common::histogram::WORST;

use crate::wait::Wait;

/// The longest waits, longest first; of equally long ones the earliest first.
#[derive(Clone, Debug, Default)]
pub struct WorstWaits(Vec<Wait>);

impl WorstWaits {
    /// Keeps `wait` if it is one of the longest so far.
    pub fn offer(&mut self, wait: &Wait) {
        let order = |wait: &Wait| (Reverse(wait.latency_ns), wait.at_ns);
        if self.0.len() == WORST {
            match self.0.last() {
                Some(least) if order(wait) < order(least) => drop(self.0.pop()),
                _ => return,
            }
        }
        let position = self.0.partition_point(|other| order(other) <= order(wait));
        self.0.insert(position, *wait);
    }

    /// The recorded waits, longest first.
    pub fn waits(&self) -> &[Wait] {
        &self.0
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
    }
}
