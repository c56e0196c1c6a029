//! The groups that the programs aggregate waits into: an element of a hash map holds the waits of one group
//! that ended on one CPU, are of one class, and have about the same length.
//!
//! An element belongs to one CPU, so no two CPUs write to it. It has the buckets of one octave of the
//! [histogram](crate::bucket), not of all 60, so memory is used only for lengths that occur: the waits of most
//! tasks are in few octaves.

use crate::{
    Class, Sample,
    bucket::{self, PER_OCTAVE, SUB_BITS},
    direct_table::{Place, TableValue},
    sample::{COMM_LEN, KIND_SAMPLE},
};

/// Elements of each CPU and half that are found without the hash map.
pub const DIRECT_ELEMENTS: u32 = 128;

/// Such an element.
pub type DirectElement = Place<GroupElementKey, GroupElement>;

/// Number of [`GroupElement::buckets`].
pub const ELEMENT_BUCKETS: usize = PER_OCTAVE as usize;

/// The properties of a task that groups differ in, besides its CPU and the class of the wait.
pub mod part {
    /// The cgroup.
    pub const CGROUP: u32 = 1;
    /// The process ID.
    pub const TGID: u32 = 1 << 1;
    /// The thread ID.
    pub const PID: u32 = 1 << 2;
    /// The name.
    pub const COMM: u32 = 1 << 3;
}

/// The key of an element: see [`GroupProperties::key`].
pub type GroupElementKey = [u64; 5];

/// What all waits of an element have in common. Properties that groups do not differ in are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupProperties {
    /// The CPU on which the waits ended.
    pub cpu: u32,
    /// The half that programs wrote to: 0 or 1.
    pub half: u32,
    /// Their class.
    pub class: Class,
    /// Their octave of the histogram: [`octave`].
    pub octave: u8,
    /// Thread ID.
    pub pid: u32,
    /// Process ID.
    pub tgid: u32,
    /// ID of the cgroup in the v2 hierarchy.
    pub cgroup_id: u64,
    /// The task's name, NUL-terminated.
    pub comm: [u8; COMM_LEN],
}

impl GroupProperties {
    /// The key: as few words as hold all of them.
    #[inline(always)]
    pub const fn key(&self) -> GroupElementKey {
        let class_and_octave = (self.class as u64) << 8 | self.octave as u64;
        let comm = u128::from_ne_bytes(self.comm);
        [
            (self.cpu as u64) << 32 | ((self.half & 1) as u64) << HALF_SHIFT | class_and_octave,
            (self.tgid as u64) << 32 | self.pid as u64,
            self.cgroup_id,
            comm as u64,
            (comm >> 64) as u64,
        ]
    }
}

/// The half of a key.
#[inline(always)]
pub const fn half(key: &GroupElementKey) -> u32 {
    (key[0] >> HALF_SHIFT) as u32 & 1
}

/// The bit of the first word of a key for the half.
const HALF_SHIFT: u32 = 31;

/// The waits of an element: exact sum, minimum and maximum, and the number in each bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct GroupElement {
    /// Sum of all waits: ns.
    pub sum_ns: u64,
    /// The shortest wait: ns.
    pub min_ns: u64,
    /// The longest wait, of equally long ones the first. Its properties are those of the group, as far as
    /// groups differ in them. [`Sample::NONE`] if there is no wait yet.
    pub longest: Sample,
    /// Number of waits in each bucket of the octave.
    pub buckets: [u32; ELEMENT_BUCKETS],
}

impl TableValue for GroupElement {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.longest.kind != KIND_SAMPLE
    }
}

/// The octave of bucket `index` of the histogram.
#[inline(always)]
pub const fn octave(index: usize) -> u8 {
    (index >> SUB_BITS) as u8
}

impl GroupElement {
    /// An element without waits.
    pub const EMPTY: Self = Self { sum_ns: 0, min_ns: 0, longest: Sample::NONE, buckets: [0; ELEMENT_BUCKETS] };

    /// Whether bucket `index` of the histogram, which is in the octave of this element, can count another wait.
    #[inline(always)]
    pub const fn has_room(&self, index: usize) -> bool {
        self.buckets[index & (ELEMENT_BUCKETS - 1)] != u32::MAX
    }

    /// Adds a wait that is in bucket `index` of the histogram, for which [`Self::has_room`]. Calls `sample`
    /// for all that is known about it if it is the longest so far.
    #[inline(always)]
    pub fn record(&mut self, index: usize, latency_ns: u64, sample: impl FnOnce() -> Sample) {
        let is_first = self.is_empty();
        if is_first || latency_ns < self.min_ns {
            self.min_ns = latency_ns;
        }
        self.sum_ns += latency_ns;
        self.buckets[index & (ELEMENT_BUCKETS - 1)] += 1;
        // Last: the verifier follows what comes after a branch once for each way through it.
        if is_first || latency_ns > self.longest.latency_ns {
            self.longest = sample();
        }
    }

    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|count| u64::from(*count)).sum()
    }

    /// The octave of the waits: that of the longest one.
    pub fn octave(&self) -> u8 {
        octave(bucket::index(self.longest.latency_ns))
    }

    /// All waits but the longest are at most this long: ns, to the width of a bucket; `None` if there are no
    /// others.
    pub fn others_up_to_ns(&self) -> Option<u64> {
        let longest_ns = self.longest.latency_ns;
        let first = usize::from(self.octave()) << SUB_BITS;
        let longest_in = bucket::index(longest_ns) - first;
        let others = |bucket: &usize| self.buckets[*bucket] > u32::from(*bucket == longest_in);
        let last = (0..ELEMENT_BUCKETS).rev().find(others)?;
        Some(
            if first + last + 1 < bucket::BUCKETS { bucket::upper(first + last) - 1 } else { u64::MAX }.min(longest_ns),
        )
    }
}

const _: () = {
    assert!(size_of::<GroupElementKey>() == 40);
    assert!(size_of::<GroupElement>() == 16 + size_of::<Sample>() + 4 * ELEMENT_BUCKETS);
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The element of `values`, which are of one octave.
    fn element(values: &[u64]) -> GroupElement {
        let mut element = GroupElement::EMPTY;
        for (value, at_ns) in values.iter().zip(0..) {
            let sample = || Sample { kind: KIND_SAMPLE, latency_ns: *value, at_ns, ..Sample::NONE };
            element.record(bucket::index(*value), *value, sample);
        }
        element
    }

    /// Values of one octave.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        (0..50_u32)
            .prop_flat_map(|shift| prop::collection::vec((32_u64..64).prop_map(move |value| value << shift), 1..40))
    }

    #[test]
    fn the_waits_of_an_octave_are_those_of_its_buckets() {
        for index in 0..bucket::BUCKETS {
            assert_eq!(octave(index), (index / ELEMENT_BUCKETS) as u8);
        }
        assert_eq!(octave(bucket::BUCKETS - 1), 59);
    }

    #[test]
    fn a_wait_of_0_ns_is_a_wait() {
        let element = element(&[0, 0]);
        assert_eq!((element.count(), element.min_ns, element.longest.at_ns), (2, 0, 0));
        assert_eq!(element.others_up_to_ns(), Some(0));
    }

    #[test]
    fn a_full_bucket_has_no_room() {
        let mut full = element(&[40, 41]);
        full.buckets[8] = u32::MAX;
        assert!(!full.has_room(bucket::index(40)) && full.has_room(bucket::index(41)));
    }

    #[test]
    fn the_longest_u64_is_in_an_element() {
        let waits = element(&[u64::MAX]);
        assert_eq!((waits.octave(), waits.others_up_to_ns()), (59, None));
        let mut twice = waits;
        twice.buckets[31] = 2;
        assert_eq!(twice.others_up_to_ns(), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn count_sum_minimum_and_the_longest_of_an_element_are_exact(values in values()) {
            let element = element(&values);
            prop_assert_eq!(element.count(), values.len() as u64);
            prop_assert_eq!(element.sum_ns, values.iter().sum::<u64>());
            prop_assert_eq!(element.min_ns, *values.iter().min().unwrap());
            let longest = *values.iter().max().unwrap();
            let first = values.iter().position(|value| *value == longest).unwrap();
            prop_assert_eq!((element.longest.latency_ns, element.longest.at_ns), (longest, first as u64));
            for value in &values {
                prop_assert_eq!(octave(bucket::index(*value)), element.octave());
            }
        }

        #[test]
        fn the_bound_of_the_others_is_in_the_bucket_of_the_longest_of_them(values in values()) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            sorted.pop();
            let bound = element(&values).others_up_to_ns();
            prop_assert_eq!(bound.map(bucket::index), sorted.last().map(|value| bucket::index(*value)));
            prop_assert!(bound >= sorted.last().copied());
        }
    }
}
