//! Holds what is written against docs/schema and docs/output.md, so that neither can change without the other.

use super::{
    NoiseView, TimerlatView, csv,
    tests::{noise_of, summary_of},
};
use crate::osnoise_tracers::{
    fixtures,
    osnoise_summary::NoiseSummary,
    record::{OsnoisePeriod, TimerlatEvent, TimerlatRecord},
};

/// A run: the second example of the tracer's documentation, and a loss.
fn timerlat() -> String {
    let text = format!("CPU:0 [LOST 12 EVENTS]\n{}", fixtures::DOCUMENTATION[1]);
    let summary = summary_of(&text, None);
    super::json(&summary, &summary.worst).unwrap()
}

/// A run: a period, with one of its noises traced.
fn osnoise() -> String {
    let mut summary: NoiseSummary = noise_of("CPU:0 [LOST 12 EVENTS]\n");
    let gap = TimerlatEvent::SampleThreshold { start_ns: 6_256_892_464, duration_ns: 13_460, interference: 0 };
    let period = OsnoisePeriod {
        runtime_ns: 1_000_000_000,
        noise_ns: 250_000_000,
        max_single_ns: 5_654_000,
        hw: 313,
        nmi: 0,
        irq: 135,
        softirq: 0,
        thread: 34,
    };
    for (at_ns, event) in [(6_257_015_000, gap), (7_257_015_000, TimerlatEvent::Osnoise(period))] {
        summary.push(&TimerlatRecord { at_ns, cpu: 0, task: None, event });
    }
    super::noise_json(&summary).unwrap()
}

#[test]
fn what_is_written_is_valid_by_its_schema() {
    for written in [timerlat(), osnoise()] {
        assert_eq!(json_schemas::assert_valid(&written), 1, "{written}");
    }
    for (kernel, text) in fixtures::CAPTURES {
        let summary = summary_of(text, Some(1));
        assert!(summary.explained > 0, "{kernel}");
        json_schemas::assert_valid(&super::json(&summary, &summary.worst).unwrap());
        json_schemas::assert_valid(&super::noise_json(&noise_of(text)).unwrap());
    }
}

#[test]
fn every_column_is_documented_in_its_order() {
    let page = include_str!("../../../../docs/output.md");
    let views = [TimerlatView::Hist, TimerlatView::Top, TimerlatView::Trace, TimerlatView::Why].map(csv::columns);
    for columns in views.into_iter().chain([NoiseView::Hist, NoiseView::Top].map(csv::noise_columns)) {
        let columns = columns.join(",");
        assert!(page.contains(&format!("\n```csv\n{columns}\n```\n")), "{columns}");
    }
}
