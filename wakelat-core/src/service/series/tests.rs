use super::*;
use crate::why::counted::summary::testing::one_neighbour;

fn named(name: &str) -> CountedSummary {
    let mut summary = one_neighbour();
    summary.groups.truncate(1);
    summary.pairs.clear();
    summary.groups[0].name = Some(name.into());
    let GroupCauses { total, causes, .. } = summary.groups[0].clone();
    CountedSummary { all: total, causes, ..summary }
}

/// The sum over all series and the rest.
fn waits(table: &SeriesTable) -> u64 {
    table.series().map(|(_, series)| series).chain(table.other()).map(|series| series.total().waits).sum()
}

#[test]
fn what_is_added_twice_counts_twice_and_keeps_its_causes() {
    let once = one_neighbour();
    let mut table = SeriesTable::new(10);
    table.add(&once, 1);
    assert_eq!(table.summary(&once.not_separated), once);
    table.add(&once, 2);
    let twice = table.summary(&[]);
    assert_eq!((twice.all.waits, twice.all.sum_ns), (2 * once.all.waits, 2 * once.all.sum_ns));
    assert_eq!(twice.all.max_ns, once.all.max_ns);
    for group in &twice.groups {
        assert_eq!(group.causes.iter().map(|(_, time)| time.ns).sum::<u128>(), group.total.sum_ns);
    }
    assert_eq!(twice.pairs[0].time.ns, 2 * once.pairs[0].time.ns);
}

#[test]
fn groups_beyond_the_limit_are_one_with_their_number() {
    let mut table = SeriesTable::new(2);
    for name in ["/a", "/b", "/c", "/d", "/c", "/a"] {
        table.add(&named(name), 1);
    }
    assert_eq!((table.len(), table.merged_groups()), (2, 2));
    assert_eq!(table.other().map(|other| other.total().waits), Some(3 * named("/a").all.waits));
    assert_eq!(waits(&table), table.all().total().waits);
}

#[test]
fn a_group_without_a_path_or_with_an_endless_one_has_no_series() {
    let mut table = SeriesTable::new(10);
    let long = format!("/{}", "x".repeat(MAX_NAME));
    for name in ["(cgroup 7, gone)", &long, &long[..MAX_NAME]] {
        table.add(&named(name), 1);
    }
    assert_eq!((table.len(), table.merged_groups()), (1, 2));
    assert_eq!(waits(&table), table.all().total().waits);
}

#[test]
fn a_group_that_is_not_selected_any_more_ends_and_no_other_one() {
    let mut table = SeriesTable::new(3);
    ["/a", "/b", "/c"].iter().for_each(|name| table.add(&named(name), 1));
    table.select(1, |name| name != "/b");
    assert_eq!(table.series().map(|(name, _)| name).collect::<Vec<_>>(), ["/a", "/c"]);
    assert_eq!(table.all().total().waits, 3 * named("/a").all.waits);
    // There are more than allowed: no other one begins.
    table.add(&named("/d"), 2);
    assert_eq!((table.len(), table.merged_groups()), (2, 1));
}

#[test]
fn a_removed_group_keeps_its_series_for_five_minutes_and_an_idle_one_for_ever() {
    let mut table = SeriesTable::new(1);
    table.add(&named("/job"), 100);
    table.end_vanished(399, |_| false);
    assert_eq!(table.len(), 1);
    table.end_vanished(400, |_| true);
    assert_eq!(table.len(), 1);
    table.end_vanished(400, |_| false);
    assert_eq!(table.len(), 0);
    // All waits are still counted, and the next group has room.
    assert_eq!(table.all().total().waits, named("/job").all.waits);
    table.add(&named("/next"), 401);
    assert_eq!((table.len(), table.merged_groups()), (1, 0));
}

#[test]
fn an_exported_series_of_a_removed_group_ends_once_an_export_has_its_last_waits() {
    let mut table = SeriesTable::new(1);
    table.await_exports();
    table.add(&named("/job"), 100);
    table.exported();
    table.add(&named("/job"), 101);
    table.end_vanished(1_000, |_| false);
    assert_eq!(table.len(), 1);
    table.exported();
    table.end_vanished(1_000, |_| false);
    assert_eq!(table.len(), 0);
    // Without any export, it ends after a day.
    table.add(&named("/job"), 1_000);
    table.end_vanished(1_000 + KEPT_UNTIL_EXPORTED_S - 1, |_| false);
    assert_eq!(table.len(), 1);
    table.end_vanished(1_000 + KEPT_UNTIL_EXPORTED_S, |_| false);
    assert_eq!(table.len(), 0);
}

#[test]
fn pairs_of_groups_without_series_stay_when_others_end_or_settings_change() {
    let mut table = SeriesTable::new(1);
    table.add(&named("/job"), 1);
    // Beyond the limit.
    let live = one_neighbour();
    table.add(&live, 1);
    assert_eq!((table.len(), table.has("/job")), (1, true));
    table.select(1, |_| true);
    assert_eq!(table.summary(&[]).pairs, live.pairs);
    table.end_vanished(1_000, |_| false);
    assert_eq!((table.len(), table.summary(&[]).pairs), (0, live.pairs));
    // The pairs of a group end with its series.
    let mut table = SeriesTable::new(10);
    table.add(&one_neighbour(), 1);
    table.end_vanished(1_000, |_| false);
    assert_eq!(table.summary(&[]).pairs, []);
}

#[test]
fn a_maximum_lasts_for_a_minute() {
    let wait = |latency_ns, at_ns| LongestGroupWait { latency_ns, at_ns, ..LongestGroupWait::default() };
    let mut maximum = SlidingMaximum::default();
    maximum.record(Some(wait(7, 1)), 1_000);
    maximum.record(Some(wait(3, 2)), 1_030);
    maximum.record(Some(wait(3, 3)), 1_031);
    maximum.record(None, 1_032);
    let at = |now_s| maximum.at(now_s).map_or((0, 0), |longest| (longest.latency_ns, longest.at_ns));
    let expected = [(7, 1), (7, 1), (7, 1), (3, 3), (3, 3), (0, 0)];
    assert_eq!([1_031, 1_060, 1_069, 1_070, 1_099, 1_100].map(at), expected);
    assert_eq!(at(u64::MAX), (0, 0));
}
