//! What the overhead limit reads, and what it decides: plain data.

use wakelat_common::program_runs::RunTimeSums;

/// Totals since the start, at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitReading {
    /// Time of the reading: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Runs of programs while they measured.
    pub measured: u64,
    /// Runs of programs after they had stopped.
    pub stopped: u64,
    /// What the timed runs show of `measured`.
    pub measured_times: RunTimeSums,
    /// What the timed runs show of `stopped`.
    pub stopped_times: RunTimeSums,
    /// wakelat's own CPU time: ns.
    pub tool_ns: u64,
}

/// A pause after a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Planned length: ns.
    pub length_ns: u64,
    /// Whether to detach the programs for it.
    pub detach: bool,
}

/// What follows when a pause is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// The pause lasts this much longer: ns.
    Longer(u64),
    /// The programs have to be detached, for this time: ns.
    Detach(u64),
    /// The next period begins.
    Resume,
}
