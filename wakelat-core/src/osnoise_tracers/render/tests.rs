use insta::assert_snapshot;

use super::*;
use crate::osnoise_tracers::{
    fixtures,
    linear::Bins,
    osnoise_summary::NoiseSummary,
    record::{TimerlatEvent, TimerlatRecord},
    summary::{TimerlatSummary, TimerlatSummaryBuilder, TimerlatSummaryOptions},
    text::{RESOLUTION_NS, TraceItem, TraceReader},
};
use crate::render::{Style, style::MIN_WIDTH, text_line::width};

pub(super) fn summary_of(text: &str, threshold_ns: Option<u64>) -> TimerlatSummary {
    let mut builder = TimerlatSummaryBuilder::new(TimerlatSummaryOptions {
        threshold_ns,
        worst: 3,
        resolution_ns: RESOLUTION_NS,
        ..TimerlatSummaryOptions::default()
    });
    let mut trace = TraceReader::new(text.as_bytes());
    while let Some(item) = trace.next().unwrap() {
        match item {
            Ok(TraceItem::Record(record)) => drop(builder.push(record)),
            Ok(TraceItem::Lost { cpu, events }) => builder.lost(cpu, events),
            Ok(_) => {}
            Err(error) => builder.coverage().foreign.add(error),
        }
    }
    builder.end().0
}

pub(super) fn noise_of(text: &str) -> NoiseSummary {
    let mut summary = NoiseSummary::default();
    let mut trace = TraceReader::new(text.as_bytes());
    while let Some(item) = trace.next().unwrap() {
        match item {
            Ok(TraceItem::Record(record)) => summary.push(&record),
            Ok(TraceItem::Lost { cpu, events }) => summary.lost(cpu, events),
            _ => {}
        }
    }
    summary
}

fn unicode(width: usize) -> Style {
    Style { unicode: true, width, ..Style::default() }
}

/// The capture of a kernel.
fn capture(name: &str) -> &'static str {
    fixtures::CAPTURES.iter().find(|(is, _)| *is == name).unwrap().1
}

#[test]
fn why_explains_the_examples_of_the_documentation() {
    for (index, text) in fixtures::DOCUMENTATION.iter().enumerate() {
        let summary = summary_of(text, None);
        assert_snapshot!(format!("why_{}", index + 1), why::text(&summary, &unicode(100)));
    }
    let summary = summary_of(fixtures::DOCUMENTATION[1], None);
    assert_snapshot!("why_2_ascii", why::text(&summary, &Style::default()));
    assert_snapshot!("why_2_narrow", why::text(&summary, &unicode(MIN_WIDTH)));
}

#[test]
fn the_documentation_shows_an_activation_as_rendered() {
    let summary = summary_of(fixtures::DOCUMENTATION[1], None);
    let mut rendered = String::new();
    why::activation(&summary.worst[0], &unicode(100), &mut rendered);
    for page in [include_str!("../../../../docs/examples.md"), include_str!("../../../../docs/timerlat.md")] {
        assert!(page.contains(&rendered), "{rendered}");
    }
}

#[test]
fn every_view_of_a_capture() {
    let summary = summary_of(capture("6.12-rt"), Some(200_000));
    assert_snapshot!("capture_why", why::text(&summary, &unicode(100)));
    assert_snapshot!("capture_hist", hist::text(&summary, LatencyDisplay::default(), &unicode(80)));
    assert_snapshot!("capture_top", top::text(&summary, LatencyDisplay::default(), &unicode(80)));
    assert_snapshot!("capture_top_narrow", top::text(&summary, LatencyDisplay::default(), &unicode(MIN_WIDTH)));
    for (name, columns, terminal) in [("file", 80, false), ("terminal", 80, true), ("narrow", MIN_WIDTH, true)] {
        let table = trace::ActivationLines::new(Style { terminal, ..unicode(columns) }, false);
        let lines: String = summary.worst.iter().map(|one| table.line(one)).collect();
        assert_snapshot!(format!("capture_trace_{name}"), table.head() + &lines);
    }
    let noise = noise_of(capture("7.2-rt"));
    assert_snapshot!("capture_osnoise_top", osnoise::top(&noise, &unicode(120)));
    assert_snapshot!("capture_osnoise_hist", osnoise::hist(&noise, &unicode(80)));
}

#[test]
fn a_histogram_of_the_cost_of_recording_has_a_warning() {
    let mut noise = NoiseSummary::default();
    for index in 0..200 {
        let event = TimerlatEvent::SampleThreshold { start_ns: index * 5_100, duration_ns: 5_100, interference: 0 };
        noise.push(&TimerlatRecord { at_ns: (index + 1) * 5_100, cpu: 0, task: None, event });
    }
    for text in [osnoise::hist(&noise, &unicode(80)), osnoise::top(&noise, &unicode(80))] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("warning: 199 of 200 single noises begin where the previous one ended"), "{text}");
        assert!(text.contains("`-T 11us` to leave them out"), "{text}");
    }
}

#[test]
fn a_histogram_without_noise_advises_what_helps_for_its_source() {
    let mut noise = NoiseSummary::default();
    let text = osnoise::hist(&noise, &unicode(400));
    assert!(text.contains("events/osnoise/sample_threshold/enable"), "{text}");
    noise.is_live = true;
    let text = osnoise::hist(&noise, &unicode(400));
    assert!(text.contains("count shorter noises (`-T`)") && !text.contains("tracefs"), "{text}");
}

#[test]
fn why_without_noise_advises_what_helps_for_its_source() {
    let mut summary = summary_of("", None);
    let text = why::text(&summary, &unicode(400));
    assert!(text.contains("`echo 1 > events/osnoise/enable` in tracefs"), "{text}");
    summary.options.is_live = true;
    let text = why::text(&summary, &unicode(400));
    assert!(text.contains("measure longer (`-d`)") && !text.contains("tracefs"), "{text}");
}

#[test]
fn noise_that_is_left_out_is_reported() {
    let mut summary = summary_of(fixtures::DOCUMENTATION[1], None);
    summary.worst[0].activation.noise_left_out = 1_234;
    summary.coverage.noise_left_out = 1_235;
    let text = why::text(&summary, &unicode(400));
    assert!(text.contains("warning: 1,234 noise records of this activation left out"), "{text}");
    assert!(text.contains("warning: 1,235 noise records left out, because wakelat keeps only the first 16,384 of"));
    let document: serde_json::Value = serde_json::from_str(&json(&summary, &summary.worst).unwrap()).unwrap();
    assert_eq!(document["activations"][0]["noise_left_out"], 1_234);
    assert_eq!(document["coverage"]["noise_left_out"], 1_235);
}

#[test]
fn missed_events_are_reported_and_their_number_is_null_if_no_program_read_events() {
    let mut summary = summary_of(fixtures::DOCUMENTATION[1], None);
    for (missed, is_warned) in [(Some(17), true), (Some(0), false), (None, false)] {
        summary.coverage.missed = missed;
        let text = why::text(&summary, &unicode(400));
        assert_eq!(text.contains("warning: 17 events missed, on unknown CPUs"), is_warned, "{text}");
        let document: serde_json::Value = serde_json::from_str(&json(&summary, &summary.worst).unwrap()).unwrap();
        assert_eq!(document["coverage"]["missed"], serde_json::json!(missed));
    }
}

#[test]
fn the_counts_of_a_histogram_are_exact() {
    let mut noise = NoiseSummary::default();
    for index in 0..12_345 {
        let event = TimerlatEvent::SampleThreshold { start_ns: index * 10_000, duration_ns: 5_000, interference: 0 };
        noise.push(&TimerlatRecord { at_ns: index * 10_000 + 5_000, cpu: 0, task: None, event });
    }
    let text = osnoise::hist(&noise, &unicode(80));
    assert!(text.contains("count:        12,345") && !text.contains("12.3k"), "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_ascii_is_ascii() {
    for (_, text) in fixtures::CAPTURES {
        let (summary, noise) = (summary_of(text, Some(100_000)), noise_of(text));
        for columns in [MIN_WIDTH, 60, 80, 132] {
            let style = Style { width: columns, terminal: true, ..Style::default() };
            let views = [
                why::text(&summary, &style),
                hist::text(&summary, LatencyDisplay::default(), &style),
                top::text(&summary, LatencyDisplay::default(), &style),
                trace::ActivationLines::new(style.clone(), true).head(),
                summary.worst.iter().map(|one| trace::ActivationLines::new(style.clone(), true).line(one)).collect(),
                osnoise::top(&noise, &style),
                osnoise::hist(&noise, &style),
            ];
            for line in views.iter().flat_map(|view| view.lines()) {
                // A word that is longer than a line is on a line of its own.
                let words = line.split(' ').filter(|word| !word.is_empty()).count();
                assert!(width(line) <= columns || words <= 2, "{columns}: {line}");
                assert!(line.is_ascii(), "{line}");
            }
        }
    }
}

#[test]
fn names_are_not_cut_on_a_narrow_terminal() {
    let text = why::text(&summary_of(fixtures::DOCUMENTATION[1], None), &unicode(MIN_WIDTH));
    for name in ["cc1/87882", "local_timer:236", "qxl:21"] {
        assert!(text.lines().filter(|line| line.trim_start().starts_with(name)).count() >= 2, "{name}: {text}");
    }
}

#[test]
fn a_report_opens_with_its_finding() {
    let text = why::text(&summary_of(fixtures::DOCUMENTATION[2], None), &unicode(400));
    let evidence = "97.5 % of all latency (838.7 µs of 860.0 µs) is `insmod/1026`, which was running when the timer IRQ came and kept the CPU";
    assert!(text.starts_with(&format!("▸ {evidence}")), "{text}");
    assert!(text.contains("  remedy: find where it disables preemption"), "{text}");
}

#[test]
fn a_histogram_with_buckets_of_equal_width_is_that_of_rtla() {
    let bins = Some(Bins { width_ns: 2_000, entries: 5 });
    let mut builder = TimerlatSummaryBuilder::new(TimerlatSummaryOptions {
        resolution_ns: RESOLUTION_NS,
        bins,
        ..TimerlatSummaryOptions::default()
    });
    let mut trace = TraceReader::new(fixtures::DOCUMENTATION[0].as_bytes());
    while let Some(item) = trace.next().unwrap() {
        if let Ok(TraceItem::Record(record)) = item {
            builder.push(record);
        }
    }
    let (summary, _) = builder.end();
    let only_threads = LatencyDisplay { irq: false, ..LatencyDisplay::default() };
    assert_snapshot!("hist_linear", hist::text(&summary, LatencyDisplay::default(), &unicode(80)));
    assert_snapshot!(
        "hist_linear_threads_nano",
        hist::text(&summary, LatencyDisplay { nano: true, ..only_threads }, &unicode(80))
    );
    assert_snapshot!(
        "top_nano",
        top::text(&summary, LatencyDisplay { nano: true, ..LatencyDisplay::default() }, &unicode(80))
    );
}

#[test]
fn rows_of_activations_add_up_and_all_rows_of_a_table_have_the_same_columns() {
    for (name, text) in fixtures::CAPTURES {
        let (summary, noise) = (summary_of(text, None), noise_of(text));
        let rows = csv::activations(&summary.worst).unwrap();
        let of = |row: &str, from: usize, to: usize| -> u64 {
            row.split(',').skip(from).take(to - from).map(|cell| cell.parse::<u64>().unwrap()).sum()
        };
        let columns = csv::columns(TimerlatView::Trace).len();
        for row in rows.lines() {
            assert_eq!(of(row, 8, columns - 1), of(row, 3, 4), "{name}: {row}");
        }
        let tables =
            [TimerlatView::Hist, TimerlatView::Top, TimerlatView::Why].map(|view| csv::run(view, &summary).unwrap());
        let noises = [NoiseView::Hist, NoiseView::Top].map(|view| csv::noise(view, &noise).unwrap());
        for table in tables.iter().chain(&noises) {
            let widths: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
            assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {table}");
        }
        let counted: u64 = tables[0].lines().skip(1).map(|row| of(row, 4, 5)).sum();
        let count = |context| summary.all.of(context).count();
        assert_eq!(
            counted,
            count(TimerlatContext::Irq) + count(TimerlatContext::Thread) + count(TimerlatContext::User),
            "{name}"
        );
    }
}
