//! The report of `hist --csv --by tid --from queued`: for so many threads that reading JSON, with the buckets and the
//! longest waits of each, would take longer than all else.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{account::Account, report::JsonSwitchIns};

/// A report of one window.
#[derive(Debug)]
pub struct CsvReport {
    /// The waits of each thread.
    pub by_tid: BTreeMap<u32, Account>,
    /// Waits of threads without a group of their own.
    pub groups_merged: u64,
    /// The terms of switch-ins.
    pub switch_ins: JsonSwitchIns,
}

impl CsvReport {
    /// Parses the titles and the rows. No cell may contain a comma.
    ///
    /// # Panics
    /// If there is no row, a column is missing, or a cell is not a number as it should be.
    pub fn parse(csv: &str) -> Self {
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<&str>>());
        let titles = lines.next().expect("a line with titles");
        let column = |title: &str| {
            titles.iter().position(|one| *one == title).unwrap_or_else(|| panic!("no column `{title}` in {titles:?}"))
        };
        let [tid, count, sum_ns, groups_merged] = ["tid", "count", "sum_ns", "groups_merged"].map(column);
        let number = |text: &str| text.parse::<u64>().unwrap_or_else(|error| panic!("{error}: `{text}`"));
        let mut of_window = None;
        let mut by_tid = BTreeMap::new();
        for cells in lines {
            assert_eq!(cells.len(), titles.len(), "{cells:?}");
            // The row of merged groups has no thread.
            if let Ok(tid) = cells[tid].parse::<u32>() {
                let (waits, waited_ns) = (number(cells[count]), number(cells[sum_ns]));
                by_tid.insert(tid, Account { waits, waited_ns, ..Account::default() });
            }
            of_window.get_or_insert_with(|| (number(cells[groups_merged]), switch_ins(&titles, &cells)));
        }
        let (groups_merged, switch_ins) = of_window.expect("a row");
        Self { by_tid, groups_merged, switch_ins }
    }
}

/// The terms in a row. An empty cell is `null`.
fn switch_ins(titles: &[&str], cells: &[&str]) -> JsonSwitchIns {
    let term = |(title, cell): (&&str, &&str)| {
        let name = title.strip_prefix("switch_ins_")?;
        Some((name.to_owned(), cell.parse::<u64>().map_or(Value::Null, Value::from)))
    };
    let terms: Map<String, Value> = titles.iter().zip(cells).filter_map(term).collect();
    serde_json::from_value(Value::Object(terms)).unwrap_or_else(|error| panic!("{error} in {cells:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: &str = "kernel,tid,class,count,sum_ns,groups_merged,switch_ins_seen,switch_ins_measured,\
        switch_ins_filtered,switch_ins_other_class,switch_ins_ring_buffer_full,switch_ins_invalid,\
        switch_ins_unknown_start,switch_ins_after_unseen,switch_ins_not_timed,switch_ins_unknown_ns,switch_ins_unseen,\
        switch_ins_unseen_ns,switch_ins_to_idle,switch_ins_unseen_switches,switch_ins_still_waiting";
    const TERMS: &str = "20,9,5,0,0,0,4,1,1,700,3,80,6,0";

    fn parsed(still_waiting: &str) -> CsvReport {
        let row = |tid: &str, waits: &str| format!("6.1,{tid},runqueue,{waits},2,{TERMS},{still_waiting}");
        let rows = [row("17", "4,40"), row("18", "3,30"), row("(other)", "2,20")].join("\n");
        CsvReport::parse(&format!("{TITLES}\n{rows}\n"))
    }

    #[test]
    fn threads_have_their_waits_and_the_window_has_its_terms() {
        let report = parsed("1");
        let waits: Vec<_> = report.by_tid.iter().map(|(tid, found)| (*tid, found.waits, found.waited_ns)).collect();
        assert_eq!((waits, report.groups_merged), (vec![(17, 4, 40), (18, 3, 30)], 2));
        let terms = report.switch_ins;
        assert_eq!((terms.seen, terms.accounted(), terms.unknown_ns), (20, 20, 700));
        assert_eq!((terms.unseen, terms.unseen_ns, terms.to_idle, terms.still_waiting), (3, 80, 6, Some(1)));
    }

    #[test]
    fn an_empty_cell_is_unknown() {
        assert_eq!(parsed("").switch_ins.still_waiting, None);
    }
}
