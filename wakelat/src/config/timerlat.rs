//! The configuration of `timerlat` and `osnoise`: what to show, of a saved trace or of the tracer
//! itself.

use super::{OutputConfig, TracerConfig, WindowConfig};
use crate::timerlat::saved_trace::{OsnoiseOptions, SavedTrace, TimerlatOptions};

/// The configuration of `timerlat`.
#[derive(Clone, Debug)]
pub struct TimerlatConfig {
    /// Where the records come from.
    pub origin: TracerInput,
    /// What is shown of them.
    pub shown: TimerlatOptions,
}

/// The configuration of `osnoise`.
#[derive(Clone, Debug)]
pub struct OsnoiseConfig {
    /// Where the records come from.
    pub origin: TracerInput,
    /// What is shown of them.
    pub shown: OsnoiseOptions,
}

/// Where records come from.
#[derive(Clone, Debug)]
pub enum TracerInput {
    /// A saved trace.
    Saved(SavedTrace),
    /// The tracer.
    Live(Box<LiveConfig>),
}

/// A run of the tracer.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// The configuration of the tracer.
    pub tracer: TracerConfig,
    /// How long to measure.
    pub window: WindowConfig,
    /// How and where the result is shown.
    pub output: OutputConfig,
}
