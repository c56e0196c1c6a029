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
}

impl InjectedError {
    /// Applies the error to wait number `index`, counted from 0; none if the error loses the wait.
    pub fn apply(self, index: u64, latency_ns: u64) -> Option<u64> {
        match self {
            Self::Restart if index.is_multiple_of(10) => Some(latency_ns / 2),
            Self::Lose if index.is_multiple_of(100) => None,
            Self::Restart | Self::Lose => Some(latency_ns),
            Self::Shift => Some(latency_ns.saturating_mul(2)),
        }
    }
}
