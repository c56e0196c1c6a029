//! ```sh
//! cargo +nightly fuzz run timerlat_trace fuzz/corpus/timerlat_trace \
//!     wakelat-core/src/osnoise_tracers/fixtures -- -max_total_time=600
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::timerlat_trace::check(bytes);
});
