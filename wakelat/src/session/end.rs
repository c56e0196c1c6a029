//! The end of the last window.

use anyhow::Result;

use super::clock::monotonic_ns;
use crate::collect::Collector;

/// Ends the window at an instant that the programs know before it comes, or at `end_at_ns` if that is earlier. Returns the instant
/// once it has passed.
pub fn end_now(collector: &mut Collector, end_at_ns: Option<u64>) -> Result<u64> {
    /// Longer than it takes to write a map.
    const AHEAD_NS: u64 = 100_000;
    let end_at_ns = loop {
        let at_ns = monotonic_ns() + AHEAD_NS;
        if let Some(end_at_ns) = end_at_ns.filter(|end_at_ns| *end_at_ns <= at_ns) {
            break end_at_ns;
        }
        collector.end_at(at_ns)?;
        // Where this thread lost its CPU meanwhile, some programs may have known it too late.
        if monotonic_ns() < at_ns {
            break at_ns;
        }
    };
    while monotonic_ns() < end_at_ns {
        std::hint::spin_loop();
    }
    Ok(end_at_ns)
}
