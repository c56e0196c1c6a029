//! The causes of a window that the programs have counted: of all waits, of each group, and which group waited for which.

use std::{cmp::Reverse, collections::BTreeMap};

use wakelat_common::wait_division::{DividedCause, GroupWords};

use super::{CauseGroups, CauseTime, CauseTotals, GroupTotal};
use crate::{
    aggregate::{container_id::Container, key::Names},
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
    /// Tasks of groups for which the kernel's tables had no room.
    UntrackedGroup,
    /// The time is before the last 64 switches of the CPU.
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
    pub name: Option<String>,
    /// Its waits.
    pub total: GroupTotal,
    /// Their causes.
    pub causes: CauseShares,
}

/// The time that one group waited while another ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairCauses {
    /// The group that waited.
    pub waiting: String,
    /// The group that ran.
    pub running: String,
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
    /// Groups beyond the limit.
    pub groups_merged: u64,
    /// Which group waited for which, most time first.
    pub pairs: Vec<PairCauses>,
    /// Parts of waits whose pair had no room in the kernel's table.
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

/// A group while it is summed up.
#[derive(Default)]
struct Sums {
    total: GroupTotal,
    causes: BTreeMap<CountedCause, CauseTime>,
}

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        other.causes.iter().for_each(|(cause, time)| self.causes.entry(*cause).or_default().merge(time));
    }

    /// The causes, once all pairs have been added.
    fn finish(mut self) -> (GroupTotal, CauseShares) {
        for cause in DividedCause::ALL {
            if let Some(name) = CountedCause::without_pair(cause) {
                self.causes.entry(name).or_default().merge(&self.total.cause(cause));
            }
        }
        // The time of pairs without room, and of waits without room for their group, which are not divided.
        let known_ns: u128 = self.causes.values().map(|time| time.ns).sum();
        let rest_ns = self.total.sum_ns.saturating_sub(known_ns);
        if rest_ns > 0 {
            self.causes.insert(CountedCause::UntrackedGroup, CauseTime { ns: rest_ns, waits: self.total.waits });
        }
        let mut causes: CauseShares = self.causes.into_iter().filter(|(_, time)| time.ns > 0).collect();
        causes.sort_by_key(|(cause, time)| (Reverse(time.ns), *cause));
        (self.total, causes)
    }
}

impl CauseTotals {
    /// The causes by group, with at most `max_groups` groups.
    pub fn summary(&self, groups: &GroupNames, max_groups: usize, not_separated: &[CountedCause]) -> CountedSummary {
        let named = |words| groups.of(words).unwrap_or_else(|| NO_CONTAINER.to_owned());
        let mut by_name: BTreeMap<String, Sums> = BTreeMap::new();
        for (words, total) in &self.groups {
            by_name.entry(named(*words)).or_default().total.merge(total);
        }
        let mut pairs: BTreeMap<(String, String, CountedCause), CauseTime> = BTreeMap::new();
        for ((cause, waiting, running), time) in &self.pairs {
            let (waiting, runs) = (named(*waiting), groups.of(*running));
            let cause = match (CountedCause::without_pair(*cause), &runs) {
                (Some(cause), _) => cause,
                (None, None) => CountedCause::System,
                (None, Some(running)) if *running == waiting => CountedCause::OwnGroup,
                (None, Some(_)) => CountedCause::OtherGroups,
            };
            let by_group = [CountedCause::OwnGroup, CountedCause::OtherGroups, CountedCause::System].contains(&cause);
            if by_group && let Some(sums) = by_name.get_mut(&waiting) {
                sums.causes.entry(cause).or_default().merge(time);
            }
            let running = runs.unwrap_or_else(|| NO_CONTAINER.to_owned());
            pairs.entry((waiting, running, cause)).or_default().merge(time);
        }
        let mut pairs: Vec<PairCauses> = pairs
            .into_iter()
            .map(|((waiting, running, cause), time)| PairCauses { waiting, running, cause, time })
            .collect();
        pairs.sort_by(|a, b| {
            (Reverse(a.time.ns), &a.waiting, &a.running, a.cause).cmp(&(
                Reverse(b.time.ns),
                &b.waiting,
                &b.running,
                b.cause,
            ))
        });
        let without_room = || Sums { total: self.others.clone(), ..Sums::default() };
        let (mut rest, mut all) = (without_room(), without_room());
        by_name.values().for_each(|sums| all.merge(sums));
        let mut by_size: Vec<(String, Sums)> = by_name.into_iter().collect();
        by_size.sort_by_key(|(_, sums)| Reverse(sums.total.sum_ns));
        let beyond = by_size.split_off(max_groups.min(by_size.len()));
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
            pairs,
            pairs_lost: self.pairs_lost,
            not_separated: not_separated.to_vec(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
