//! Errors made on purpose, so that tests see that they are found.

/// What is falsified on wakelat's own side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum InjectedError {
    /// One clock in ten is restarted halfway
    Restart,
    /// One wait in a hundred is lost
    Lose,
    /// All waits are one bucket higher
    Shift,
}

impl InjectedError {
    /// What is made of the wait number `index`, from 0; none where it is lost.
    pub fn apply(self, index: u64, latency_ns: u64) -> Option<u64> {
        match self {
            Self::Restart if index.is_multiple_of(10) => Some(latency_ns / 2),
            Self::Lose if index.is_multiple_of(100) => None,
            Self::Restart | Self::Lose => Some(latency_ns),
            Self::Shift => Some(latency_ns.saturating_mul(2)),
        }
    }
}
