//! Tests of all renderers: snapshots to look at, and the text for particular reports.

use std::{collections::BTreeMap, sync::Arc};

use wakelat_common::Class;

use super::{
    schema_tests::text_of,
    testing::{comm, group, report, usual, wait},
    *,
};
use crate::{
    aggregate::{distribution::Maximum, estimate::Period},
    report::{CoverageTerms, KeyValue, LatencyFrom, Mode, Overhead, ProgramTime, Sampling, Threshold},
    wait::Comm,
};

pub(super) fn terminal(width: usize) -> Style {
    Style { width, unicode: true, terminal: true, ..Style::default() }
}

pub(super) fn ascii(width: usize) -> Style {
    Style { unicode: false, ..terminal(width) }
}

pub(super) fn show(format: OutputFormat, view: ReportView, report: &Report, style: Style) -> String {
    let mut out = Vec::new();
    let mut renderer = format.reports(view, &["comm"], style);
    renderer.head(&mut out).unwrap();
    renderer.report(report, &mut out).unwrap();
    text_of(format, out)
}

pub(super) fn chart(report: &Report, style: Style) -> String {
    show(OutputFormat::Human, ReportView::Chart, report, style)
}

pub(super) fn table(report: &Report, sort: top_table::Sort, limit: Option<usize>, style: Style) -> String {
    show(OutputFormat::Human, ReportView::Table { sort, limit }, report, style)
}

pub(super) fn trace(format: OutputFormat, waits: &[Wait], report: &Report, style: Style) -> String {
    let names = BTreeMap::from([(77, Comm::new(b"bash"))]);
    let context = RenderContext { unix_offset_ns: report.unix_offset_ns, names: &names };
    let mut out = Vec::new();
    let mut renderer = format.waits(style);
    renderer.head(&mut out).unwrap();
    waits.iter().for_each(|wait| renderer.wait(wait, &context, &mut out).unwrap());
    renderer.end(report, &mut out).unwrap();
    text_of(format, out)
}

fn usual_report() -> Report {
    report(vec![group(&comm("nginx"), Class::Wakeup, usual(204_723, 9_000))])
}

pub(super) fn many_groups(groups: u64) -> Report {
    let names = ["nginx", "postgres", "kworker/u16:3-ev", "ksoftirqd/0", "rcu_preempt", "sshd", "systemd-journal"];
    let name = |n: u64| match names.get(n as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("worker-{n}"),
    };
    report(
        (0..groups).map(|n| group(&comm(&name(n)), Class::Wakeup, usual(4_000 / (n + 1), 4_000 + 1_000 * n))).collect(),
    )
}

fn lossy() -> Report {
    let mut report = usual_report();
    let wakeups = &mut report.coverage.wakeups;
    wakeups.seen = 394_536;
    wakeups.carried = 3;
    wakeups.already_running = 188_000;
    wakeups.already_queued = 12;
    wakeups.filtered = 1_000;
    wakeups.below_threshold = 400;
    wakeups.task_table_full = 60;
    wakeups.ring_buffer_full = 712;
    wakeups.invalid = 1;
    wakeups.missed_switch = 2;
    wakeups.still_waiting = 4;
    report.coverage.preemptions =
        Some(CoverageTerms { seen: 1_010, measured: 1_000, ring_buffer_full: 10, ..CoverageTerms::default() });
    report.coverage.missed = Some(17);
    report.coverage.events_lost = Some(2_000);
    report.coverage.groups_merged = 5;
    report.coverage.oldest_waiting =
        Some(Maximum { latency_ns: 1_234_567_890, at_ns: 0, tid: 4711, comm: Comm::new(b"cc1plus"), cpu: 0 });
    report.threshold = Some(Threshold { threshold_ns: 1_000_000, over: 612 });
    report
}

pub(super) fn waits() -> Vec<Wait> {
    let usual = wait();
    let new = Wait {
        class: Class::New,
        at_ns: usual.at_ns + 1_000_000,
        latency_ns: 999_950,
        delivery_ns: None,
        tid: 1_234_567,
        pid: 1_234_560,
        comm: Comm::new(b"kworker/u16:12-"),
        cpu: 127,
        waker_tid: None,
        prev_tid: 0,
        prev_comm: Comm::new(b"swapper/127"),
        ..usual
    };
    let hostile = Wait {
        class: Class::Preempted,
        at_ns: usual.at_ns + 2_000_000,
        latency_ns: 15_000_000_000,
        delivery_ns: None,
        tid: 99,
        pid: 99,
        comm: Comm::new(b"\x1b[2Ja\xff\",b"),
        waker_tid: None,
        policy: 6,
        prio: -1,
        ..usual
    };
    let woken_by_unknown = Wait { at_ns: usual.at_ns + 3_000_000, waker_tid: Some(78), ..usual };
    vec![usual, new, hostile, woken_by_unknown]
}

#[test]
fn charts_of_a_typical_distribution() {
    insta::assert_snapshot!("chart_120", chart(&usual_report(), terminal(120)));
    insta::assert_snapshot!("chart_80", chart(&usual_report(), terminal(80)));
    insta::assert_snapshot!("chart_60", chart(&usual_report(), terminal(60)));
    insta::assert_snapshot!("chart_44", chart(&usual_report(), terminal(44)));
    insta::assert_snapshot!("chart_ascii", chart(&usual_report(), ascii(80)));
}

#[test]
fn charts_of_unusual_distributions() {
    insta::assert_snapshot!("chart_single_value", chart(&report(vec![group(&[], Class::New, [12_345])]), terminal(80)));
    let narrow = group(&[], Class::Wakeup, usual(1_000, 30_000).into_iter().map(|ns| 20_000 + ns % 8_000));
    insta::assert_snapshot!("chart_few_octaves", chart(&report(vec![narrow]), terminal(80)));
    let outlier = group(&comm("cc1plus"), Class::Preempted, usual(50_000, 3_000).into_iter().chain([15_000_000_000]));
    insta::assert_snapshot!("chart_outlier", chart(&report(vec![outlier]), terminal(80)));
    let mut waking = report(vec![group(&[], Class::Wakeup, 0..20), group(&[], Class::Preempted, [0, u64::MAX])]);
    waking.from = LatencyFrom::Waking;
    insta::assert_snapshot!("chart_small_and_largest", chart(&waking, terminal(100)));
}

#[test]
fn charts_of_many_groups() {
    insta::assert_snapshot!("chart_many_groups", chart(&many_groups(13), terminal(80)));
}

#[test]
fn a_window_shows_its_start_time_with_timestamps() {
    let style = Style { timestamps: true, ..terminal(80) };
    assert!(chart(&usual_report(), style.clone()).starts_with("2023-11-14 22:13:20  for 10.0 s\n"));
    assert!(table(&usual_report(), top_table::Sort::Max, None, style).starts_with("2023-11-14 22:13:20  for 10.0 s\n"));
}

#[test]
fn losses_are_shown() {
    let report = lossy();
    let mut text = String::new();
    for style in [terminal(100), ascii(44)] {
        coverage::render(&report, &style, &mut text);
        text.push('\n');
    }
    insta::assert_snapshot!("coverage_losses", text);
}

#[test]
fn a_report_aggregated_in_the_kernel_says_so() {
    let mut report = usual_report();
    assert!(!chart(&report, terminal(120)).contains("aggregated in the kernel"));
    report.mode = Mode::Aggregate;
    assert!(chart(&report, terminal(120)).contains("aggregated in the kernel: percentiles are at most 3.2 % too high"));
}

#[test]
fn t17_every_loss_has_a_warning_that_names_it() {
    type Loss = fn(&mut CoverageTerms);
    let losses: [(Loss, &str); 6] = [
        (|terms| terms.task_table_full = 7, "task table was full"),
        (|terms| terms.ring_buffer_full = 7, "ring buffer"),
        (|terms| terms.invalid = 7, "invalid"),
        (|terms| terms.missed_switch = 7, "missed switch"),
        (|terms| terms.seen += 7, "unaccounted for"),
        (|terms| terms.seen -= 7, "more accounted for than seen"),
    ];
    for (lose, word) in losses {
        let mut report = usual_report();
        lose(&mut report.coverage.wakeups);
        let text = chart(&report, terminal(120));
        let warning = text.lines().find(|line| line.starts_with("! ") && line.contains(word));
        assert!(warning.is_some_and(|line| line.contains('7')), "{text}");
    }
    assert!(!chart(&usual_report(), terminal(120)).contains('!'));
}

#[test]
fn percentiles_of_sampled_tasks_have_confidence_intervals() {
    let waits = usual(20_000, 9_000);
    let mut report = report(vec![group(&comm("nginx"), Class::Wakeup, waits.iter().copied())]);
    for (index, latency_ns) in waits.into_iter().enumerate() {
        Arc::make_mut(&mut report.groups[0].distribution).record_sampled(
            index as u32 % 200,
            3,
            Period::FIRST,
            latency_ns,
        );
    }
    report.sampling = Some(Sampling { limit_ppm: 5_000, one_in_least: 8, one_in_most: 8, measured_ns: 10_000_000_000 });
    report.coverage.wakeups.seen += 140_000;
    report.coverage.wakeups.not_sampled = 140_000;
    report.overhead = Some(Overhead {
        cpus: 2,
        tool_ns: 100_000_000,
        programs: ProgramTime { ns: 60_000_000, switches: 1_500_000, timed_runs: 46_500 },
    });
    insta::assert_snapshot!(
        "sampled",
        chart(&report, terminal(120)) + &table(&report, top_table::Sort::Max, None, terminal(120))
    );
    let sampling = report.sampling.as_mut().expect("the report is sampled");
    sampling.measured_ns = 2_300_000_000;
    (report.coverage.wakeups.still_waiting, report.coverage.wakeups.paused) = (5, 3);
    let text = chart(&report, terminal(240));
    for expected in ["1 task in 8, 23.0 % of the time, at random", ", 2 still waiting, 3 waiting when a pause began"] {
        assert!(text.contains(expected), "no `{expected}` in {text}");
    }
}

#[test]
fn t16_missed_events_are_shown_and_so_is_an_unknown_number_of_them() {
    let mut report = usual_report();
    report.coverage.missed = Some(17);
    assert!(chart(&report, terminal(120)).contains("! 17 events missed"));
    report.coverage.missed = None;
    assert!(chart(&report, terminal(120)).contains("missed events not counted by this kernel"));
}

#[test]
fn a_report_without_waits_says_why() {
    let mut empty = report(Vec::new());
    empty.coverage.wakeups = CoverageTerms::default();
    let first = |report: &Report| chart(report, terminal(100)).lines().next().unwrap().to_owned();
    assert_eq!(first(&empty), "no wakeup was seen in 10.0 s");
    empty.coverage.wakeups = CoverageTerms { seen: 12_345, filtered: 12_345, ..CoverageTerms::default() };
    assert_eq!(first(&empty), "no wakeup matched the filter; it excluded 12,345");
    empty.coverage.wakeups =
        CoverageTerms { seen: 50, filtered: 12, below_threshold: 12, already_running: 38, ..CoverageTerms::default() };
    empty.threshold = Some(Threshold { threshold_ns: 1_000_000, over: 0 });
    assert_eq!(first(&empty), "no wait reached the threshold of 1 ms; 12 were below it");
    empty.coverage.wakeups = CoverageTerms { seen: 50, already_running: 50, ..CoverageTerms::default() };
    assert_eq!(first(&empty), "no wakeup led to a wait that ended in this window");
    empty.coverage.preemptions = Some(CoverageTerms::default());
    empty.coverage.wakeups = CoverageTerms::default();
    assert_eq!(first(&empty), "no preemption was seen in 10.0 s");
    assert!(table(&empty, top_table::Sort::Max, None, terminal(80)).starts_with("no preemption was seen"));
    assert!(trace(OutputFormat::Human, &[], &empty, terminal(80)).contains("no preemption was seen"));
}

#[test]
fn tables_fit_the_terminal() {
    let mut report = many_groups(12);
    insta::assert_snapshot!("table_120", table(&report, top_table::Sort::Max, Some(8), terminal(120)));
    insta::assert_snapshot!("table_44", table(&report, top_table::Sort::Avg, Some(8), terminal(44)));
    report.groups.push(group(&comm("nginx"), Class::Preempted, usual(700, 90_000)));
    insta::assert_snapshot!("table_80_classes", table(&report, top_table::Sort::Waits, None, ascii(80)));
}

#[test]
fn tables_are_sorted_by_any_column() {
    let groups = vec![
        group(&comm("often"), Class::Wakeup, [10; 100]),
        group(&comm("late"), Class::Wakeup, [20, 900]),
        group(&comm("always"), Class::Wakeup, [400; 2]),
    ];
    let report = report(groups);
    let first = |sort| {
        let text = table(&report, sort, None, terminal(80));
        text.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    use top_table::Sort;
    assert_eq!(first(Sort::Waits), "often");
    assert_eq!(first(Sort::Avg), "late");
    assert_eq!(first(Sort::P50), "always");
    assert_eq!(first(Sort::P99), "late");
    assert_eq!(first(Sort::Max), "late");
    assert_eq!(first(Sort::Sum), "often");
    assert_eq!(first(Sort::Task), "always");
}

#[test]
fn traces_keep_their_columns() {
    let report = usual_report();
    insta::assert_snapshot!(
        "trace_pipe",
        trace(OutputFormat::Human, &waits(), &report, Style { terminal: false, ..ascii(80) })
    );
    insta::assert_snapshot!("trace_120", trace(OutputFormat::Human, &waits(), &report, terminal(120)));
    insta::assert_snapshot!("trace_80", trace(OutputFormat::Human, &waits(), &report, terminal(80)));
    let style = Style { timestamps: true, ..terminal(44) };
    insta::assert_snapshot!("trace_44", trace(OutputFormat::Human, &waits(), &report, style));
}

#[test]
fn csv_rows_have_the_columns_of_the_header() {
    let mut report = lossy();
    report.groups[0].key[0].value = KeyValue::Text("a,\"b\"\n".to_owned());
    let text = show(OutputFormat::Csv, ReportView::Chart, &report, Style::default());
    insta::assert_snapshot!("csv", text);
    let two = many_groups(2);
    for report in [report, usual_report(), two] {
        let text = show(OutputFormat::Csv, ReportView::Chart, &report, Style::default());
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.records().collect::<Result<Vec<_>, _>>().unwrap().len(), report.groups.len());
    }
}

#[test]
fn a_window_without_waits_is_a_row_of_csv_with_its_coverage() {
    let text = show(OutputFormat::Csv, ReportView::Chart, &report(Vec::new()), Style::default());
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let titles = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(|record| record.unwrap()).collect();
    assert_eq!(rows.len(), 1);
    let cell = |title| &rows[0][titles.iter().position(|is| is == title).unwrap()];
    assert_eq!(["class", "count", "min_ns", "p99_ns", "max_ns", "seen"].map(cell), ["", "0", "", "", "", "50"]);
}

#[test]
fn the_columns_of_a_csv_of_waits_are_the_fields_of_its_json() {
    let report = usual_report();
    let json = trace(OutputFormat::Json, &waits()[..1], &report, Style::default());
    let (line, _) = json.split_once(",\"at_ns\"").unwrap();
    assert_eq!(line, "{\"schema\":\"wakelat.wait/1\"");
    let names: Vec<_> = csv::WAIT_COLUMNS.iter().map(|name| json.find(&format!("\"{name}\":")).unwrap()).collect();
    assert!(names.is_sorted(), "{json}");
    let fields: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(fields.as_object().unwrap().len(), csv::WAIT_COLUMNS.len() + 1);

    let text = trace(OutputFormat::Csv, &waits(), &report, Style::default());
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap(), &csv::WAIT_COLUMNS[..]);
    let rows: Vec<_> = reader.records().map(|record| record.unwrap()).collect();
    assert_eq!(rows.len(), 4);
    for (name, cell) in csv::WAIT_COLUMNS.iter().zip(&rows[0]) {
        let field = &fields[*name];
        assert_eq!(cell, field.as_str().map_or(field.to_string(), str::to_owned), "{name}");
    }
    assert_eq!(&rows[2][7], "\\u{1b}[2Ja\\xff\",b");
}

#[test]
fn a_trace_in_json_ends_with_the_report() {
    let text = trace(OutputFormat::Json, &waits(), &usual_report(), Style::default());
    let schemas: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["schema"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(schemas, ["wakelat.wait/1", "wakelat.wait/1", "wakelat.wait/1", "wakelat.wait/1", "wakelat.report/1"]);
}

#[test]
fn a_sum_beyond_u64_stays_an_integer() {
    let text = show(
        OutputFormat::Json,
        ReportView::Chart,
        &report(vec![group(&[], Class::Wakeup, [u64::MAX; 3])]),
        Style::default(),
    );
    assert!(text.contains("\"sum_ns\":55340232221128654845,"), "{text}");
}

/// A writer that fails with `BrokenPipe`.
struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_format_reports_a_closed_pipe_as_broken_pipe() {
    for format in [OutputFormat::Human, OutputFormat::Json, OutputFormat::Csv] {
        let error = format
            .reports(ReportView::Chart, &[], Style::default())
            .report(&usual_report(), &mut ClosedPipe)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let context = RenderContext { unix_offset_ns: 0, names: &BTreeMap::new() };
        let error = format.waits(Style::default()).wait(&wait(), &context, &mut ClosedPipe).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let colour = |width| Style { colour: true, ..terminal(width) };
    for width in [44, 80, 120] {
        for report in [usual_report(), lossy(), many_groups(12)] {
            let painted = chart(&report, colour(width));
            assert!(painted.contains("\u{1b}[1m"));
            assert_eq!(without_escapes(&painted), chart(&report, terminal(width)));
        }
    }
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').unwrap().1)
}
