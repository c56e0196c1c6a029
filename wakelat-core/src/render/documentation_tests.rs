//! Compares the examples and columns in docs/output.md with what the renderers write, so that neither can change without
//! the other. Of fields, docs/schema has the description.

use std::collections::BTreeMap;

use wakelat_common::{Class, pending_wait::PrevState};

use super::{
    OutputFormat, RenderContext, ReportView, Style, csv,
    output_md::{example, parsed, section},
    testing::{self, group},
    timehist_table,
};
use crate::{
    aggregate::distribution::Maximum,
    report::{CoverageTerms, KeyValue, Overhead, ProgramTime, Report, Sampling, Threshold},
    wait::Comm,
};

/// The report that docs/output.md shows. Every field has a value.
fn report() -> Report {
    let key = [("comm", KeyValue::Text("nginx".to_owned())), ("cpu", KeyValue::Number(1))];
    let mut report = testing::report(vec![group(&key, Class::Wakeup, [9_100, 3_100_000, 830])]);
    report.groups[0].worst = vec![testing::wait()];
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
    let programs = ProgramTime { ns: 8_200_000, switches: 200_000, timed_runs: 6_200 };
    report.overhead = Some(Overhead { cpus: 2, tool_ns: 7_800_000, programs });
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
    let names = BTreeMap::from([(77, Comm::new(b"bash"))]);
    let context = RenderContext { unix_offset_ns: report().unix_offset_ns, names: &names };
    OutputFormat::Json.waits(Style::default()).wait(&testing::wait(), &context, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn written_event() -> String {
    let mut out = Vec::new();
    let names = BTreeMap::from([(77, Comm::new(b"bash"))]);
    let context = RenderContext { unix_offset_ns: report().unix_offset_ns, names: &names };
    let event = timehist_table::tests::slice(1, 1234, 120_500, PrevState::Sleeping);
    OutputFormat::Json.events(&[], Style::default()).event(&event, &context, &mut out).unwrap();
    String::from_utf8(out).unwrap()
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
fn every_column_is_documented_in_its_order() {
    let page = section("CSV");
    let line = |columns: String| format!("\n```csv\n{columns}\n```\n");
    let of_groups = csv::CsvReports::new(&["comm", "cpu"], ReportView::Chart, false).columns().join(",");
    assert!(page.contains(&line(of_groups.clone())), "{of_groups}");
    let of_waits = csv::WAIT_COLUMNS.join(",");
    assert!(page.contains(&line(of_waits.clone())), "{of_waits}");
    let of_breakdowns = csv::breakdown_columns(false).join(",");
    assert!(page.contains(&line(of_breakdowns.clone())), "{of_breakdowns}");
    let of_events = csv::EVENT_COLUMNS.join(",");
    assert!(page.contains(&line(of_events.clone())), "{of_events}");
}

#[test]
fn the_counters_of_the_example_add_up() {
    assert_eq!(report().coverage.wakeups.unaccounted(), 0);
    assert_eq!(report().coverage.preemptions.unwrap().unaccounted(), 0);
}
