//! What a person or a program sees of a run of the timerlat or osnoise tracer.
//!
//! As in [`crate::sink`]: no I/O but the writer that is given, no clock, and under every view the coverage.

mod coverage;
pub mod csv;
mod document;
mod finding;
pub mod hist;
mod noise_document;
pub mod osnoise;
mod timeline;
pub mod top;
pub mod trace;
pub mod why;
mod words;

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;

use super::record::TimerlatContext;
use crate::aggregate::rank::Percentile;

pub use coverage::render as coverage;
pub use document::{TimerlatDocumentWriter, run as json};
pub use noise_document::noise as noise_json;

/// What of a run of timerlat people see; programs see all of it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerlatView {
    /// The distributions.
    Hist,
    /// A line for each CPU.
    Top,
    /// A line for each activation that reached the threshold.
    Trace,
    /// Where the time went.
    Why,
}

/// How people see the latencies of a run of timerlat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyDisplay {
    /// In ns throughout, and not in the unit that reads best.
    pub nano: bool,
    /// With those of the interrupt.
    pub irq: bool,
    /// With those of the thread.
    pub thread: bool,
}

impl Default for LatencyDisplay {
    fn default() -> Self {
        Self { nano: false, irq: true, thread: true }
    }
}

impl LatencyDisplay {
    /// Whether the latencies of `context` are shown.
    fn shows(self, context: TimerlatContext) -> bool {
        match context {
            TimerlatContext::Irq => self.irq,
            TimerlatContext::Thread => self.thread,
            TimerlatContext::User => true,
        }
    }
}

/// What of a run of osnoise people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseView {
    /// The distributions of single noises.
    Hist,
    /// A line for each CPU.
    Top,
}

/// The percentiles of every latency, and their names for people.
pub const PERCENTILES: [(Percentile, &str); 5] = [
    (Percentile::P50, "p50"),
    (Percentile::P90, "p90"),
    (Percentile::P99, "p99"),
    (Percentile::P99_9, "p99.9"),
    (Percentile::P99_99, "p99.99"),
];
