//! Any bytes through the hist-trigger parser and, where it accepts them, through the printer: neither may panic.
//!
//! `cargo +nightly fuzz run hist_trigger fuzz/corpus/hist_trigger wakelat/tests/fixtures/hist -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelat::hist_trigger::parse::{Extent, parse};
use wakelat::hist_trigger::write::kernel_text;

fuzz_target!(|bytes: &[u8]| {
    for extent in [Extent::Whole, Extent::Excerpt] {
        if let Ok(histograms) = parse(bytes, extent) {
            for histogram in &histograms {
                assert!(!kernel_text(histogram).is_empty());
            }
        }
    }
});
