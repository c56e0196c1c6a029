//! docs/output.md against what the sinks write: neither can change without the other.

use std::collections::BTreeSet;

use serde_json::Value;
use wakelat_common::{Class, start::PrevState};

use super::{
    OutputFormat, RenderContext, ReportView, Style, csv,
    fixtures::{self, group},
    stays,
};
use crate::{
    aggregate::distribution::Maximum,
    report::{CoverageTerms, KeyValue, Overhead, ProgramTime, Report, Sampling, Threshold},
    wait::Comm,
};

const PAGE: &str = include_str!("../../../docs/output.md");

/// The report that the page shows: every field has a value.
fn report() -> Report {
    let key = [("comm", KeyValue::Text("nginx".to_owned())), ("cpu", KeyValue::Number(1))];
    let mut report = fixtures::report(vec![group(&key, Class::Wakeup, [9_100, 3_100_000, 830])]);
    report.groups[0].worst = vec![fixtures::wait()];
    report.groups[0].wakers = [(77, Comm::new(b"bash"))].into();
    report.coverage.wakeups = CoverageTerms {
        seen: 15,
        carried: 1,
        measured: 3,
        already_running: 4,
        already_queued: 1,
        filtered: 5,
        below_threshold: 2,
        still_waiting: 2,
        ..CoverageTerms::default()
    };
    report.coverage.preemptions = Some(CoverageTerms { seen: 7, filtered: 7, ..CoverageTerms::default() });
    report.coverage.oldest_waiting =
        Some(Maximum { latency_ns: 1_200_000_000, at_ns: 0, tid: 4711, comm: Comm::new(b"cc1plus"), cpu: 0 });
    report.threshold = Some(Threshold { threshold_ns: 1_000_000, over: 1 });
    let programs = ProgramTime { ns: 8_200_000, switches: 200_000, accounted_ns: 100_000_000 };
    report.overhead = Some(Overhead { cpus: 2, tool_ns: 7_800_000, programs: Some(programs) });
    report.sampling = Some(Sampling { limit_ppm: 5_000, one_in_least: 1, one_in_most: 8, measured_ns: 10_000_000_000 });
    report
}

fn written_report() -> String {
    let mut out = Vec::new();
    OutputFormat::Json.reports(ReportView::Chart, &[], Style::default()).report(&report(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn written_wait() -> String {
    let mut out = Vec::new();
    let context = RenderContext { unix_offset_ns: report().unix_offset_ns, name_of: &|_| Some(Comm::new(b"bash")) };
    OutputFormat::Json.waits(Style::default()).wait(&fixtures::wait(), &context, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn written_event() -> String {
    let mut out = Vec::new();
    let context = RenderContext { unix_offset_ns: report().unix_offset_ns, name_of: &|_| Some(Comm::new(b"bash")) };
    let event = stays::tests::slice(1, 1234, 120_500, PrevState::Sleeping);
    OutputFormat::Json.events(&[], Style::default()).event(&event, &context, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The part of the page below the heading `title`.
fn section(title: &str) -> &'static str {
    let (_, below) = PAGE.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no `## {title}`"));
    below.split("\n## ").next().unwrap()
}

pub(crate) fn example(title: &str) -> Value {
    let (_, from) = section(title).split_once("```json\n").unwrap();
    parsed(from.split_once("```").unwrap().0)
}

/// The names in the first column of the tables of a section.
pub(crate) fn documented(title: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section(title).lines().filter_map(name).collect()
}

/// The paths of all fields: `groups[].key`. What keys and percentiles there are depends on what was asked for, and the longest
/// waits have the fields of a wait.
fn paths(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(_)
            if ["groups[].key", "groups[].worst[]", "coverage.preemptions"].contains(&path)
                || path.ends_with("percentiles_ns") => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                all.insert(path.clone());
                paths(value, &path, all);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| paths(value, &format!("{path}[]"), all)),
        _ => {}
    }
}

pub(crate) fn all_paths(value: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    paths(value, "", &mut all);
    all
}

#[test]
fn the_example_of_a_report_is_what_is_written() {
    let written = written_report();
    assert_eq!(example("Reports: `wakelat.report/1`"), parsed(&written), "written: {written}");
}

#[test]
fn the_example_of_a_wait_is_what_is_written() {
    let written = written_wait();
    assert_eq!(example("Waits: `wakelat.wait/1`"), parsed(&written), "written: {written}");
}

#[test]
fn the_example_of_an_event_is_what_is_written() {
    let written = written_event();
    assert_eq!(example("Events: `wakelat.event/1`"), parsed(&written), "written: {written}");
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_written() {
    assert_eq!(documented("Reports: `wakelat.report/1`"), all_paths(&parsed(&written_report())));
    assert_eq!(documented("Waits: `wakelat.wait/1`"), all_paths(&parsed(&written_wait())));
    assert_eq!(documented("Events: `wakelat.event/1`"), all_paths(&parsed(&written_event())));
}

#[test]
fn every_column_is_documented_in_its_order() {
    let page = section("CSV");
    let line = |columns: String| format!("\n```csv\n{columns}\n```\n");
    let of_groups = csv::CsvReports::new(&["comm", "cpu"], ReportView::Chart).columns().join(",");
    assert!(page.contains(&line(of_groups.clone())), "{of_groups}");
    let of_waits = csv::WAIT_COLUMNS.join(",");
    assert!(page.contains(&line(of_waits.clone())), "{of_waits}");
    let of_accounts = csv::breakdown_columns().join(",");
    assert!(page.contains(&line(of_accounts.clone())), "{of_accounts}");
    let of_events = csv::EVENT_COLUMNS.join(",");
    assert!(page.contains(&line(of_events.clone())), "{of_events}");
}

#[test]
fn the_example_keeps_the_identity() {
    assert_eq!(report().coverage.wakeups.unaccounted(), 0);
    assert_eq!(report().coverage.preemptions.unwrap().unaccounted(), 0);
}
