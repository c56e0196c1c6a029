//! ```sh
//! cargo +nightly fuzz run timerlat_pages fuzz/corpus/timerlat_pages \
//!     wakelat-tracefs/src/osnoise_tracers/fixtures/pages -- -max_total_time=600
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::timerlat_pages::check(bytes);
});
