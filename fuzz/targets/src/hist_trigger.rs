//! The text of hist triggers.

use wakelat_tracefs::hist_trigger::{
    kernel_text::kernel_text,
    parse::{Completeness, parse},
};

/// Parses any bytes as hist-trigger text and prints what the parser accepts: neither may panic. Returns the number of
/// histograms.
pub fn check(bytes: &[u8]) -> usize {
    let mut accepted = 0;
    for completeness in [Completeness::Whole, Completeness::Excerpt] {
        for histogram in parse(bytes, completeness).iter().flatten() {
            assert!(!kernel_text(histogram).is_empty());
            accepted += 1;
        }
    }
    accepted
}
