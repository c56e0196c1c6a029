//! What a person or a program sees of a run of the timerlat or osnoise tracer.
//!
//! As in [`crate::sink`]: no I/O but the writer that is given, no clock, and under every view the coverage.

mod coverage;
mod document;
pub mod hist;
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

use crate::aggregate::rank::Percentile;

pub use coverage::render as coverage;
pub use document::{RunText, noise as noise_json, run as json};

/// What of a run of timerlat people see; programs see all of it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The distributions.
    Hist,
    /// A line for each CPU.
    Top,
    /// A line for each activation that reached the threshold.
    Trace,
    /// Where the time went.
    Why,
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
