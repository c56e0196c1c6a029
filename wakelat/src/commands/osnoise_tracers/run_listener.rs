//! What a run passes to its view.

use std::io::{self, Write};

use wakelat_core::osnoise_tracers::{record::TimerlatRecord, summary::TimerlatCoverage};

/// Receives the records of a run.
pub trait Listener {
    /// Called once, before anything else.
    fn begin(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Called for each record, in the order of time.
    fn record(&mut self, record: TimerlatRecord, out: &mut dyn Write) -> io::Result<()>;

    /// Called if records of a CPU were lost, before the records that follow them.
    fn lost(&mut self, cpu: u32, events: u64);

    /// Called at the end of an interval. The output replaces that of the previous interval.
    fn interval(&mut self, out: &mut dyn Write) -> io::Result<()>;

    /// Called once, at the end of the run.
    fn end(&mut self, info: &TracerRunInfo, out: &mut dyn Write) -> io::Result<()>;
}

/// What is known of a run besides its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracerRunInfo {
    /// How long the run has measured: ns.
    pub duration_ns: u64,
    /// Events for which the kernel skipped a BPF program. `None` if no programs were used.
    pub missed: Option<u64>,
    /// Whether intervals were shown, so that the final output replaces the last one.
    pub redrawn: bool,
}

impl TracerRunInfo {
    /// Adds to the coverage what only the run knows.
    pub fn add_to(&self, coverage: &mut TimerlatCoverage) {
        coverage.duration_ns = self.duration_ns;
        coverage.missed = self.missed;
    }
}
