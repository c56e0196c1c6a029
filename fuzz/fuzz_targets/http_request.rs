//! `cargo +nightly fuzz run http_request -- -max_total_time=600 -max_len=20000`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::http_request::check(bytes);
});
