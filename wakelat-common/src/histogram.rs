//! The histogram of one class on one CPU, in which the programs count waits if single waits are not
//! needed.

use crate::{
    Sample,
    bucket::{self, BUCKETS},
};

/// Number of [`Histogram::buckets`]: the next power of two above [`BUCKETS`], so that a mask keeps an
/// index within bounds. The last buckets stay empty.
pub const SLOTS: usize = BUCKETS.next_power_of_two();

/// Histograms per CPU: two for each class. Programs write to one half while user space reads and clears
/// the other.
pub const HISTOGRAMS: u32 = 2 * CLASSES;

const CLASSES: u32 = crate::Class::ALL.len() as u32;

/// Index of the histogram of `class` in half `half` (0 or 1) among those of a CPU.
#[inline(always)]
pub const fn slot(class: crate::Class, half: u32) -> u32 {
    class as u32 + (half & 1) * CLASSES
}

/// Number of longest waits that are kept in full for each class: a power of two, so that a mask keeps an
/// index within bounds.
pub const WORST: usize = 4;

/// Waits: exact sum and minimum, the number in each [`bucket`], and the longest ones in full. Zeros are a histogram
/// without waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Histogram {
    /// Sum of all waits: ns. Enough for 584 years.
    pub sum_ns: u64,
    /// All bits of the shortest wait (ns) inverted: the longer it is, the smaller is this number, and the first wait
    /// needs no test of its own.
    min_ns_inverted: u64,
    /// Waits of this length or more are among the longest: ns; 0 until there are [`WORST`].
    keep_from_ns: u64,
    /// Number of elements in use of `worst`.
    kept: u64,
    /// The longest waits, in no order; fewer than [`WORST`] only if there are fewer waits.
    worst: [Sample; WORST],
    /// Number of waits in each bucket.
    pub buckets: [u64; SLOTS],
}

const _: () = assert!(size_of::<Histogram>() == 32 + WORST * size_of::<Sample>() + 8 * SLOTS);

impl Histogram {
    /// A histogram without waits.
    pub const EMPTY: Self = Self {
        sum_ns: 0,
        min_ns_inverted: 0,
        keep_from_ns: 0,
        kept: 0,
        worst: [Sample::NONE; WORST],
        buckets: [0; SLOTS],
    };

    /// Adds a wait. Calls `sample` for all that is known about it if it is one of the longest so far.
    /// Among equally long waits the first ones are kept.
    #[inline(always)]
    pub fn record(&mut self, latency_ns: u64, sample: impl FnOnce() -> Sample) {
        if !latency_ns > self.min_ns_inverted {
            self.min_ns_inverted = !latency_ns;
        }
        self.sum_ns += latency_ns;
        self.buckets[bucket::index(latency_ns) & (SLOTS - 1)] += 1;
        // Last: the verifier follows what comes after a branch once for each way through it.
        if latency_ns >= self.keep_from_ns {
            self.keep(sample());
        }
    }

    /// Keeps a wait in place of the shortest one kept, or in the next free element.
    #[inline(always)]
    fn keep(&mut self, sample: Sample) {
        let kept = self.kept;
        let is_full = kept >= WORST as u64;
        let index = if is_full { self.shortest_kept() } else { kept as usize };
        self.worst[index & (WORST - 1)] = sample;
        if !is_full {
            self.kept = kept + 1;
        }
        if kept + 1 >= WORST as u64 {
            self.keep_from_ns = self.worst[self.shortest_kept() & (WORST - 1)].latency_ns + 1;
        }
    }

    #[inline(always)]
    fn shortest_kept(&self) -> usize {
        let (mut least, mut shortest_ns) = (0, self.worst[0].latency_ns);
        for (index, sample) in self.worst.iter().enumerate() {
            if sample.latency_ns < shortest_ns {
                (least, shortest_ns) = (index, sample.latency_ns);
            }
        }
        least
    }

    /// Whether there are no waits.
    pub const fn is_empty(&self) -> bool {
        self.kept == 0
    }

    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The shortest wait: ns; `u64::MAX` if there are none.
    pub const fn min_ns(&self) -> u64 {
        !self.min_ns_inverted
    }

    /// The CPU on which all these waits ended; 0 if there are none.
    pub const fn cpu(&self) -> u32 {
        self.worst[0].cpu
    }

    /// The longest waits, in no order: [`WORST`] of them, or all if there are fewer.
    pub fn worst(&self) -> &[Sample] {
        &self.worst[..self.kept.min(WORST as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Class;

    #[test]
    fn every_class_has_a_histogram_in_each_half() {
        let slots: Vec<u32> = (0..2).flat_map(|half| Class::ALL.map(|class| slot(class, half))).collect();
        assert_eq!(slots, (0..HISTOGRAMS).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn count_sum_minimum_and_the_longest_are_exact(values in prop::collection::vec(0..u64::MAX / 128, 1..100)) {
            let mut histogram = Histogram::EMPTY;
            for (at, value) in values.iter().enumerate() {
                histogram.record(*value, || Sample { cpu: 3, latency_ns: *value, at_ns: at as u64, ..Sample::NONE });
            }
            let mut longest: Vec<(u64, u64)> = values.iter().copied().zip(0..).collect();
            // Among equally long waits the first ones are kept.
            longest.sort_by_key(|(value, at)| (std::cmp::Reverse(*value), *at));
            longest.truncate(WORST);
            let mut kept: Vec<_> = histogram.worst().iter().map(|sample| (sample.latency_ns, sample.at_ns)).collect();
            kept.sort_by_key(|(value, at)| (std::cmp::Reverse(*value), *at));
            prop_assert_eq!(kept[0], longest[0]);
            prop_assert_eq!(kept.iter().map(|(value, _)| value).collect::<Vec<_>>(), longest.iter().map(|(value, _)| value).collect::<Vec<_>>());
            prop_assert_eq!(histogram.count(), values.len() as u64);
            prop_assert_eq!(histogram.sum_ns, values.iter().sum::<u64>());
            prop_assert_eq!(histogram.min_ns(), *values.iter().min().unwrap());
            prop_assert_eq!(histogram.cpu(), 3);
            for value in values {
                prop_assert!(histogram.buckets[bucket::index(value)] > 0);
            }
        }
    }
}
