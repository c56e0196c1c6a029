//! The overhead and the sampling in a report.

use serde::Deserialize;

/// What measuring cost.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JsonOverhead {
    /// Online CPUs.
    pub cpus: u32,
    /// CPU time of wakelat itself: ns.
    pub tool_ns: u64,
    /// Time of its BPF programs: ns.
    pub programs_ns: u64,
    /// Runs of the programs that were timed.
    pub timed_runs: u64,
}

impl JsonOverhead {
    /// The cost as a share of the time of all CPUs in `duration_ns`.
    pub fn share(&self, duration_ns: u64) -> f64 {
        (self.programs_ns + self.tool_ns) as f64 / (duration_ns * u64::from(self.cpus)) as f64
    }
}

/// What was sampled under an overhead limit.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JsonSampling {
    /// One task in this many was sampled when the sampling rate was highest.
    pub one_in_least: u32,
    /// One task in this many was sampled when the sampling rate was lowest.
    pub one_in_most: u32,
    /// Length of the window without pauses: ns.
    pub measured_ns: u64,
}
