//! `cargo +nightly fuzz run hist_trigger fuzz/corpus/hist_trigger wakelat-tracefs/tests/fixtures/hist -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::hist_trigger::check(bytes);
});
