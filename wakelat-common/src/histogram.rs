//! The waits of one class on one CPU, as the programs keep them where nobody asked for single ones.

use crate::{
    Sample,
    bucket::{self, BUCKETS},
};

/// Entries of [`Histogram::buckets`]: the next power of two above [`BUCKETS`], so that a mask keeps an index within
/// bounds; the last ones stay empty.
pub const SLOTS: usize = BUCKETS.next_power_of_two();

/// Histograms that one CPU has: one for each class, twice. Programs write to the one half while user space reads and
/// clears the other.
pub const HISTOGRAMS: u32 = 2 * CLASSES;

const CLASSES: u32 = crate::Class::ALL.len() as u32;

/// Which of a CPU's histograms is that of `class` in half `half`, 0 or 1.
#[inline(always)]
pub const fn slot(class: crate::Class, half: u32) -> u32 {
    class as u32 + (half & 1) * CLASSES
}

/// The longest waits that are kept of each class with all that is known of them: a power of two, so that a mask keeps an
/// index within bounds.
pub const WORST: usize = 4;

/// Waits: exact count, sum and minimum, each in its bucket ([`bucket`]), and the longest ones by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// All of them together: ns. Enough for 584 years.
    pub sum_ns: u64,
    /// The shortest: ns.
    pub min_ns: u64,
    /// Waits of this length or more are among the longest: ns; 0 until there are [`WORST`].
    keep_from_ns: u64,
    /// The longest, in no order; as many as there are waits, or all.
    worst: [Sample; WORST],
    /// Waits by bucket.
    pub buckets: [u64; SLOTS],
}

const _: () = assert!(size_of::<Histogram>() == 32 + WORST * size_of::<Sample>() + 8 * SLOTS);

impl Histogram {
    /// No waits.
    pub const EMPTY: Self =
        Self { count: 0, sum_ns: 0, min_ns: 0, keep_from_ns: 0, worst: [Sample::NONE; WORST], buckets: [0; SLOTS] };

    /// Adds a wait. `sample` is asked for all that is known of it if it is one of the longest so far. Of equally long ones
    /// the first stay.
    #[inline(always)]
    pub fn record(&mut self, latency_ns: u64, sample: impl FnOnce() -> Sample) {
        let before = self.count;
        if before == 0 || latency_ns < self.min_ns {
            self.min_ns = latency_ns;
        }
        self.count = before + 1;
        self.sum_ns += latency_ns;
        self.buckets[bucket::index(latency_ns) & (SLOTS - 1)] += 1;
        // Last: the verifier follows what comes after a branch once for each way through it.
        if latency_ns >= self.keep_from_ns {
            self.keep(before, sample());
        }
    }

    /// Keeps a wait in place of the shortest one kept, or in the next empty place. `before`: how many waits came before it.
    #[inline(always)]
    fn keep(&mut self, before: u64, sample: Sample) {
        let filled = before >= WORST as u64;
        let place = if filled { self.shortest_kept() } else { before as usize };
        self.worst[place & (WORST - 1)] = sample;
        // This one is the last of the first ones, or of those after.
        if before + 1 >= WORST as u64 {
            self.keep_from_ns = self.worst[self.shortest_kept() & (WORST - 1)].latency_ns + 1;
        }
    }

    #[inline(always)]
    fn shortest_kept(&self) -> usize {
        let (mut least, mut shortest_ns) = (0, self.worst[0].latency_ns);
        for (place, sample) in self.worst.iter().enumerate() {
            if sample.latency_ns < shortest_ns {
                (least, shortest_ns) = (place, sample.latency_ns);
            }
        }
        least
    }

    /// The CPU on which these waits ended: the same for all. 0 where there are none.
    pub const fn cpu(&self) -> u32 {
        self.worst[0].cpu
    }

    /// The longest waits, in no order: [`WORST`] of them, or all there are.
    pub fn worst(&self) -> &[Sample] {
        &self.worst[..self.count.min(WORST as u64) as usize]
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
            // Of equal ones the first.
            longest.sort_by_key(|(value, at)| (std::cmp::Reverse(*value), *at));
            longest.truncate(WORST);
            let mut kept: Vec<_> = histogram.worst().iter().map(|sample| (sample.latency_ns, sample.at_ns)).collect();
            kept.sort_by_key(|(value, at)| (std::cmp::Reverse(*value), *at));
            prop_assert_eq!(kept[0], longest[0]);
            prop_assert_eq!(kept.iter().map(|(value, _)| value).collect::<Vec<_>>(), longest.iter().map(|(value, _)| value).collect::<Vec<_>>());
            prop_assert_eq!(histogram.count, values.len() as u64);
            prop_assert_eq!(histogram.sum_ns, values.iter().sum::<u64>());
            prop_assert_eq!(histogram.min_ns, *values.iter().min().unwrap());
            prop_assert_eq!(histogram.cpu(), 3);
            prop_assert_eq!(histogram.buckets.iter().sum::<u64>(), histogram.count);
            for value in values {
                prop_assert!(histogram.buckets[bucket::index(value)] > 0);
            }
        }
    }
}
