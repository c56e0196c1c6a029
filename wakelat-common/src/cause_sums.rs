//! What the program on `sched_switch` adds up of the causes of waits, in place of sending them: a sum for each group
//! of waiting tasks, and one for each pair of a group that waited and a group that ran.

mod carried_time;

use crate::{
    branch_free::{choose, is_some},
    bucket,
    direct_table::{Place, TableKey, TableValue},
    wait_division::{CAUSE_SLOTS, DIVIDED_CAUSES, DividedCause, GROUP_CAUSES, GroupWords},
};

pub use carried_time::CarriedTime;

/// log2 of the number of exact buckets ([`bucket`]) in one of [`GroupSums::buckets`].
const COARSE_SHIFT: u32 = 3;

/// Number of [`GroupSums::buckets`]: a power of two, so that a mask keeps an index within bounds.
pub const COARSE_BUCKETS: usize = (bucket::BUCKETS >> COARSE_SHIFT).next_power_of_two();

/// Groups of waiting tasks for which there is room, each counted once for each CPU and half.
pub const MAX_GROUP_SUMS: u32 = 4_096;

/// Pairs of groups for which there is room, each counted once for each CPU and half.
pub const MAX_PAIR_SUMS: u32 = 16_384;

/// Groups of each CPU and half that are found without the hash map, on a machine with `cpus` CPUs.
pub const fn direct_groups(cpus: u32) -> u32 {
    direct_places::<DirectGroup>(cpus, 4 << 20, 8)
}

/// Pairs of each CPU and half that are found without the hash map, on a machine with `cpus` CPUs.
pub const fn direct_pairs(cpus: u32) -> u32 {
    direct_places::<DirectPair>(cpus, 512 << 10, 128)
}

/// As many places of each CPU and half as together take up to `bytes`, a power of two, but at least `least`.
const fn direct_places<P>(cpus: u32, bytes: usize, least: u32) -> u32 {
    let places = bytes / size_of::<P>() / (2 * cpus as usize);
    if places < least as usize { least } else { 1 << places.ilog2() }
}

/// A group that is found without the hash map.
pub type DirectGroup = Place<GroupSumsKey, GroupSums>;

/// A pair that is found without the hash map.
pub type DirectPair = Place<PairKey, PairSum>;

/// The key of a [`GroupSums`]. Only its CPU writes the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct GroupSumsKey {
    /// The CPU on which the waits ended.
    pub cpu: u32,
    /// The half that programs wrote to.
    pub half: u32,
    /// The group that waited.
    pub waiting: GroupWords,
}

impl TableKey<2> for GroupSumsKey {
    #[inline(always)]
    fn words(&self) -> [u64; 2] {
        self.waiting
    }
}

/// The key of a [`PairSum`]. Only its CPU writes the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct PairKey {
    /// The CPU on which the waits ended.
    pub cpu: u32,
    /// Bit 31: the half that programs wrote to. Below: a [`DividedCause`] that [has a group](crate::wait_division::has_group).
    pub half_and_cause: u32,
    /// The group that waited.
    pub waiting: GroupWords,
    /// The group that ran.
    pub running: GroupWords,
}

/// The bit of [`PairKey::half_and_cause`] for the half.
const HALF_SHIFT: u32 = 31;

impl PairKey {
    /// The key of a cause, by its number, in a half (0 or 1).
    #[inline(always)]
    pub const fn new(cpu: u32, half: u32, cause: u32, waiting: GroupWords, running: GroupWords) -> Self {
        Self { cpu, half_and_cause: (half & 1) << HALF_SHIFT | cause, waiting, running }
    }

    /// The half that programs wrote to: 0 or 1.
    pub const fn half(&self) -> u32 {
        self.half_and_cause >> HALF_SHIFT
    }

    /// The cause; `None` if the number is none of a cause.
    pub fn cause(&self) -> Option<DividedCause> {
        DividedCause::ALL.get((self.half_and_cause & !(1 << HALF_SHIFT)) as usize).copied()
    }
}

impl TableKey<5> for PairKey {
    #[inline(always)]
    fn words(&self) -> [u64; 5] {
        let ([waiting, of_waiting], [running, of_running]) = (self.waiting, self.running);
        [self.half_and_cause as u64, waiting, of_waiting, running, of_running]
    }
}

/// The time of one cause in several waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PairSum {
    /// Its sum: ns.
    pub ns: u64,
    /// The number of waits in which it had time.
    pub waits: u64,
    /// The number of the last of these waits, by [`GroupSums::count`]; 0 for none. A cause with several parts in a wait
    /// counts that wait once.
    last_wait: u64,
}

impl PairSum {
    /// Nothing yet.
    pub const EMPTY: Self = Self { ns: 0, waits: 0, last_wait: 0 };

    /// This time, more than 0 ns, in as many waits.
    #[inline(always)]
    pub const fn of(ns: u64, waits: u64) -> Self {
        Self { ns, waits, last_wait: 0 }
    }

    /// Adds the only parts of as many waits: together more than 0 ns.
    #[inline(always)]
    pub const fn add_only(&mut self, ns: u64, waits: u64) {
        self.ns = self.ns.wrapping_add(ns);
        self.waits = self.waits.wrapping_add(waits);
    }

    /// Adds one of several parts, which may be 0, of the wait with this number, which is not 0. `zero`: see
    /// [`branch_free`](crate::branch_free).
    #[inline(always)]
    pub const fn add(&mut self, ns: u64, wait: u64, zero: u64) {
        self.ns = self.ns.wrapping_add(ns);
        let has_time = is_some(ns, zero);
        self.waits = self.waits.wrapping_add(1 & has_time & is_some(self.last_wait ^ wait, zero));
        self.last_wait = choose(has_time, wait, self.last_wait);
    }
}

impl TableValue for PairSum {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.waits == 0
    }
}

/// The length of [`GroupSums::carried`]: a power of two, so that a mask keeps an index within bounds.
const CARRIED: usize = (GROUP_CAUSES as usize).next_power_of_two();

/// Index in [`GroupSums::preempted`] for preemption by a task of the same group. [`DividedCause::Task`] stands for one of
/// another group.
pub const BY_OWN_GROUP: u32 = DIVIDED_CAUSES as u32;

/// Index in [`GroupSums::preempted`] for waits that are not divided, because there was no room for their group.
pub const BY_UNTRACKED: u32 = BY_OWN_GROUP + 1;

const _: () = assert!((BY_UNTRACKED as usize) < CAUSE_SLOTS);

/// The task of a wait, and when the wait ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LongestWait {
    /// When the wait ended: ns of CLOCK_MONOTONIC; 0 for no wait.
    pub at_ns: u64,
    /// Thread ID.
    pub pid: u64,
    /// The name of the task.
    pub comm: [u64; 2],
}

impl LongestWait {
    /// No wait.
    pub const NONE: Self = Self { at_ns: 0, pid: 0, comm: [0; 2] };
}

/// The waits of one group on one CPU: their distribution, and the time of each cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupSums {
    /// Number of waits.
    pub count: u64,
    /// Their sum: ns.
    pub sum_ns: u64,
    /// The longest: ns.
    pub max_ns: u64,
    /// The task that waited [`Self::max_ns`]; of equally long waits the last one.
    pub longest: LongestWait,
    /// Parts of waits without a pair of their own: the first one whose pair had no room, and all others from then on, except
    /// for the own group's if that has a pair.
    pub pairs_lost: u64,
    /// Indexed by a [`DividedCause`] that [has a group](crate::wait_division::has_group).
    pub carried: [CarriedTime; CARRIED],
    /// Indexed by [`DividedCause`]. They add up to `sum_ns`.
    pub causes: [PairSum; CAUSE_SLOTS],
    /// The number of waits of preempted tasks, by their first cause: a [`DividedCause`], [`BY_OWN_GROUP`] or
    /// [`BY_UNTRACKED`].
    pub preempted: [u64; CAUSE_SLOTS],
    /// Number of waits in each [`coarse_bucket`].
    pub buckets: [u64; COARSE_BUCKETS],
}

const _: () = assert!(size_of::<GroupSums>() == 64 + 40 * CARRIED + 32 * CAUSE_SLOTS + 8 * COARSE_BUCKETS);
const _: () = assert!(size_of::<PairKey>() == 40 && size_of::<GroupSumsKey>() == 24);

impl TableValue for GroupSums {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The index of the bucket of a value in [`GroupSums::buckets`]: a quarter of a power of two is one bucket, so that it is
/// at most a quarter of its value wide.
#[inline(always)]
pub const fn coarse_bucket(value: u64) -> usize {
    bucket::index(value) >> COARSE_SHIFT
}

/// The smallest value above a bucket; `u64::MAX` for the last one, which contains it.
pub const fn coarse_upper(index: usize) -> u64 {
    bucket::upper(((index + 1) << COARSE_SHIFT) - 1)
}

impl GroupSums {
    /// A group without waits.
    pub const EMPTY: Self = Self {
        count: 0,
        sum_ns: 0,
        max_ns: 0,
        longest: LongestWait::NONE,
        pairs_lost: 0,
        carried: [CarriedTime::NONE; CARRIED],
        causes: [PairSum::EMPTY; CAUSE_SLOTS],
        preempted: [0; CAUSE_SLOTS],
        buckets: [0; COARSE_BUCKETS],
    };

    /// Counts a wait. Its causes are added afterwards, with [`Self::add`].
    #[inline(always)]
    pub const fn begin_wait(&mut self, latency_ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.wrapping_add(latency_ns);
        if latency_ns > self.max_ns {
            self.max_ns = latency_ns;
        }
        self.buckets[coarse_bucket(latency_ns) & (COARSE_BUCKETS - 1)] += 1;
    }

    /// Whether no wait is longer than one of `latency_ns` that has been counted.
    #[inline(always)]
    pub const fn is_longest(&self, latency_ns: u64) -> bool {
        latency_ns >= self.max_ns
    }

    /// The wait that was counted last is one of a preempted task, with this first cause: an index of [`Self::preempted`].
    #[inline(always)]
    pub const fn count_preemption(&mut self, by: u32) {
        self.preempted[by as usize & (CAUSE_SLOTS - 1)] += 1;
    }

    /// Adds the only part of a cause, by its number, in the wait that was counted last: more than 0 ns.
    #[inline(always)]
    pub const fn add_only(&mut self, cause: u32, ns: u64) {
        self.causes[cause as usize & (CAUSE_SLOTS - 1)].add_only(ns, 1);
    }

    /// What is carried of a cause, by its number, that [has a group](crate::wait_division::has_group). `zero`: see
    /// [`branch_free`](crate::branch_free).
    #[inline(always)]
    pub const fn carried(&mut self, cause: u32, zero: u64) -> &mut CarriedTime {
        // The mask changes nothing, so the compiler would drop it, but the verifier needs it. Adding `zero` hides that from the
        // compiler, which would move the mask past a bitwise operation.
        &mut self.carried[(cause as u64).wrapping_add(zero) as usize & (CARRIED - 1)]
    }

    /// Adds one of several parts of a cause, which may be 0, in the wait that was counted last. `zero`: see
    /// [`branch_free`](crate::branch_free).
    #[inline(always)]
    pub const fn add(&mut self, cause: u32, ns: u64, zero: u64) {
        let wait = self.count;
        self.causes[cause as usize & (CAUSE_SLOTS - 1)].add(ns, wait, zero);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        histogram::{HISTOGRAMS, Histogram},
        queue_clock::{MIN_SLOTS, QueueSlot},
        wait_division::{CpuHistory, ThrottledClock},
    };

    #[test]
    fn tables_on_few_cpus_have_more_places_but_stay_small() {
        let bytes = |cpus: u32| {
            let of = |places: u32, size: usize| 2 * cpus as usize * places as usize * size;
            of(direct_groups(cpus), size_of::<DirectGroup>()) + of(direct_pairs(cpus), size_of::<DirectPair>())
        };
        assert!(direct_groups(2) >= 200, "{}", direct_groups(2));
        for cpus in 1..=32 {
            assert!(bytes(cpus) <= 5 << 20, "{cpus}: {}", bytes(cpus));
            assert!(direct_groups(cpus).is_power_of_two() && direct_pairs(cpus).is_power_of_two(), "{cpus}");
        }
        assert_eq!((direct_groups(8_192), direct_pairs(8_192)), (8, 128));
    }

    #[test]
    fn all_tables_on_160_cpus_take_less_than_60_mib() {
        const CPUS: u32 = 160;
        /// What the kernel needs for an element of a hash map: its links and its hash, and up to two buckets.
        const LINKS: usize = 48 + 2 * 16;
        let tables = [
            (2 * CPUS * direct_groups(CPUS), size_of::<DirectGroup>()),
            (2 * CPUS * direct_pairs(CPUS), size_of::<DirectPair>()),
            (MAX_GROUP_SUMS, LINKS + size_of::<GroupSumsKey>() + size_of::<GroupSums>()),
            (MAX_PAIR_SUMS, LINKS + size_of::<PairKey>() + size_of::<PairSum>()),
            (CPUS * 2, size_of::<GroupSums>()),
            (CPUS, size_of::<CpuHistory>()),
            (CPUS * HISTOGRAMS, size_of::<Histogram>()),
            (MIN_SLOTS, size_of::<QueueSlot>() + size_of::<ThrottledClock>()),
        ];
        let bytes: usize = tables.iter().map(|(elements, size)| *elements as usize * size).sum();
        assert!(bytes < 60 << 20, "{bytes} bytes: {tables:?}");
    }

    #[test]
    fn a_cause_with_several_parts_counts_its_wait_once() {
        let mut sums = GroupSums::EMPTY;
        sums.begin_wait(30);
        [10, 20].iter().for_each(|ns| sums.add(DividedCause::Task as u32, *ns, 0));
        sums.begin_wait(7);
        sums.add(DividedCause::Task as u32, 7, 0);
        sums.add(DividedCause::Idle as u32, 0, 0);
        let task = sums.causes[DividedCause::Task as usize];
        assert_eq!((task.ns, task.waits), (37, 2));
        assert_eq!(sums.causes[DividedCause::Idle as usize].waits, 0);
        assert_eq!((sums.count, sums.sum_ns, sums.max_ns), (2, 37, 30));
    }

    #[test]
    fn the_key_of_a_pair_has_its_half_and_cause() {
        for (half, cause) in [0, 1].into_iter().flat_map(|half| DividedCause::ALL.map(|cause| (half, cause))) {
            let key = PairKey::new(3, half, cause as u32, [1, 2], [3, 4]);
            assert_eq!((key.half(), key.cause()), (half, Some(cause)));
        }
        assert_eq!(
            PairKey { half_and_cause: 77, ..PairKey::new(0, 0, DividedCause::Task as u32, [0; 2], [0; 2]) }.cause(),
            None
        );
    }

    #[test]
    fn causes_are_numbered_in_order() {
        assert!(DividedCause::ALL.iter().enumerate().all(|(at, cause)| at == *cause as usize));
    }

    proptest! {
        #[test]
        fn a_coarse_bucket_is_at_most_a_quarter_of_its_value_wide(value in prop_oneof![any::<u64>(), 0..10_000u64]) {
            let index = coarse_bucket(value);
            prop_assert!(index < COARSE_BUCKETS);
            let upper = coarse_upper(index);
            prop_assert!(value < upper || upper == u64::MAX);
            // Values below 32 share buckets of eight.
            prop_assert!(upper == u64::MAX || value < 32 || upper - value <= value / 4 + 1, "{} {}", value, upper);
        }
    }
}
