//! The causes of a window that the programs have counted: of all waits, of each group, and which group waited for which.

use std::{cmp::Reverse, sync::Arc};

use wakelat_common::wait_division::{DividedCause, GroupWords};

use super::{CauseGroups, CauseTime, CauseTotals, GroupTotal};
use crate::{
    aggregate::{container_id::Container, key::Names},
    hash::HashMap,
    wait::Comm,
};

/// A cause of waits that the programs have counted. Each ns of a wait belongs to exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedCause {
    /// Tasks of the group that waited.
    OwnGroup,
    /// Tasks of other groups.
    OtherGroups,
    /// Tasks that are in no container.
    System,
    /// Kernel threads.
    KernelThreads,
    /// Tasks of a higher class or priority.
    Higher,
    /// The CPU was leaving idle.
    Idle,
    /// Interrupts and softirqs.
    Interrupts,
    /// The hypervisor had the CPU.
    Stolen,
    /// The group had used up its CPU quota.
    Throttled,
    /// The task was on the queue of another CPU, before it migrated.
    OtherQueue,
    /// The kernel's tables had no room for the group that waited.
    UntrackedGroup,
    /// The time is before the switches of the CPU that are kept.
    BeforeHistory,
    /// Switches that no tracepoint showed.
    Unseen,
}

impl CountedCause {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnGroup => "own_group",
            Self::OtherGroups => "other_groups",
            Self::System => "system",
            Self::KernelThreads => "kernel_threads",
            Self::Higher => "higher",
            Self::Idle => "idle",
            Self::Interrupts => "interrupts",
            Self::Stolen => "stolen",
            Self::Throttled => "throttled",
            Self::OtherQueue => "other_queue",
            Self::UntrackedGroup => "untracked_group",
            Self::BeforeHistory => "before_history",
            Self::Unseen => "unseen",
        }
    }

    /// All causes.
    pub const ALL: [Self; 13] = [
        Self::OwnGroup,
        Self::OtherGroups,
        Self::System,
        Self::KernelThreads,
        Self::Higher,
        Self::Idle,
        Self::Interrupts,
        Self::Stolen,
        Self::Throttled,
        Self::OtherQueue,
        Self::UntrackedGroup,
        Self::BeforeHistory,
        Self::Unseen,
    ];

    /// The cause that needs no pair of groups; `None` for tasks.
    pub(super) const fn without_pair(cause: DividedCause) -> Option<Self> {
        Some(match cause {
            DividedCause::Task => return None,
            DividedCause::Higher => Self::Higher,
            DividedCause::KernelThread => Self::KernelThreads,
            DividedCause::Idle => Self::Idle,
            DividedCause::Interrupt => Self::Interrupts,
            DividedCause::Stolen => Self::Stolen,
            DividedCause::Throttled => Self::Throttled,
            DividedCause::OtherQueue => Self::OtherQueue,
            DividedCause::BeforeHistory => Self::BeforeHistory,
            DividedCause::Unseen => Self::Unseen,
        })
    }
}

/// The causes of waits, and their times, largest first. They add up to the waits.
pub type CauseShares = Vec<(CountedCause, CauseTime)>;

/// A group that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCauses {
    /// Its name; `None` for all groups beyond the limit, and those for which the kernel's table had no room.
    pub name: Option<Arc<str>>,
    /// Its waits.
    pub total: GroupTotal,
    /// Their causes.
    pub causes: CauseShares,
}

/// The time that one group waited while another ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairCauses {
    /// The group that waited.
    pub waiting: Arc<str>,
    /// The group that ran.
    pub running: Arc<str>,
    /// Why the one waited for the other.
    pub cause: CountedCause,
    /// The time, and the number of waits.
    pub time: CauseTime,
}

/// The causes of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedSummary {
    /// What the groups are.
    pub by: CauseGroups,
    /// All waits.
    pub all: GroupTotal,
    /// The causes of all waits.
    pub causes: CauseShares,
    /// The groups, the one with the most waiting time first; those beyond the limit as one, which comes last.
    pub groups: Vec<GroupCauses>,
    /// Groups that have no waits of their own here: those beyond the limit, and [`Self::groups_without_path`].
    pub groups_merged: u64,
    /// Of these, cgroups that a higher limit would not show: they were removed before their path was read, or it is too
    /// long for a series.
    pub groups_without_path: u64,
    /// Which group waited for which, most time first.
    pub pairs: Vec<PairCauses>,
    /// Parts of waits whose pair had no room in a table of pairs, the kernel's or one of wakelat's.
    pub pairs_lost: u64,
    /// Causes that this kernel does not separate from run time, in words.
    pub not_separated: Vec<CountedCause>,
}

/// Names groups.
pub struct GroupNames<'a> {
    /// What the groups are.
    pub by: CauseGroups,
    /// The paths of cgroups.
    pub names: &'a dyn Names,
}

impl GroupNames<'_> {
    /// The name of a group; `None` for tasks in no container.
    fn of(&self, words: GroupWords) -> Option<String> {
        match self.by {
            CauseGroups::Cgroups => Some(self.names.cgroup(words[0])),
            CauseGroups::Containers => {
                let container = Container::of(&self.names.cgroup(words[0]))?;
                container.id.or_else(|| container.pod.map(|pod| format!("pod {pod}")))
            }
            CauseGroups::Names => Some(Comm::new(words.map(u64::to_ne_bytes).as_flattened()).to_string()),
        }
    }
}

/// The name of tasks that are in no container.
const NO_CONTAINER: &str = "(none)";

/// The names of groups, each looked up once. A name has an index: pairs of indices are compared and hashed faster than
/// paths, which all begin alike.
struct GroupIndex<'a> {
    groups: &'a GroupNames<'a>,
    /// Each name once.
    names: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, usize>,
    by_words: HashMap<GroupWords, Option<usize>>,
}

impl<'a> GroupIndex<'a> {
    fn new(groups: &'a GroupNames<'a>) -> Self {
        Self { groups, names: Vec::new(), by_name: HashMap::default(), by_words: HashMap::default() }
    }

    /// The index of the name of a group; `None` for tasks in no container.
    fn of(&mut self, words: GroupWords) -> Option<usize> {
        if let Some(index) = self.by_words.get(&words) {
            return *index;
        }
        let index = self.groups.of(words).map(|name| self.of_name(name.into()));
        self.by_words.insert(words, index);
        index
    }

    /// The index of the name of a group, also for tasks in no container.
    fn named(&mut self, words: GroupWords) -> usize {
        self.of(words).unwrap_or_else(|| self.of_name(NO_CONTAINER.into()))
    }

    fn of_name(&mut self, name: Arc<str>) -> usize {
        *self.by_name.entry(name).or_insert_with_key(|name| {
            self.names.push(Arc::clone(name));
            self.names.len() - 1
        })
    }

    fn name(&self, index: usize) -> Arc<str> {
        Arc::clone(&self.names[index])
    }
}

/// A group while it is summed up.
#[derive(Default)]
struct Sums {
    total: GroupTotal,
    /// Indexed by [`CountedCause`].
    causes: [CauseTime; CountedCause::ALL.len()],
}

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        self.causes.iter_mut().zip(&other.causes).for_each(|(mine, time)| mine.merge(time));
    }

    /// The causes, once all pairs have been added.
    fn finish(mut self) -> (GroupTotal, CauseShares) {
        for cause in DividedCause::ALL {
            if let Some(name) = CountedCause::without_pair(cause) {
                self.causes[name as usize].merge(&self.total.cause(cause));
            }
        }
        // The time of waits without room for their group, which are not divided.
        let known_ns: u128 = self.causes.iter().map(|time| time.ns).sum();
        let rest_ns = self.total.sum_ns.saturating_sub(known_ns);
        if rest_ns > 0 {
            self.causes[CountedCause::UntrackedGroup as usize] = CauseTime { ns: rest_ns, waits: self.total.waits };
        }
        let causes = CountedCause::ALL.into_iter().zip(self.causes);
        let mut causes: CauseShares = causes.filter(|(_, time)| time.ns > 0).collect();
        causes.sort_by_key(|(cause, time)| (Reverse(time.ns), *cause));
        (self.total, causes)
    }
}

/// How much a summary has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryLimits {
    /// Groups; all others are one.
    pub groups: usize,
    /// Pairs: those with the most time. The waits of all others are in [`CountedSummary::pairs_lost`].
    pub pairs: usize,
}

impl SummaryLimits {
    /// At most this many groups, and all pairs.
    pub const fn groups(most: usize) -> Self {
        Self { groups: most, pairs: usize::MAX }
    }
}

/// The groups that waited, by the index of their name. Boxed: they are sorted.
#[derive(Default)]
struct SumsByIndex(Vec<Option<Box<Sums>>>);

impl SumsByIndex {
    /// The sums of a group.
    fn of(&mut self, index: usize) -> &mut Sums {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index].get_or_insert_default()
    }

    /// The sums of a group; `None` if it did not wait.
    fn get(&mut self, index: usize) -> Option<&mut Sums> {
        self.0.get_mut(index)?.as_deref_mut()
    }

    fn into_iter(self) -> impl Iterator<Item = (usize, Box<Sums>)> {
        self.0.into_iter().enumerate().filter_map(|(index, sums)| Some((index, sums?)))
    }
}

impl CauseTotals {
    /// The causes by group.
    pub fn into_summary(
        self,
        groups: &GroupNames,
        limits: SummaryLimits,
        not_separated: &[CountedCause],
    ) -> CountedSummary {
        let mut index = GroupIndex::new(groups);
        let mut by_index = SumsByIndex::default();
        for (words, total) in self.groups {
            by_index.of(index.named(words)).total.merge(&total);
        }
        let numbered: Vec<_> = self.numbered.iter().map(|words| (index.named(*words), index.of(*words))).collect();
        // Several groups can have the same name, as cgroups with the same path one after another.
        let mut pairs: HashMap<(usize, usize, CountedCause), CauseTime> = HashMap::default();
        for ((waiting, running, cause), time) in self.pairs {
            let ((waiting, _), (running, runs)) = (numbered[waiting as usize], numbered[running as usize]);
            let cause = match (CountedCause::without_pair(cause), runs) {
                (Some(cause), _) => cause,
                (None, None) => CountedCause::System,
                (None, Some(running)) if running == waiting => CountedCause::OwnGroup,
                (None, Some(_)) => CountedCause::OtherGroups,
            };
            let by_group = [CountedCause::OwnGroup, CountedCause::OtherGroups, CountedCause::System].contains(&cause);
            if by_group && let Some(sums) = by_index.get(waiting) {
                sums.causes[cause as usize].merge(&time);
            }
            pairs.entry((waiting, running, cause)).or_default().merge(&time);
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        let mut pairs_lost = self.pairs_lost;
        if pairs.len() > limits.pairs {
            pairs.select_nth_unstable_by_key(limits.pairs, |(pair, time)| (Reverse(time.ns), *pair));
            pairs_lost += pairs.drain(limits.pairs..).map(|(_, time)| time.waits).sum::<u64>();
        }
        let mut pairs: Vec<PairCauses> = pairs
            .into_iter()
            .map(|((waiting, running, cause), time)| PairCauses {
                waiting: index.name(waiting),
                running: index.name(running),
                cause,
                time,
            })
            .collect();
        sort_pairs(&mut pairs);
        let without_room = || Sums { total: self.others.clone(), ..Sums::default() };
        let (mut rest, mut all) = (without_room(), without_room());
        let mut by_size: Vec<(Arc<str>, Box<Sums>)> =
            by_index.into_iter().map(|(name, sums)| (index.name(name), sums)).collect();
        by_size.sort_by(|(a, of_a), (b, of_b)| (of_b.total.sum_ns, a).cmp(&(of_a.total.sum_ns, b)));
        by_size.iter().for_each(|(_, sums)| all.merge(sums));
        let beyond = by_size.split_off(limits.groups.min(by_size.len()));
        beyond.iter().for_each(|(_, sums)| rest.merge(sums));
        let mut groups_shown: Vec<GroupCauses> = Vec::new();
        for (name, sums) in by_size {
            let (total, causes) = sums.finish();
            groups_shown.push(GroupCauses { name: Some(name), total, causes });
        }
        if rest.total.waits > 0 {
            let (total, causes) = rest.finish();
            groups_shown.push(GroupCauses { name: None, total, causes });
        }
        let (all, causes) = all.finish();
        CountedSummary {
            by: groups.by,
            all,
            causes,
            groups: groups_shown,
            groups_merged: beyond.len() as u64,
            groups_without_path: 0,
            pairs,
            pairs_lost,
            not_separated: not_separated.to_vec(),
        }
    }
}

/// Sorts pairs without duplicates: most time first, and by name if the time is the same.
pub(crate) fn sort_pairs(pairs: &mut [PairCauses]) {
    fn key(pair: &PairCauses) -> (Reverse<u128>, &str, &str, CountedCause) {
        (Reverse(pair.time.ns), &pair.waiting, &pair.running, pair.cause)
    }
    pairs.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
