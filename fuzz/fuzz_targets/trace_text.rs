//! ```sh
//! cargo +nightly fuzz run trace_text fuzz/corpus/trace_text wakelat-core/src/trace_text/fixtures -- -max_total_time=600
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::trace_text::check(bytes);
});
