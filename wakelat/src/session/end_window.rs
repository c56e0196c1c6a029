//! Ends the last window.

use anyhow::Result;

use wakelat_common::filter::MAX_PROCESSES;

use super::clock::monotonic_ns;
use crate::{collect::Collector, status::status};

/// Ends the window at an instant that the programs know in advance, or at `end_at_ns` if that is earlier.
/// Returns the instant after it has passed.
pub fn end_now(collector: &mut Collector, end_at_ns: Option<u64>) -> Result<u64> {
    /// More time than writing a map takes.
    const AHEAD_NS: u64 = 100_000;
    let end_at_ns = loop {
        let at_ns = monotonic_ns() + AHEAD_NS;
        if let Some(end_at_ns) = end_at_ns.filter(|end_at_ns| *end_at_ns <= at_ns) {
            break end_at_ns;
        }
        collector.end_at(at_ns)?;
        // If this thread was preempted meanwhile, some programs may have seen the end too late: try again.
        if monotonic_ns() < at_ns {
            break at_ns;
        }
    };
    while monotonic_ns() < end_at_ns {
        std::hint::spin_loop();
    }
    Ok(end_at_ns)
}

/// Says how many descendants of the filter's processes were not measured, if any.
///
/// # Errors
/// If the kernel refuses to read the count.
pub fn warn_of_unfollowed(collector: &Collector) -> Result<()> {
    match collector.unfollowed_descendants()? {
        0 => {}
        count => status(format_args!(
            "{count} descendants are not measured: the limit is {MAX_PROCESSES} processes at a time"
        )),
    }
    Ok(())
}
