//! What to show of a trace.

use super::{LatencyDisplay, NoiseView, TimerlatView};
use crate::osnoise_tracers::{linear::Bins, summary::TimerlatSummaryOptions};

/// What to show of a timerlat trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerlatOptions {
    /// The view.
    pub view: TimerlatView,
    /// The latency from which an activation is explained: ns.
    pub threshold_ns: Option<u64>,
    /// The number of longest activations to show in full.
    pub worst: usize,
    /// How to show latencies to people.
    pub form: LatencyDisplay,
    /// Buckets of equal width, if requested.
    pub bins: Option<Bins>,
}

impl TimerlatOptions {
    /// The options of the summary of a saved trace, for records of the given precision and a timer of the given period.
    pub fn summary_options(&self, resolution_ns: u64, period_ns: Option<u64>) -> TimerlatSummaryOptions {
        TimerlatSummaryOptions {
            threshold_ns: self.threshold_ns,
            worst: self.worst,
            resolution_ns,
            period_ns,
            bins: self.bins,
            is_live: false,
        }
    }
}

/// What to show of an osnoise trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsnoiseOptions {
    /// The view.
    pub view: NoiseView,
    /// Buckets of equal width, if requested.
    pub bins: Option<Bins>,
}
