//! A wait that has ended, on its way to a counter, a histogram or a record.

use wakelat_common::{Class, pending_wait::PendingWait, wait_context::WaitContext};

/// A wait that has ended and is to be reported.
#[derive(Clone, Copy)]
pub struct EndedWait<'entry> {
    /// Why the wait began.
    pub class: Class,
    /// Its begin.
    pub pending: &'entry PendingWait,
    /// Where it began, and what the task lost to throttling and the hypervisor meanwhile.
    pub context: &'entry WaitContext,
    /// When it ended: ns of CLOCK_MONOTONIC.
    pub now: u64,
    /// Its length: ns.
    pub latency_ns: u64,
}
