//! Causes of waits that the programs have counted (`why --mode aggregate`): the sums of each group and of each pair of
//! groups, as they come from the kernel. [`summary`] draws conclusions from them.

mod coarse_counts;
pub mod summary;

use wakelat_common::{
    cause_sums::{BY_OWN_GROUP, BY_UNTRACKED, GroupSums, LongestWait, PairKey, PairSum, coarse_upper},
    wait_division::{CAUSE_SLOTS, DIVIDED_CAUSES, DividedCause, GroupWords},
};

use self::{coarse_counts::CoarseCounts, summary::CountedCause};
use crate::{
    aggregate::{key::Key, space_saving::Sum},
    hash::HashMap,
    wait::Comm,
};

/// The groups by which causes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseGroups {
    /// Cgroups (v2).
    Cgroups,
    /// Containers, as identified by the paths of cgroups.
    Containers,
    /// Names of tasks.
    Names,
}

impl CauseGroups {
    /// The grouping key on the command line and in JSON.
    pub const fn key(self) -> Key {
        match self {
            Self::Cgroups => Key::Cgroup,
            Self::Containers => Key::Container,
            Self::Names => Key::Comm,
        }
    }
}

/// The time of a cause, and the number of waits in which it had time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseTime {
    /// Its sum: ns.
    pub ns: u128,
    /// Number of waits.
    pub waits: u64,
}

impl Sum for CauseTime {
    fn size(&self) -> u128 {
        self.ns
    }
}

impl CauseTime {
    /// Adds the time in other waits.
    pub fn merge(&mut self, other: &Self) {
        self.ns += other.ns;
        self.waits += other.waits;
    }
}

impl From<&PairSum> for CauseTime {
    fn from(sum: &PairSum) -> Self {
        Self { ns: sum.ns.into(), waits: sum.waits }
    }
}

/// The longest wait of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestGroupWait {
    /// Its length: ns.
    pub latency_ns: u64,
    /// When it ended: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Thread ID.
    pub tid: u32,
    /// The name of the task.
    pub comm: Comm,
}

impl LongestGroupWait {
    /// `None` if there is no wait.
    fn of(max_ns: u64, longest: &LongestWait) -> Option<Self> {
        let LongestWait { at_ns, pid, comm } = *longest;
        let comm = Comm::new(comm.map(u64::to_ne_bytes).as_flattened());
        let tid = u32::try_from(pid).unwrap_or(u32::MAX);
        (at_ns > 0).then_some(Self { latency_ns: max_ns, at_ns, tid, comm })
    }

    /// The longer one of two waits, of equally long ones that which ended last.
    pub fn longer(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).max_by_key(|wait| (wait.latency_ns, wait.at_ns))
    }
}

/// The waits of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTotal {
    /// Number of waits.
    pub waits: u64,
    /// Their sum: ns.
    pub sum_ns: u128,
    /// The longest: ns.
    pub max_ns: u64,
    /// The task of the longest.
    pub longest: Option<LongestGroupWait>,
    causes: [CauseTime; DIVIDED_CAUSES],
    preempted: [u64; CAUSE_SLOTS],
    buckets: CoarseCounts,
}

impl From<&GroupSums> for GroupTotal {
    fn from(sums: &GroupSums) -> Self {
        let mut total = Self::default();
        total.add(sums);
        total
    }
}

impl GroupTotal {
    /// The time of one cause.
    pub fn cause(&self, cause: DividedCause) -> CauseTime {
        self.causes[cause as usize]
    }

    /// The number of waits of preempted tasks by their first cause, which is who preempted them. None is left out.
    pub fn preemptions(&self) -> impl Iterator<Item = (CountedCause, u64)> {
        let causes =
            DividedCause::ALL.map(|cause| CountedCause::without_pair(cause).unwrap_or(CountedCause::OtherGroups));
        let others = [(BY_OWN_GROUP, CountedCause::OwnGroup), (BY_UNTRACKED, CountedCause::UntrackedGroup)];
        let by_index = causes.into_iter().zip(0..).map(|(cause, index)| (index, cause)).chain(others);
        by_index.map(|(index, cause)| (cause, self.preempted[index as usize])).filter(|(_, count)| *count > 0)
    }

    /// Adds waits that one CPU has counted.
    fn add(&mut self, sums: &GroupSums) {
        self.waits += sums.count;
        self.sum_ns += u128::from(sums.sum_ns);
        self.max_ns = self.max_ns.max(sums.max_ns);
        self.longest = LongestGroupWait::longer(self.longest, LongestGroupWait::of(sums.max_ns, &sums.longest));
        self.causes.iter_mut().zip(&sums.causes).for_each(|(mine, sum)| mine.merge(&sum.into()));
        self.preempted.iter_mut().zip(&sums.preempted).for_each(|(mine, count)| *mine += count);
        self.buckets.add(&sums.buckets);
    }

    /// Adds other waits.
    pub fn merge(&mut self, other: &Self) {
        self.waits += other.waits;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.longest = LongestGroupWait::longer(self.longest, other.longest);
        self.causes.iter_mut().zip(&other.causes).for_each(|(mine, sum)| mine.merge(sum));
        self.preempted.iter_mut().zip(&other.preempted).for_each(|(mine, count)| *mine += count);
        self.buckets.merge(&other.buckets);
    }

    /// The buckets with waits: the least value of each and the least above it (ns), and the number of waits.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let from_ns = |index: usize| index.checked_sub(1).map_or(0, coarse_upper);
        self.buckets.iter().map(move |(index, waits)| (from_ns(index), coarse_upper(index), waits))
    }

    /// The kernel's buckets with waits (`coarse_upper` of wakelat-common), in rising order: the index of each, and the number
    /// of waits.
    pub fn bucket_counts(&self) -> impl Iterator<Item = (usize, u64)> + Clone {
        self.buckets.iter()
    }

    /// The waits that have been added since this was `earlier`. The maximum stays that of all waits.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut added = self.clone();
        added.waits -= earlier.waits.min(self.waits);
        added.sum_ns -= earlier.sum_ns.min(self.sum_ns);
        for (mine, other) in added.causes.iter_mut().zip(&earlier.causes) {
            *mine = CauseTime { ns: mine.ns.saturating_sub(other.ns), waits: mine.waits.saturating_sub(other.waits) };
        }
        let preempted = added.preempted.iter_mut().zip(&earlier.preempted);
        preempted.for_each(|(mine, other)| *mine = mine.saturating_sub(*other));
        added.buckets.subtract(&earlier.buckets);
        added
    }

    /// Number of waits below `bound_ns`, which must be a power of two from 8 on: then no bucket contains values on both
    /// sides of it, and the number is exact.
    pub fn waits_below(&self, bound_ns: u64) -> u64 {
        self.buckets.below(bound_ns)
    }

    /// An upper bound of the wait that at least `per_mille` of 1,000 waits do not exceed, at most a quarter too high from
    /// 32 ns on, and never above the longest: ns.
    pub fn quantile_bound_ns(&self, per_mille: u64) -> u64 {
        let rank = u128::from(self.waits) * u128::from(per_mille);
        let mut seen = 0u128;
        for (index, count) in self.buckets.iter() {
            seen += u128::from(count);
            if seen * 1_000 >= rank {
                return coarse_upper(index).saturating_sub(1).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// What the programs have counted.
#[derive(Clone, Debug, Default)]
pub struct CauseTotals {
    groups: HashMap<GroupWords, GroupTotal>,
    /// The groups of `pairs` by number, and their numbers: a busy machine has thousands of pairs of a few hundred groups.
    numbered: Vec<GroupWords>,
    numbers: HashMap<GroupWords, u32>,
    /// By the number of the group that waited and the one that ran.
    pairs: HashMap<(u32, u32, DividedCause), CauseTime>,
    /// Groups for which there was no room.
    others: GroupTotal,
    /// Parts of waits whose pair had no room.
    pairs_lost: u64,
}

impl CauseTotals {
    /// Adds the waits of a group on one CPU.
    pub fn add_group(&mut self, waiting: GroupWords, sums: &GroupSums) {
        self.pairs_lost += sums.pairs_lost;
        self.groups.entry(waiting).or_default().add(sums);
        for (cause, carried) in DividedCause::ALL.into_iter().zip(&sums.carried).filter(|(_, carried)| carried.ns > 0) {
            self.add_time(waiting, carried.running, cause, CauseTime { ns: carried.ns.into(), waits: carried.waits });
        }
    }

    /// Adds the waits of groups without an element of their own on one CPU.
    pub fn add_other(&mut self, sums: &GroupSums) {
        self.others.add(sums);
    }

    /// Whether the kernel's tables had no room for some groups or pairs.
    pub fn lacked_room(&self) -> bool {
        self.others.waits > 0 || self.pairs_lost > 0
    }

    /// Adds the time that a group waited while another ran, on one CPU.
    pub fn add_pair(&mut self, key: &PairKey, sum: &PairSum) {
        if let Some(cause) = key.cause() {
            self.add_time(key.waiting, key.running, cause, sum.into());
        }
    }

    fn add_time(&mut self, waiting: GroupWords, running: GroupWords, cause: DividedCause, time: CauseTime) {
        let pair = (self.number(waiting), self.number(running), cause);
        self.pairs.entry(pair).or_default().merge(&time);
    }

    fn number(&mut self, words: GroupWords) -> u32 {
        *self.numbers.entry(words).or_insert_with(|| {
            self.numbered.push(words);
            self.numbered.len() as u32 - 1
        })
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        other.groups.iter().for_each(|(words, total)| self.groups.entry(*words).or_default().merge(total));
        let numbers: Vec<u32> = other.numbered.iter().map(|words| self.number(*words)).collect();
        for ((waiting, running, cause), time) in &other.pairs {
            let pair = (numbers[*waiting as usize], numbers[*running as usize], *cause);
            self.pairs.entry(pair).or_default().merge(time);
        }
        self.others.merge(&other.others);
        self.pairs_lost += other.pairs_lost;
    }

    /// All groups, those that waited and those that ran.
    pub fn groups(&self) -> impl Iterator<Item = GroupWords> {
        self.groups.keys().chain(&self.numbered).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_group_or_a_pair_without_room_shows() {
        let mut sums = GroupSums::EMPTY;
        sums.begin_wait(1_000);
        let mut totals = CauseTotals::default();
        totals.add_group([1, 0], &sums);
        assert!(!totals.lacked_room());
        let mut without_group = totals.clone();
        without_group.add_other(&sums);
        totals.add_group([2, 0], &GroupSums { pairs_lost: 1, ..sums });
        assert!(without_group.lacked_room() && totals.lacked_room());
    }

    #[test]
    fn time_that_is_carried_belongs_to_its_pair() {
        let mut sums = GroupSums::EMPTY;
        sums.begin_wait(1_000);
        sums.add_only(DividedCause::Higher as u32, 1_000);
        sums.carried(DividedCause::Higher as u32, 0).put_back([7, 0], 1_000, 1);
        let mut totals = CauseTotals::default();
        totals.add_pair(&PairKey::new(0, 0, DividedCause::Higher as u32, [1, 0], [7, 0]), &PairSum::of(5, 2));
        totals.add_group([1, 0], &sums);
        let (waiting, running) = (totals.number([1, 0]), totals.number([7, 0]));
        let pairs: Vec<_> = totals.pairs.into_iter().collect();
        assert_eq!(pairs, [((waiting, running, DividedCause::Higher), CauseTime { ns: 1_005, waits: 3 })]);
    }

    #[test]
    fn a_percentile_is_bounded_by_its_bucket_and_by_the_longest_wait() {
        let mut sums = GroupSums::EMPTY;
        (0..99).for_each(|_| sums.begin_wait(1_000));
        sums.begin_wait(1_000_000);
        let mut total = GroupTotal::default();
        total.add(&sums);
        // 1,000 lies between 896 and 1,023.
        assert_eq!([500, 990, 1_000].map(|per_mille| total.quantile_bound_ns(per_mille)), [1_023, 1_023, 1_000_000]);
        assert_eq!(GroupTotal::default().quantile_bound_ns(990), 0);
    }

    proptest! {
        #[test]
        fn waits_below_a_power_of_two_are_counted_exactly(
            waits in prop::collection::vec(prop_oneof![any::<u64>(), 0..100_000u64], 0..100),
            power in 3..64u32,
        ) {
            let mut sums = GroupSums::EMPTY;
            waits.iter().for_each(|ns| sums.begin_wait(*ns));
            let mut total = GroupTotal::default();
            total.add(&sums);
            let bound_ns = 1u64 << power;
            let exact = waits.iter().filter(|ns| **ns < bound_ns).count() as u64;
            prop_assert_eq!(total.waits_below(bound_ns), exact);
        }

        #[test]
        fn a_bound_is_not_below_the_percentile_and_at_most_a_quarter_above(
            mut waits in prop::collection::vec(32..1_000_000_000u64, 1..100),
            per_mille in 1..1_000u64,
        ) {
            let mut sums = GroupSums::EMPTY;
            waits.iter().for_each(|ns| sums.begin_wait(*ns));
            let mut total = GroupTotal::default();
            total.add(&sums);
            waits.sort_unstable();
            let exact = waits[(waits.len() * per_mille as usize).div_ceil(1_000) - 1];
            let bound = total.quantile_bound_ns(per_mille);
            prop_assert!(exact <= bound && bound <= exact + exact / 4, "{} {}", exact, bound);
        }
    }
}
