//! Parses any bytes as hist-trigger text and prints what the parser accepts: neither may panic.
//!
//! `cargo +nightly fuzz run hist_trigger fuzz/corpus/hist_trigger wakelat-tracefs/tests/fixtures/hist -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelat_tracefs::hist_trigger::kernel_text::kernel_text;
use wakelat_tracefs::hist_trigger::parse::{Completeness, parse};

fuzz_target!(|bytes: &[u8]| {
    for completeness in [Completeness::Whole, Completeness::Excerpt] {
        if let Ok(histograms) = parse(bytes, completeness) {
            for histogram in &histograms {
                assert!(!kernel_text(histogram).is_empty());
            }
        }
    }
});
