//! The text of a saved trace of the timerlat and osnoise tracers.

use wakelat_core::osnoise_tracers::{
    osnoise_summary::NoiseSummary,
    render::{self, LatencyDisplay},
    summary::{TimerlatSummaryBuilder, TimerlatSummaryOptions},
    text::{RESOLUTION_NS, TraceItem, TraceReader},
};
use wakelat_core::render::Style;

/// Parses any bytes as a trace and shows what the parser accepts: nothing may panic, and the shares of every
/// activation add up to its latency. Returns the number of records.
pub fn check(bytes: &[u8]) -> usize {
    let mut builder = TimerlatSummaryBuilder::new(TimerlatSummaryOptions {
        threshold_ns: None,
        worst: 2,
        resolution_ns: RESOLUTION_NS,
        period_ns: None,
        bins: None,
        is_live: false,
    });
    let mut noise = NoiseSummary::default();
    let mut trace = TraceReader::new(bytes);
    let mut accepted = 0;
    while let Some(item) = trace.next().expect("reading from memory does not fail") {
        match item {
            Ok(TraceItem::Record(record)) => {
                accepted += 1;
                noise.push(&record);
                for one in builder.push(record) {
                    let sum: u128 = one.shares.iter().map(|share| u128::from(share.ns)).sum();
                    assert_eq!(sum, u128::from(one.latency_ns));
                }
            }
            Ok(TraceItem::Lost { cpu, events }) => {
                noise.lost(cpu, events);
                builder.lost(cpu, events);
            }
            Ok(TraceItem::Overwritten(_) | TraceItem::Other) => {}
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    let (summary, _) = builder.end();
    let sum: u128 = summary.shares.values().map(|sum| sum.ns).sum();
    assert_eq!(sum, summary.explained_ns);
    let (style, display) = (Style::default(), LatencyDisplay { nano: false, irq: true, thread: true });
    for text in [
        render::why::text(&summary, &style),
        render::hist::text(&summary, display, &style),
        render::top::text(&summary, display, &style),
        render::osnoise::top(&noise, &style),
        render::osnoise::hist(&noise, &style),
    ] {
        assert!(text.is_ascii());
    }
    assert!(render::json(&summary, &summary.worst).is_ok() && render::noise_json(&noise).is_ok());
    accepted
}
