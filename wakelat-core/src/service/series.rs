//! The totals of a bounded number of groups.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::merged_groups::MergedGroups;
use crate::{
    aggregate::space_saving::SpaceSaving,
    why::counted::{
        CauseGroups, CauseTime, GroupTotal, LongestGroupWait,
        summary::{CauseShares, CountedCause, CountedSummary, GroupCauses, PairCauses, sort_pairs},
    },
};

/// How long a group without waits keeps its series after its cgroup was removed: seconds. Several scrapes of any usual
/// interval see its last value.
const KEPT_AFTER_LAST_WAIT_S: u64 = 300;

/// As [`KEPT_AFTER_LAST_WAIT_S`], while no export has had its last waits: seconds.
const KEPT_UNTIL_EXPORTED_S: u64 = 24 * 3_600;

/// Pairs of groups whose time is kept: those with the most. A reading adds at most as many, of which the table then keeps
/// those with the most again. The totals of the last minute have up to 13 times as many.
pub const MAX_PAIRS: usize = 4_096 / 8 * 7;

/// The longest name of a series: bytes. A path of a cgroup can have 4 KiB, and is repeated in each of its series.
const MAX_NAME: usize = 1_024;

/// Whether a group of this name has series of its own: its cgroup was looked up before it was removed, and its path is
/// not too long.
pub(super) fn can_have_series(name: &str) -> bool {
    !name.starts_with('(') && name.len() <= MAX_NAME
}

/// Length of a slot of [`SlidingMaximum`]: seconds.
const SLOT_S: u64 = 10;

/// The longest wait of the last 60 to 70 seconds. It does not depend on who reads it, and how often.
#[derive(Clone, Copy, Debug, Default)]
struct SlidingMaximum {
    slots: [Option<LongestGroupWait>; 7],
    /// The number of the newest slot since the start of time.
    newest: u64,
}

impl SlidingMaximum {
    fn advance(&mut self, now_s: u64) {
        let newest = self.newest.max(now_s / SLOT_S);
        let slots = self.slots.len() as u64;
        for slot in (self.newest + 1..=newest).rev().take(self.slots.len()) {
            self.slots[(slot % slots) as usize] = None;
        }
        self.newest = newest;
    }

    fn record(&mut self, wait: Option<LongestGroupWait>, now_s: u64) {
        self.advance(now_s);
        let slot = &mut self.slots[(self.newest % 7) as usize];
        *slot = LongestGroupWait::longer(*slot, wait);
    }

    fn at(mut self, now_s: u64) -> Option<LongestGroupWait> {
        self.advance(now_s);
        self.slots.into_iter().fold(None, LongestGroupWait::longer)
    }
}

/// The waits of a group and their causes, since its series began.
#[derive(Clone, Debug, Default)]
pub struct WaitSeries {
    total: GroupTotal,
    causes: [CauseTime; CountedCause::ALL.len()],
    maximum: SlidingMaximum,
    last_wait_s: u64,
    /// Whether an export has had all of its waits.
    is_exported: bool,
    number: u64,
}

impl WaitSeries {
    fn add(&mut self, total: &GroupTotal, causes: &CauseShares, now_s: u64) {
        self.total.merge(total);
        causes.iter().for_each(|(cause, time)| self.causes[*cause as usize].merge(time));
        self.maximum.record(total.longest, now_s);
        self.last_wait_s = now_s;
        self.is_exported = false;
    }

    /// Whether the series ends unless its cgroup exists. `has_exports`: whether the series are exported.
    fn is_old(&self, now_s: u64, has_exports: bool) -> bool {
        let kept_s = if has_exports && !self.is_exported { KEPT_UNTIL_EXPORTED_S } else { KEPT_AFTER_LAST_WAIT_S };
        now_s.saturating_sub(self.last_wait_s) >= kept_s
    }

    /// The number of the series: no two of a table have the same, also if one of the same name has ended. 0 for that of all
    /// other groups.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The waits.
    pub fn total(&self) -> &GroupTotal {
        &self.total
    }

    /// The causes that have had time, in the order of [`CountedCause::ALL`]. Their times add up to the waits.
    pub fn causes(&self) -> impl Iterator<Item = (CountedCause, CauseTime)> {
        CountedCause::ALL.into_iter().zip(self.causes).filter(|(_, time)| time.ns > 0)
    }

    /// The longest wait that ended in the 60 to 70 seconds before `now_s`.
    pub fn recent_longest(&self, now_s: u64) -> Option<LongestGroupWait> {
        self.maximum.at(now_s)
    }

    fn shares(&self) -> CauseShares {
        let mut causes: CauseShares = self.causes().collect();
        causes.sort_by_key(|(cause, time)| (std::cmp::Reverse(time.ns), *cause));
        causes
    }
}

/// Series by the name of their group, at most a given number, and one for all other groups.
#[derive(Clone, Debug)]
pub struct SeriesTable {
    max_series: usize,
    /// Boxed: a node of the tree has room for eleven, and is seldom full.
    series: BTreeMap<Arc<str>, Box<WaitSeries>>,
    /// The number of the last series that began.
    last_number: u64,
    /// Whether the series are exported.
    has_exports: bool,
    /// Groups beyond the limit, those without a name of their own, and those for which the kernel's table had no room.
    other: WaitSeries,
    /// The groups in `other`, except for those for which the kernel's table had no room.
    merged: MergedGroups,
    all: WaitSeries,
    pairs: SpaceSaving<(Arc<str>, Arc<str>, CountedCause), CauseTime>,
    pairs_lost: u64,
}

impl SeriesTable {
    /// An empty table with at most `max_series` series.
    pub fn new(max_series: usize) -> Self {
        Self {
            max_series,
            series: BTreeMap::new(),
            last_number: 0,
            has_exports: false,
            other: WaitSeries::default(),
            merged: MergedGroups::default(),
            all: WaitSeries::default(),
            pairs: SpaceSaving::default(),
            pairs_lost: 0,
        }
    }

    /// An empty table with the same limit. Its [`Self::into_merged`] can be added to this one.
    pub(super) fn emptied(&self) -> Self {
        Self { merged: self.merged.emptied(), ..Self::new(self.max_series) }
    }

    /// Adds waits that ended until `now_s`, seconds of any clock that does not go back.
    pub fn add(&mut self, summary: &CountedSummary, now_s: u64) {
        self.add_if(summary, now_s, |_| true);
    }

    /// As [`Self::add`], but the series of a group begins only if the limit and `may_begin` allow it. The latter is
    /// asked only about a group for which the former has room.
    pub(super) fn add_if(
        &mut self,
        summary: &CountedSummary,
        now_s: u64,
        mut may_begin: impl FnMut(&Arc<str>) -> bool,
    ) {
        for group in &summary.groups {
            let known = group.name.as_ref().and_then(|name| self.series.get_mut(name));
            if let Some(series) = known {
                series.add(&group.total, &group.causes, now_s);
                continue;
            }
            let series = match &group.name {
                None => &mut self.other,
                Some(name) if self.series.len() < self.max_series && can_have_series(name) && may_begin(name) => {
                    self.series.entry(Arc::clone(name)).or_insert_with(|| {
                        self.last_number += 1;
                        Box::new(WaitSeries { number: self.last_number, ..WaitSeries::default() })
                    })
                }
                Some(name) => {
                    self.merged.add(name, can_have_series(name));
                    &mut self.other
                }
            };
            series.add(&group.total, &group.causes, now_s);
        }
        if summary.all.waits > 0 {
            self.all.add(&summary.all, &summary.causes, now_s);
        }
        self.pairs_lost += summary.pairs_lost;
        for PairCauses { waiting, running, cause, time } in &summary.pairs {
            let key = (Arc::clone(waiting), Arc::clone(running), *cause);
            self.pairs.entry(key, CauseTime::default).merge(time);
        }
        let pairs_lost = &mut self.pairs_lost;
        self.pairs.evict_above(MAX_PAIRS, |_, time| *pairs_lost += time.waits);
    }

    /// Series are exported from now on: none of a removed cgroup ends before an export has had its last waits, or a day
    /// has passed.
    pub fn await_exports(&mut self) {
        self.has_exports = true;
    }

    /// An export has had all waits so far.
    pub fn exported(&mut self) {
        self.series.values_mut().for_each(|series| series.is_exported = true);
    }

    /// Ends the series of groups that have had no wait for five minutes, unless their cgroup `exists`: it may have waits
    /// again. The totals of all groups together keep their waits. Of the pairs, those end in which one of these groups
    /// waited: groups without series of their own also have pairs.
    pub fn end_vanished(&mut self, now_s: u64, exists: impl Fn(&str) -> bool) {
        let has_exports = self.has_exports;
        let mut ended: HashSet<Arc<str>> = HashSet::new();
        self.series.retain(|name, series| {
            let is_kept = !series.is_old(now_s, has_exports) || exists(name);
            if !is_kept {
                ended.insert(Arc::clone(name));
            }
            is_kept
        });
        if !ended.is_empty() {
            self.pairs.retain(|(waiting, ..)| !ended.contains(waiting));
        }
    }

    /// Ends the series of groups that are not `selected` any more, and allows `max_series` from now on. No other series
    /// ends, also if there are more of them. The totals of all groups together keep their waits. All pairs stay: groups
    /// without series of their own also have pairs.
    pub fn select(&mut self, max_series: usize, selected: impl Fn(&str) -> bool) {
        self.max_series = max_series;
        self.series.retain(|name, _| selected(name));
    }

    /// The series, by the name of their group.
    pub fn series(&self) -> impl Iterator<Item = (&str, &WaitSeries)> {
        self.series.iter().map(|(name, series)| (&**name, &**series))
    }

    /// Whether the group of this name has a series of its own.
    pub fn has(&self, name: &str) -> bool {
        self.series.contains_key(name)
    }

    /// The waits of all groups without a series of their own; `None` if there were none.
    pub fn other(&self) -> Option<&WaitSeries> {
        (self.other.total.waits > 0).then_some(&self.other)
    }

    /// The waits of all groups, also of those whose series have ended.
    pub fn all(&self) -> &WaitSeries {
        &self.all
    }

    /// The number of series, without the one for all other groups.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether no group has a series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The limit of [`Self::len`].
    pub fn max_series(&self) -> usize {
        self.max_series
    }

    /// The number of groups without series of their own so far, up to 65,536.
    pub fn merged_groups(&self) -> u64 {
        self.merged.len() as u64
    }

    /// These groups, for [`Self::add_merged`] of a table that was [`Self::emptied`].
    pub(super) fn into_merged(self) -> MergedGroups {
        self.merged
    }

    /// Adds groups without series of their own in a table from which this one was [`Self::emptied`]: those that both
    /// have count once.
    pub(super) fn add_merged(&mut self, merged: &MergedGroups) {
        self.merged.extend(merged);
    }

    /// Ends the series of groups that had none in another table whose waits were added: each lacks a part of its waits.
    /// All of their waits then count as those of groups without series.
    pub(super) fn merge_partial(&mut self) {
        let Self { series, merged, other, .. } = self;
        series.retain(|name, series| {
            let is_partial = merged.contains(name);
            if is_partial {
                other.add(&series.total, &series.shares(), series.last_wait_s);
            }
            !is_partial
        });
    }

    /// Parts of waits whose pair of groups had no room.
    pub fn pairs_lost(&self) -> u64 {
        self.pairs_lost
    }

    /// The causes by cgroup, the one with the most waiting time first. `not_separated` are the causes that this kernel does
    /// not count.
    pub fn summary(&self, not_separated: &[CountedCause]) -> CountedSummary {
        let group = |name: Option<&Arc<str>>, series: &WaitSeries| GroupCauses {
            name: name.cloned(),
            total: series.total.clone(),
            causes: series.shares(),
        };
        let mut groups: Vec<GroupCauses> = self.series.iter().map(|(name, series)| group(Some(name), series)).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.total.sum_ns));
        groups.extend(self.other().map(|other| group(None, other)));
        let mut pairs: Vec<PairCauses> = self
            .pairs
            .iter()
            .map(|((waiting, running, cause), time)| PairCauses {
                waiting: Arc::clone(waiting),
                running: Arc::clone(running),
                cause: *cause,
                time: *time,
            })
            .collect();
        sort_pairs(&mut pairs);
        CountedSummary {
            by: CauseGroups::Cgroups,
            all: self.all.total.clone(),
            causes: self.all.shares(),
            groups,
            groups_merged: self.merged_groups(),
            groups_without_path: self.merged.without_path() as u64,
            pairs,
            pairs_lost: self.pairs_lost,
            not_separated: not_separated.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
