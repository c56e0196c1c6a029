//! The request to a flight recorder.

/// The request to a flight recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpConfig {
    /// Its PID.
    pub pid: u32,
}
