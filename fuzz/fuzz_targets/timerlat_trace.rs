//! Any bytes through the parser of traces and, what it accepts, through everything that shows it: nothing may panic,
//! and the shares of every activation add up to its latency.
//!
//! `cargo +nightly fuzz run timerlat_trace fuzz/corpus/timerlat_trace wakelat/src/timerlat/fixtures -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelat::{
    sink::Style,
    timerlat::{
        noise::NoiseSummary,
        sink,
        summary::{Rules, Summing},
        text::{RESOLUTION_NS, Said, Trace},
    },
};

fuzz_target!(|bytes: &[u8]| {
    let mut summing = Summing::new(Rules { threshold_ns: None, worst: 2, resolution_ns: RESOLUTION_NS });
    let mut noise = NoiseSummary::default();
    let mut trace = Trace::new(bytes);
    while let Some(said) = trace.next().expect("bytes in memory can be read") {
        match said {
            Ok(Said::Record(record)) => {
                noise.push(&record);
                for one in summing.push(record) {
                    let sum: u128 = one.shares.iter().map(|share| u128::from(share.ns)).sum();
                    assert_eq!(sum, u128::from(one.latency_ns));
                }
            }
            Ok(Said::Lost { cpu, events }) => {
                noise.lost(cpu, events);
                summing.lost(cpu, events);
            }
            Ok(Said::Overwritten(_) | Said::Other) => {}
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    let (summary, _) = summing.end();
    let sum: u128 = summary.shares.values().map(|sum| sum.ns).sum();
    assert_eq!(sum, summary.explained_ns);
    let style = Style::default();
    for text in [
        sink::why::text(&summary, &style),
        sink::hist::text(&summary, &style),
        sink::top::text(&summary, &style),
        sink::osnoise::top(&noise, &style),
        sink::osnoise::hist(&noise, &style),
    ] {
        assert!(text.is_ascii());
    }
    assert!(sink::json(&summary, &summary.worst).is_ok() && sink::noise_json(&noise).is_ok());
});
