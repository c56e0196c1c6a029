//! The configuration of `timerlat` and `osnoise`: what to show, of a saved trace or of the tracer
//! itself.

use std::path::PathBuf;

use super::{OutputConfig, TracerConfig, WindowConfig};
use wakelat_core::osnoise_tracers::render::{OsnoiseOptions, TimerlatOptions};

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

/// A saved trace, and where to write the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTrace {
    /// The path of the trace; `-` is standard input.
    pub from: PathBuf,
    /// Format and destination of the result.
    pub output: OutputConfig,
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
