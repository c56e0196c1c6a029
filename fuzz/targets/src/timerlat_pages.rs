//! Pages of the trace buffer of the timerlat and osnoise tracers.

use wakelat_core::{
    osnoise_tracers::{
        osnoise_summary::NoiseSummary,
        record::TimerlatRecord,
        render,
        summary::{TimerlatSummaryBuilder, TimerlatSummaryOptions},
    },
    render::Style,
};
use wakelat_kernel::event_format::EventFormat;
use wakelat_tracefs::osnoise_tracers::{
    local_clock::LocalClock, page::PageLayout, record_decoder::Layouts, trace_text_writer,
};

/// Decodes any bytes as pages of the trace buffer, in any layout: nothing may panic, and every decoded record can be
/// shown and written. Returns the number of records.
///
/// The input is the kernel's text, each part ended by a NUL: `header_page`, the `format` files, an empty one; then the
/// pages.
pub fn check(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    let mut text = || {
        let (text, after) = rest.split_at(rest.iter().position(|byte| *byte == 0)?);
        rest = &after[1..];
        std::str::from_utf8(text).ok()
    };
    let Some(Ok(form)) = text().map(PageLayout::parse) else { return 0 };
    let mut layouts = Layouts::default();
    while let Some(format) = text().filter(|text| !text.is_empty()) {
        if let Ok(format) = EventFormat::parse(format) {
            layouts.add(format);
        }
    }
    let mut clock = LocalClock::default();
    let mut builder = TimerlatSummaryBuilder::new(TimerlatSummaryOptions {
        threshold_ns: None,
        worst: 2,
        resolution_ns: 1,
        period_ns: None,
        bins: None,
        is_live: false,
    });
    let mut noise = NoiseSummary::default();
    let mut accepted = 0;
    for (cpu, page) in (0..).zip(rest.chunks(form.size.max(1))) {
        let read = match form.read(page) {
            Ok(read) => read,
            Err(error) => {
                assert!(error.at <= form.size.max(page.len()), "{error}");
                continue;
            }
        };
        for (at_ns, record) in read.records {
            let Some(decoded) = layouts.decode(cpu, at_ns, record, &mut clock) else { continue };
            let record = TimerlatRecord { at_ns, cpu, task: None, event: decoded.event };
            accepted += 1;
            trace_text_writer::write(&record, &mut std::io::sink()).expect("io::sink() accepts all writes");
            noise.push(&record);
            for one in builder.push(record) {
                let sum: u128 = one.shares.iter().map(|share| u128::from(share.ns)).sum();
                assert_eq!(sum, u128::from(one.latency_ns));
            }
        }
    }
    let (summary, _) = builder.end();
    let style = Style::default();
    for text in [render::why::text(&summary, &style), render::osnoise::top(&noise, &style)] {
        assert!(text.is_ascii());
    }
    assert!(render::json(&summary, &summary.worst).is_ok() && render::noise_json(&noise).is_ok());
    accepted
}
