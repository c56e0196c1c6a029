//! What the programs read about the measurement window at each event.

/// The words of the window that only user space writes. They share a cache line, because the programs read them at
/// nearly every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WindowWords {
    /// The end of the window: ns of CLOCK_MONOTONIC.
    pub end_at_ns: u64,
    /// The half of the histograms and groups that the programs write to: 0 or 1. At the end of an interval, user space
    /// switches it, then waits until no program is still writing to the other half.
    pub half: u64,
    /// Under an overhead limit: the number of periods of measuring that have begun.
    pub period: u64,
    /// When the current one began: ns of CLOCK_MONOTONIC. Written only while the programs have stopped, or with a new
    /// number.
    pub period_began_at_ns: u64,
}

impl WindowWords {
    /// A window without an end.
    pub const ENDLESS: Self = Self { end_at_ns: u64::MAX, half: 0, period: 0, period_began_at_ns: 0 };
}
