//! Properties that hold for any report.

use proptest::prelude::*;
use wakelat_common::Class;

use super::{
    OutputFormat, ReportView, Style, style,
    testing::report,
    tests::{ascii, chart, show, table, terminal, trace, waits},
    top_table,
};
use crate::{
    aggregate::distribution::Maximum,
    report::{CoverageTerms, Group, GroupClass, KeyPart, KeyValue, LatencyFrom, Report, Threshold},
    wait::Comm,
};

prop_compose! {
    fn any_terms()(values in prop::array::uniform14(any::<u64>().prop_map(|v| v >> (8 + v % 56)))) -> CoverageTerms {
        let [seen, carried, measured, already_running, already_queued, filtered, below_threshold, task_table_full,
            ring_buffer_full, invalid, missed_switch, still_waiting, paused, not_sampled] = values;
        CoverageTerms { seen, carried, measured, already_running, already_queued, filtered, below_threshold, task_table_full,
            ring_buffer_full, invalid, missed_switch, still_waiting, paused, not_sampled }
    }
}

fn any_key_value() -> impl Strategy<Value = KeyValue> {
    prop_oneof![any::<i64>().prop_map(KeyValue::Number), ".{0,70}".prop_map(KeyValue::Text)]
}

prop_compose! {
    fn any_group(key_names: Vec<&'static str>)(
        values in prop::collection::vec(any_key_value(), key_names.len()),
        class in prop::sample::select(vec![GroupClass::One(Class::Wakeup), GroupClass::One(Class::New),
            GroupClass::One(Class::Preempted), GroupClass::RunQueue]),
        waits in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>(), any::<[u8; 15]>()), 1..120),
    ) -> Group {
        let mut distribution = crate::aggregate::distribution::Distribution::default();
        for (value, at_ns, tid, comm) in waits {
            let latency_ns = value >> (value % 64);
            distribution.record(Maximum { latency_ns, at_ns, tid, comm: Comm::new(&comm), cpu: tid >> 20 });
        }
        let key = key_names.iter().zip(values).map(|(name, value)| KeyPart { name, value }).collect();
        Group { key, class, distribution: distribution.into(), run_ns: None, worst: Vec::new(), wakers: Default::default() }
    }
}

prop_compose! {
    fn any_report()(
        key_names in prop::sample::subsequence(vec!["tid", "pid", "comm", "cgroup", "container", "cpu", "prio", "policy", "waker"], 0..=9)
    )(
        groups in prop::collection::vec(any_group(key_names), 0..16),
        wakeups in any_terms(),
        preemptions in prop::option::of(any_terms()),
        missed in any::<Option<u64>>(),
        events_lost in any::<Option<u64>>(),
        oldest in prop::option::of(any::<[u8; 15]>()),
        over in prop::option::of(any::<u64>()),
        waking in any::<bool>(),
    ) -> Report {
        let mut report = report(groups);
        report.coverage.wakeups = wakeups;
        report.coverage.preemptions = preemptions;
        report.coverage.missed = missed;
        report.coverage.events_lost = events_lost;
        report.coverage.oldest_waiting = oldest
            .map(|comm| Maximum { latency_ns: u64::MAX, at_ns: 0, tid: u32::MAX, comm: Comm::new(&comm), cpu: 0 });
        report.threshold = over.map(|over| Threshold { threshold_ns: over / 3, over });
        report.from = if waking { LatencyFrom::Waking } else { LatencyFrom::Wakeup };
        report
    }
}

/// The sum of the counts in the rows of all charts of `text`, which must be ASCII.
fn counts_in_rows(text: &str) -> u64 {
    let row = |line: &str| -> Option<u64> {
        let (_, to) = line.strip_prefix(' ')?.split_once(" - ")?;
        let mut words = to.split_whitespace();
        words.next()?.replace(',', "").parse::<f64>().ok()?;
        ["ns", "us", "ms", "s"].contains(&words.next()?).then_some(())?;
        words.next()?.replace(',', "").parse().ok()
    };
    text.lines().filter_map(row).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_line_is_wider_than_the_terminal(report in any_report(), width in 20..140usize, unicode: bool, timestamps: bool) {
        let style = Style { unicode, timestamps, ..terminal(width) };
        let mut all = chart(&report, style.clone());
        for sort in [top_table::Sort::Max, top_table::Sort::Sum] {
            all += &table(&report, sort, Some(7), style.clone());
        }
        all += &trace(OutputFormat::Human, &waits(), &report, style);
        for line in all.lines() {
            prop_assert!(unicode_width::UnicodeWidthStr::width(line) <= width.max(style::MIN_WIDTH), "{width}: {line:?}");
            prop_assert!(!line.ends_with(' '), "{line:?}");
            prop_assert!(unicode || line.is_ascii(), "{line:?}");
        }
    }

    #[test]
    fn the_counts_of_all_rows_add_up(group in any_group(Vec::new())) {
        let count = group.distribution.count();
        let text = chart(&report(vec![group]), ascii(140));
        prop_assert_eq!(counts_in_rows(&text), count, "{}", text);
    }

    #[test]
    fn an_unknown_number_of_missed_events_is_null_in_json_and_an_empty_cell_in_csv(missed in any::<Option<u64>>()) {
        for missed in [missed, Some(0), None] {
            let mut report = report(Vec::new());
            report.coverage.missed = missed;
            let json = show(OutputFormat::Json, ReportView::Chart, &report, Style::default());
            let document: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(document["coverage"]["missed"].clone(), serde_json::json!(missed));
            // Without a group, no cell has a comma.
            let csv = show(OutputFormat::Csv, ReportView::Chart, &report, Style::default());
            let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
            let column = rows[0].iter().position(|name| *name == "missed").unwrap();
            prop_assert_eq!(rows[1][column], missed.map(|missed| missed.to_string()).unwrap_or_default());
        }
    }

    #[test]
    fn every_report_is_a_line_of_json_with_all_its_waits(report in any_report()) {
        let text = show(OutputFormat::Json, ReportView::Chart, &report, Style::default());
        prop_assert_eq!(text.matches('\n').count(), 1);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (group, shown) in report.groups.iter().zip(document["groups"].as_array().unwrap()) {
            let buckets = shown["buckets"].as_array().unwrap();
            let sum: u64 = buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
            prop_assert_eq!(sum, group.distribution.count());
        }
        prop_assert_eq!(&document["coverage"]["seen"], report.coverage.wakeups.seen);
    }
}
