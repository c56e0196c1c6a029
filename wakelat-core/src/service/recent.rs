//! The totals of the last minute.

use std::collections::{HashSet, VecDeque};

use super::series::SeriesTable;
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
    /// What identifies the groups that `waits` does not name ([`SeriesTable::into_merged`]).
    merged: HashSet<u64>,
    begin: Report,
}

/// The totals of the last minute, in slots of five seconds.
pub struct RecentTotals {
    max_series: usize,
    /// Oldest first.
    complete: VecDeque<RecentSlot>,
    /// The waits of the slot that is not complete.
    waits: SeriesTable,
    /// The report at its beginning.
    begin: Report,
}

impl RecentTotals {
    /// No time has passed yet. Each slot has at most `max_series` series.
    pub fn new(max_series: usize) -> Self {
        Self { max_series, complete: VecDeque::new(), waits: SeriesTable::new(max_series), begin: Report::default() }
    }

    /// Allows `max_series` in each slot that begins from now on.
    pub fn set_max_series(&mut self, max_series: usize) {
        self.max_series = max_series;
    }

    /// Adds waits; the report that covers them follows.
    pub fn add(&mut self, summary: &CountedSummary, now_s: u64) {
        self.waits.add(summary, now_s);
    }

    /// Everything since the start is in `report`: begins a new slot if the current one is complete.
    pub fn covered(&mut self, report: &Report) {
        if report.duration_ns.saturating_sub(self.begin.duration_ns) >= SLOT_NS - EARLY_NS {
            let begin = Report { groups: Vec::new(), ..report.clone() };
            let next = self.waits.emptied(self.max_series);
            let waits = std::mem::replace(&mut self.waits, next);
            self.complete.push_back(RecentSlot {
                waits: waits.summary(&[]),
                merged: waits.into_merged(),
                begin: std::mem::replace(&mut self.begin, begin),
            });
            while self.complete.len() > SLOTS {
                self.complete.pop_front();
            }
        }
    }

    /// The causes and the report of the last `last_ns`, rounded up to whole slots, or of all slots if they are shorter.
    /// `latest` covers everything since the start until now.
    pub fn last(&self, last_ns: u64, latest: &Report, not_separated: &[CountedCause]) -> (CountedSummary, Report) {
        let from_ns = latest.duration_ns.saturating_sub(last_ns);
        let begins = self.complete.iter().map(|slot| &slot.begin).chain([&self.begin]);
        let first = begins.clone().filter(|begin| begin.duration_ns <= from_ns).count().saturating_sub(1);
        let mut waits = self.waits.clone();
        for slot in self.complete.range(first.min(self.complete.len())..) {
            waits.add(&slot.waits, 0);
            waits.add_merged(&slot.merged);
        }
        waits.forget_merged_with_series();
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
    use crate::{report::SwitchInTerms, why::counted::summary::testing::one_neighbour};

    const SECOND: u64 = 1_000_000_000;

    fn at(second: u64) -> Report {
        let mut report = Report { duration_ns: second * SECOND, start_unix_ns: 7, ..Report::default() };
        report.coverage.switch_ins = Some(SwitchInTerms { seen: 10 * second, ..SwitchInTerms::default() });
        let measured_ns = second * SECOND / 2;
        report.sampling = Some(Sampling { limit_ppm: 5_000, one_in_least: 1, one_in_most: 1, measured_ns });
        report
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
    fn a_group_that_is_shown_is_not_counted_as_merged() {
        let mut recent = RecentTotals::new(1);
        for second in 1..=10 {
            let mut waits = one_neighbour();
            if second > 5 {
                // Another group has the only series of this slot.
                waits.groups.reverse();
            }
            recent.add(&waits, second);
            recent.covered(&at(second));
        }
        let (summary, _) = recent.last(10 * SECOND, &at(10), &[]);
        assert_eq!(summary.groups_merged, 1, "{summary:?}");
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
