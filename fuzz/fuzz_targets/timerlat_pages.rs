//! Any bytes as pages of the trace buffer, in any layout: nothing may panic, and what they say can be shown and written.
//!
//! The input is text of the kernel's, each ended by a NUL: `header_page`, the `format` files, an empty one; then the pages.
//!
//! `cargo +nightly fuzz run timerlat_pages fuzz/corpus/timerlat_pages wakelat/src/timerlat/fixtures/pages -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelat::{
    kernel::format::Format,
    sink::Style,
    timerlat::{
        live::{clock::LocalClock, layout::Layouts, page::PageForm, trace_text},
        noise::NoiseSummary,
        record::Record,
        sink,
        summary::{Rules, Summing},
    },
};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut text = || {
        let (text, after) = rest.split_at(rest.iter().position(|byte| *byte == 0)?);
        rest = &after[1..];
        std::str::from_utf8(text).ok()
    };
    let Some(Ok(form)) = text().map(PageForm::parse) else { return };
    let mut layouts = Layouts::default();
    while let Some(format) = text().filter(|text| !text.is_empty()) {
        if let Ok(format) = Format::parse(format) {
            layouts.add(format);
        }
    }
    let mut clock = LocalClock::default();
    let mut summing = Summing::new(Rules { threshold_ns: None, worst: 2, resolution_ns: 1 });
    let mut noise = NoiseSummary::default();
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
            let record = Record { at_ns, cpu, task: None, event: decoded.event };
            trace_text::write(&record, &mut std::io::sink()).expect("nobody refuses it");
            noise.push(&record);
            for one in summing.push(record) {
                let sum: u128 = one.shares.iter().map(|share| u128::from(share.ns)).sum();
                assert_eq!(sum, u128::from(one.latency_ns));
            }
        }
    }
    let (summary, _) = summing.end();
    let style = Style::default();
    for text in [sink::why::text(&summary, &style), sink::osnoise::top(&noise, &style)] {
        assert!(text.is_ascii());
    }
    assert!(sink::json(&summary, &summary.worst).is_ok() && sink::noise_json(&noise).is_ok());
});
