//! The waits of one class on one CPU, as the programs keep them where nobody asked for single ones.

use crate::{
    bucket::{self, BUCKETS},
    sample::COMM_LEN,
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

/// Waits: exact count, sum, minimum and maximum, and each in its bucket ([`bucket`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// All of them together: ns. Enough for 584 years.
    pub sum_ns: u64,
    /// The shortest: ns.
    pub min_ns: u64,
    /// The longest: ns.
    pub max_ns: u64,
    /// When the longest ended: ns of CLOCK_MONOTONIC.
    pub max_at_ns: u64,
    /// Whose it was.
    pub max_pid: u32,
    /// The CPU: the same for all.
    pub cpu: u32,
    /// That thread's name, NUL-terminated.
    pub max_comm: [u8; COMM_LEN],
    /// Waits by bucket.
    pub buckets: [u64; SLOTS],
}

const _: () = assert!(size_of::<Histogram>() == 64 + 8 * SLOTS);

impl Histogram {
    /// No waits.
    pub const EMPTY: Self = Self {
        count: 0,
        sum_ns: 0,
        min_ns: 0,
        max_ns: 0,
        max_at_ns: 0,
        max_pid: 0,
        cpu: 0,
        max_comm: [0; COMM_LEN],
        buckets: [0; SLOTS],
    };

    /// Adds a wait of `pid` that ended at `at_ns` on `cpu`. `comm` is asked for its name if it is the longest so far. Of
    /// equally long ones the first stays.
    #[inline(always)]
    pub fn record(&mut self, latency_ns: u64, at_ns: u64, pid: u32, cpu: u32, comm: impl FnOnce() -> [u8; COMM_LEN]) {
        let first = self.count == 0;
        if first || latency_ns < self.min_ns {
            self.min_ns = latency_ns;
        }
        if first || latency_ns > self.max_ns {
            self.max_ns = latency_ns;
            self.max_at_ns = at_ns;
            self.max_pid = pid;
            self.cpu = cpu;
            self.max_comm = comm();
        }
        self.count += 1;
        self.sum_ns += latency_ns;
        self.buckets[bucket::index(latency_ns) & (SLOTS - 1)] += 1;
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
        fn count_sum_and_extremes_are_exact(values in prop::collection::vec(0..u64::MAX / 128, 1..100)) {
            let mut histogram = Histogram::EMPTY;
            for (at, value) in values.iter().enumerate() {
                histogram.record(*value, at as u64, at as u32, 3, || [at as u8; COMM_LEN]);
            }
            let max = *values.iter().max().unwrap();
            let first = values.iter().position(|value| *value == max).unwrap();
            prop_assert_eq!(histogram.count, values.len() as u64);
            prop_assert_eq!(histogram.sum_ns, values.iter().sum::<u64>());
            prop_assert_eq!(histogram.min_ns, *values.iter().min().unwrap());
            prop_assert_eq!((histogram.max_ns, histogram.max_at_ns), (max, first as u64));
            prop_assert_eq!((histogram.max_pid, histogram.cpu), (first as u32, 3));
            prop_assert_eq!(histogram.max_comm, [first as u8; COMM_LEN]);
            prop_assert_eq!(histogram.buckets.iter().sum::<u64>(), histogram.count);
            for value in values {
                prop_assert!(histogram.buckets[bucket::index(value)] > 0);
            }
        }
    }
}
