//! The totals of the last minute.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{merged_groups::MergedGroups, series::SeriesTable};
use crate::{
    report::{Overhead, ProgramTime, Report, Sampling},
    why::counted::summary::{CountedCause, CountedSummary},
};

/// Length of a slot: ns.
const SLOT_NS: u64 = 5_000_000_000;

/// How much too early the last reading of a slot may be: ns. Readings are a second apart, but not to the ns.
const EARLY_NS: u64 = 500_000_000;

/// Complete slots that are kept.
const SLOTS: usize = 12;

/// A time, rounded up to whole slots: ns.
pub fn whole_slots(ns: u64) -> u64 {
    ns.next_multiple_of(SLOT_NS)
}

/// The longest time that [`RecentTotals::last`] covers: ns.
pub const MAX_LAST_NS: u64 = SLOT_NS * SLOTS as u64;

/// The waits of a complete slot, and the report of everything since the start at its beginning.
struct RecentSlot {
    /// Takes less memory than a table, which has room for more.
    waits: CountedSummary,
    /// The groups that `waits` does not name.
    merged: MergedGroups,
    begin: Report,
}

/// The groups that have series, the same ones in each slot: the first ones that have waits.
struct NamedGroups {
    max_series: usize,
    /// The groups with series in a slot that is kept, with the number of the last one.
    last_slots: HashMap<Arc<str>, u64>,
    /// The number of the slot that is not complete.
    slot: u64,
}

impl NamedGroups {
    /// Whether a group that has waits has a series from now on.
    fn include(&mut self, name: &Arc<str>) -> bool {
        let has_room = self.last_slots.len() < self.max_series;
        match self.last_slots.get_mut(name) {
            Some(last) => *last = self.slot,
            None if has_room => _ = self.last_slots.insert(Arc::clone(name), self.slot),
            None => return false,
        }
        true
    }

    /// The slot is complete: forgets the groups that have no series in the last [`SLOTS`].
    fn end_slot(&mut self) {
        self.slot += 1;
        let first = self.slot.saturating_sub(SLOTS as u64);
        self.last_slots.retain(|_, last| *last >= first);
    }
}

/// The totals of the last minute, in slots of five seconds.
pub struct RecentTotals {
    named: NamedGroups,
    /// Oldest first.
    complete: VecDeque<RecentSlot>,
    /// The waits of the slot that is not complete.
    waits: SeriesTable,
    /// The report at its beginning.
    begin: Report,
}

impl RecentTotals {
    /// No time has passed yet. All slots together have at most `max_series` series.
    pub fn new(max_series: usize) -> Self {
        let named = NamedGroups { max_series, last_slots: HashMap::new(), slot: 0 };
        // Only `named` limits the series.
        Self { named, complete: VecDeque::new(), waits: SeriesTable::new(usize::MAX), begin: Report::default() }
    }

    /// Allows `max_series` from now on. If there are more, none ends, but no other one begins.
    pub fn set_max_series(&mut self, max_series: usize) {
        self.named.max_series = max_series;
    }

    /// Adds waits; the report that covers them follows.
    pub fn add(&mut self, summary: &CountedSummary, now_s: u64) {
        self.waits.add_if(summary, now_s, |name| self.named.include(name));
    }

    /// Everything since the start is in `report`: begins a new slot if the current one is complete.
    pub fn covered(&mut self, report: &Report) {
        if report.duration_ns.saturating_sub(self.begin.duration_ns) >= SLOT_NS - EARLY_NS {
            let begin = Report { groups: Vec::new(), ..report.clone() };
            let next = self.waits.emptied();
            let waits = std::mem::replace(&mut self.waits, next);
            self.complete.push_back(RecentSlot {
                waits: waits.summary(&[]),
                merged: waits.into_merged(),
                begin: std::mem::replace(&mut self.begin, begin),
            });
            while self.complete.len() > SLOTS {
                self.complete.pop_front();
            }
            self.named.end_slot();
        }
    }

    /// The causes and the report of the last `last_ns`, rounded up to whole slots, or of all slots if they are shorter.
    /// `latest` covers everything since the start until now. A group that had no series in one of these slots, although
    /// it had waits in it, has none here: a series has all waits of its group.
    pub fn last(&self, last_ns: u64, latest: &Report, not_separated: &[CountedCause]) -> (CountedSummary, Report) {
        let from_ns = latest.duration_ns.saturating_sub(last_ns);
        let begins = self.complete.iter().map(|slot| &slot.begin).chain([&self.begin]);
        let first = begins.clone().filter(|begin| begin.duration_ns <= from_ns).count().saturating_sub(1);
        let mut waits = self.waits.clone();
        for slot in self.complete.range(first.min(self.complete.len())..) {
            waits.add(&slot.waits, 0);
            waits.add_merged(&slot.merged);
        }
        waits.merge_partial();
        let begin = begins.clone().nth(first).unwrap_or(&self.begin);
        (waits.summary(not_separated), difference(latest, begin))
    }
}

/// The report of the time between two instants, both of whose reports cover everything since the start.
fn difference(latest: &Report, begin: &Report) -> Report {
    let mut report = Report { groups: Vec::new(), ..latest.clone() };
    report.start_unix_ns += begin.duration_ns;
    report.duration_ns -= begin.duration_ns;
    report.reader_waited_ns = latest.reader_waited_ns.map(|ns| ns.saturating_sub(begin.reader_waited_ns.unwrap_or(0)));
    let before = &begin.coverage;
    report.coverage.switch_ins =
        latest.coverage.switch_ins.map(|terms| terms.since(&before.switch_ins.unwrap_or_default()));
    report.coverage.missed = latest.coverage.missed.map(|missed| missed - before.missed.unwrap_or(0));
    report.sampling = latest
        .sampling
        .map(|sampling| Sampling { measured_ns: latest.measured_ns() - begin.measured_ns(), ..sampling });
    report.overhead = latest.overhead.map(|cost| {
        let none = ProgramTime { ns: 0, switches: 0, timed_runs: 0 };
        let before = begin.overhead.unwrap_or(Overhead { cpus: cost.cpus, tool_ns: 0, programs: none });
        Overhead {
            cpus: cost.cpus,
            tool_ns: cost.tool_ns - before.tool_ns,
            programs: ProgramTime {
                ns: cost.programs.ns - before.programs.ns,
                switches: cost.programs.switches - before.programs.switches,
                timed_runs: cost.programs.timed_runs - before.programs.timed_runs,
            },
        }
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::SwitchInTerms,
        why::counted::{
            GroupTotal,
            summary::{GroupCauses, testing::one_neighbour},
        },
    };

    const SECOND: u64 = 1_000_000_000;

    fn at(second: u64) -> Report {
        let mut report = Report { duration_ns: second * SECOND, start_unix_ns: 7, ..Report::default() };
        report.coverage.switch_ins = Some(SwitchInTerms { seen: 10 * second, ..SwitchInTerms::default() });
        let measured_ns = second * SECOND / 2;
        report.sampling = Some(Sampling { limit_ppm: 5_000, one_in_least: 1, one_in_most: 1, measured_ns });
        report
    }

    /// The same waits of each of these groups.
    fn of_groups<'a>(names: impl IntoIterator<Item = &'a str>) -> CountedSummary {
        let mut summary = one_neighbour();
        let group = summary.groups[0].clone();
        summary.groups =
            names.into_iter().map(|name| GroupCauses { name: Some(name.into()), ..group.clone() }).collect();
        summary.all = GroupTotal::default();
        summary.groups.iter().for_each(|group| summary.all.merge(&group.total));
        summary
    }

    fn waits_of(group: &GroupCauses) -> u64 {
        group.total.waits
    }

    #[test]
    fn the_last_seconds_are_those_slots_and_no_others() {
        let mut recent = RecentTotals::new(10);
        let each = one_neighbour().all.waits;
        for second in 1..=200 {
            recent.add(&one_neighbour(), second);
            recent.covered(&at(second));
        }
        for (asked_s, covered_s) in [(1, 5), (5, 5), (6, 10), (30, 30), (60, 60), (999, 60)] {
            let (summary, report) = recent.last(asked_s * SECOND, &at(200), &[]);
            assert_eq!((summary.all.waits, report.duration_ns), (covered_s * each, covered_s * SECOND));
            assert_eq!(report.start_unix_ns, 7 + (200 - covered_s) * SECOND);
            assert_eq!(report.coverage.switch_ins.map(|terms| terms.seen), Some(10 * covered_s));
            assert_eq!(report.measured_ns(), covered_s * SECOND / 2);
        }
    }

    #[test]
    fn a_reading_that_is_a_little_early_still_ends_its_slot() {
        let mut recent = RecentTotals::new(10);
        let early = |second: u64| Report { duration_ns: second * SECOND - second % 3, ..at(second) };
        for second in 1..=60 {
            recent.add(&one_neighbour(), second);
            recent.covered(&early(second));
        }
        // Not a multiple of six seconds.
        let (summary, report) = recent.last(25 * SECOND, &early(60), &[]);
        assert_eq!(summary.all.waits, 25 * one_neighbour().all.waits);
        assert!(report.duration_ns.abs_diff(25 * SECOND) < 3, "{report:?}");
    }

    #[test]
    fn groups_beyond_the_limit_count_once_however_many_slots_they_are_in() {
        let mut recent = RecentTotals::new(1);
        for second in 1..=15 {
            let mut waits = one_neighbour();
            if (6..=10).contains(&second) {
                waits.groups[1].name = Some("/another".into());
            }
            recent.add(&waits, second);
            recent.covered(&at(second));
        }
        let merged = |last_s: u64| recent.last(last_s * SECOND, &at(15), &[]).0.groups_merged;
        assert_eq!([5, 10, 15].map(merged), [1, 2, 2]);
    }

    #[test]
    fn a_named_group_has_all_of_its_waits_in_whatever_order_the_groups_arrive() {
        let mut recent = RecentTotals::new(2);
        let names = ["/a", "/b", "/c", "/d", "/e"];
        for second in 1..=60 {
            recent.add(&of_groups(names.into_iter().cycle().skip(second as usize).take(5)), second);
            recent.covered(&at(second));
        }
        let each = of_groups(["/a"]).all.waits;
        for last_s in [5, 30, 60] {
            let (summary, _) = recent.last(last_s * SECOND, &at(60), &[]);
            let named: Vec<u64> = summary.groups.iter().filter(|group| group.name.is_some()).map(waits_of).collect();
            assert_eq!(named, [last_s * each; 2]);
            assert_eq!(summary.groups.iter().map(waits_of).sum::<u64>(), 5 * last_s * each);
            assert_eq!((summary.groups_merged, summary.groups_without_path), (3, 0));
        }
    }

    #[test]
    fn a_group_that_had_no_series_in_a_part_of_the_time_is_not_named() {
        let mut recent = RecentTotals::new(1);
        for second in 1..=120 {
            // `/a` has the only series until it has had no waits for a minute.
            let names: &[&str] = if second <= 5 { &["/a", "/b"] } else { &["/b"] };
            recent.add(&of_groups(names.iter().copied()), second);
            recent.covered(&at(second));
        }
        let each = of_groups(["/b"]).all.waits;
        let last = |last_s: u64| {
            let (summary, _) = recent.last(last_s * SECOND, &at(120), &[]);
            let groups = summary.groups.iter().map(|group| (group.name.is_some(), group.total.waits));
            (groups.collect::<Vec<_>>(), summary.groups_merged)
        };
        assert_eq!(last(50), (vec![(true, 50 * each)], 0));
        assert_eq!(last(60), (vec![(false, 60 * each)], 1));
    }

    #[test]
    fn a_lower_limit_ends_no_series() {
        let mut recent = RecentTotals::new(2);
        for second in 1..=15 {
            if second == 6 {
                recent.set_max_series(1);
            }
            recent.add(&of_groups(["/a", "/b", "/c"]), second);
            recent.covered(&at(second));
        }
        let (summary, _) = recent.last(15 * SECOND, &at(15), &[]);
        assert_eq!(summary.groups.iter().filter(|group| group.name.is_some()).count(), 2);
        assert_eq!(summary.groups_merged, 1);
    }

    #[test]
    fn groups_without_a_path_are_counted_by_themselves() {
        let mut recent = RecentTotals::new(10);
        for second in 1..=10 {
            recent.add(&of_groups(["/a", if second <= 5 { "(cgroup 7, gone)" } else { "(cgroup 8, gone)" }]), second);
            recent.covered(&at(second));
        }
        let (summary, _) = recent.last(10 * SECOND, &at(10), &[]);
        assert_eq!((summary.groups_merged, summary.groups_without_path), (2, 2));
    }

    #[test]
    fn at_the_beginning_all_there_is_is_covered() {
        let mut recent = RecentTotals::new(10);
        recent.add(&one_neighbour(), 1);
        recent.covered(&at(1));
        let (summary, report) = recent.last(30 * SECOND, &at(1), &[]);
        assert_eq!((summary.all.waits, report.duration_ns), (one_neighbour().all.waits, SECOND));
    }
}
