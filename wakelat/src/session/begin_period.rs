//! Begins a period of measuring.

use anyhow::Result;

use super::clock::monotonic_ns;
use crate::collect::Collector;

/// Begins a period at an instant after `start`, which lets the programs measure. Without an overhead limit, the programs
/// ignore periods.
pub fn begin_period_now(collector: &mut Collector, start: impl Fn(&mut Collector) -> Result<()>) -> Result<()> {
    /// More time than writing a map takes.
    const AHEAD_NS: u64 = 100_000;
    loop {
        let at_ns = monotonic_ns() + AHEAD_NS;
        collector.begin_period(at_ns)?;
        start(collector)?;
        // If this thread was preempted meanwhile, some events between are missing: try again.
        if monotonic_ns() < at_ns {
            return Ok(());
        }
    }
}
