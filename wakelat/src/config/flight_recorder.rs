//! The flight recorder: what it keeps, and when it writes a file.

/// The flight recorder: what it keeps, and when it writes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightRecorderConfig {
    /// How much of the run is kept: ns.
    pub length_ns: u64,
    /// The most memory that it takes: bytes.
    pub max_bytes: usize,
    /// How long to record after a trigger before the file is written: ns.
    pub after_ns: u64,
    /// The shortest time between two files: ns. Triggers in between are ignored.
    pub file_interval_ns: u64,
    /// The most files that are kept: older ones are removed.
    pub max_files: usize,
    /// A wait of this length is a trigger: ns.
    pub threshold_ns: Option<u64>,
    /// A command that is run every second; its failure is a trigger.
    pub check: Option<String>,
}
