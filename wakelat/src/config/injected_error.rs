//! Deliberate errors, with which tests check that `verify` detects them.

/// An error to inject into wakelat's own side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedError {
    /// One clock in ten is restarted halfway.
    Restart,
    /// One wait in a hundred is lost.
    Lose,
    /// All waits are one bucket higher.
    Shift,
    /// Half of the waits by the run queue's clock are lost; the other instruments are right.
    QueueClockLose,
    /// All waits by the run queue's clock are twice as long; the other instruments are right.
    QueueClockShift,
}

impl InjectedError {
    /// Applies the error to wait number `index`, counted from 0; none if the error loses the wait.
    pub fn apply(self, index: u64, latency_ns: u64) -> Option<u64> {
        match self {
            Self::Restart if index.is_multiple_of(10) => Some(latency_ns / 2),
            Self::Lose if index.is_multiple_of(100) => None,
            Self::Restart | Self::Lose | Self::QueueClockLose | Self::QueueClockShift => Some(latency_ns),
            Self::Shift => Some(latency_ns.saturating_mul(2)),
        }
    }

    /// Applies the error to a number of waits by the run queue's clock.
    pub fn apply_to_queue_clock(self, count: u64) -> u64 {
        if self == Self::QueueClockLose { count / 2 } else { count }
    }

    /// Applies the error to the length of a wait by the run queue's clock.
    pub fn apply_to_queue_clock_length(self, length_ns: u64) -> u64 {
        if self == Self::QueueClockShift { length_ns.saturating_mul(2) } else { length_ns }
    }
}
