//! Renders a run of the timerlat or osnoise tracer for people and for programs.
//!
//! As in [`crate::render`], there is no I/O but the given writer and no clock, and every view shows the
//! coverage.

mod coverage;
mod coverage_document;
pub mod csv;
mod distribution_document;
mod finding;
pub mod hist;
mod labels;
mod noise_document;
mod options;
pub mod osnoise;
mod timeline;
mod timerlat_document;
pub mod top;
pub mod trace;
pub mod why;

#[cfg(test)]
mod documentation_tests;
#[cfg(test)]
mod tests;

use super::{record::TimerlatContext, summary::TimerlatSummary};
use crate::{aggregate::percentile_rank::Percentile, render::Style};

pub use coverage::render as coverage;
pub use noise_document::noise as noise_json;
pub use options::{OsnoiseOptions, TimerlatOptions};
pub use timerlat_document::{TimerlatDocumentWriter, run as json};

/// What to show of a timerlat run. JSON has everything in any view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerlatView {
    /// The distributions.
    Hist,
    /// A line for each CPU.
    Top,
    /// A line for each activation that reached the threshold.
    Trace,
    /// Where the time went: the longest activations and the sum of all causes.
    Why,
}

/// How to show the latencies of a timerlat run to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyDisplay {
    /// Whether to show all times in ns, instead of in the most readable unit.
    pub nano: bool,
    /// Whether to show the latencies of the interrupt.
    pub irq: bool,
    /// Whether to show the latencies of the thread.
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

/// What to show of an osnoise run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseView {
    /// The distributions of single noises.
    Hist,
    /// A line for each CPU.
    Top,
}

/// Renders the summary at the end of a run.
pub fn text(shown: TimerlatOptions, summary: &TimerlatSummary, style: &Style) -> String {
    match shown.view {
        TimerlatView::Hist => hist::text(summary, shown.form, style),
        TimerlatView::Top => top::text(summary, shown.form, style),
        TimerlatView::Why => why::text(summary, style),
        TimerlatView::Trace => {
            let mut out = String::new();
            coverage(&summary.coverage, style, &mut out);
            out
        }
    }
}

/// The percentiles of every latency, with their names for people.
pub const PERCENTILES: [(Percentile, &str); 5] = [
    (Percentile::P50, "p50"),
    (Percentile::P90, "p90"),
    (Percentile::P99, "p99"),
    (Percentile::P99_9, "p99.9"),
    (Percentile::P99_99, "p99.99"),
];
