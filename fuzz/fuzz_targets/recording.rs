//! `cargo +nightly fuzz run recording -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::recording::check(bytes);
});
