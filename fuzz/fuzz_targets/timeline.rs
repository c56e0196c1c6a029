//! Decodes any bytes as consecutive records of the timeline: none may panic.
//!
//! `cargo +nightly fuzz run timeline -- -max_total_time=600`
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelat_core::timeline::decode::Decoder;

fuzz_target!(|records: Vec<Vec<u8>>| {
    let mut decoder = Decoder::default();
    for record in &records {
        if let Err(error) = decoder.decode(record) {
            assert!(!error.to_string().contains('\n'));
        }
    }
});
