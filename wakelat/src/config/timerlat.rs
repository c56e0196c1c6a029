//! What `timerlat` and `osnoise` are to show, and of what: a saved trace, or the tracer itself.

use std::path::Path;

use super::{ConfigError, OutputConfig, TracerConfig, Window};
use crate::{
    cli::{OsnoiseFlags, Refusal, SavedFlags, TimerlatFlags, WindowFlags},
    timerlat::{
        run::{Saved, Shown},
        sink::{NoiseView, View},
    },
};

/// What `timerlat` is to do.
#[derive(Clone, Debug)]
pub struct TimerlatConfig {
    /// Of what.
    pub origin: Origin,
    /// What of it is shown.
    pub shown: Shown,
}

/// What `osnoise` is to do.
#[derive(Clone, Debug)]
pub struct OsnoiseConfig {
    /// Of what.
    pub origin: Origin,
    /// What of it is shown.
    pub view: NoiseView,
}

/// How many of the worst activations are shown where nothing else is asked for.
const WORST: usize = 3;

/// Where records come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A saved trace.
    Saved(Saved),
    /// The tracer.
    Live(Box<Live>),
}

/// A run of the tracer.
#[derive(Clone, Debug)]
pub struct Live {
    /// What the tracer is told.
    pub tracer: TracerConfig,
    /// For how long.
    pub window: Window,
    /// How and where the result is shown.
    pub output: OutputConfig,
}

impl TimerlatConfig {
    pub(crate) fn new(
        flags: &TimerlatFlags,
        view: View,
        tracer: impl FnOnce() -> Result<TracerConfig, Refusal>,
    ) -> Result<Self, Refusal> {
        let shows_worst = view == View::Why || view != View::Trace && flags.saved.json;
        if flags.worst.is_some() && !shows_worst {
            let why =
                "nothing draws the worst here; leave it out, or ask for `why`, or for `hist` or `top` with `--json`";
            return Err(ConfigError::usage("--worst", why).into());
        }
        let shown = Shown { view, threshold_ns: flags.threshold, worst: flags.worst.unwrap_or(WORST) };
        Ok(Self { origin: origin(&flags.saved, &flags.window, tracer)?, shown })
    }
}

impl OsnoiseConfig {
    pub(crate) fn new(
        flags: &OsnoiseFlags,
        view: NoiseView,
        tracer: impl FnOnce() -> Result<TracerConfig, Refusal>,
    ) -> Result<Self, Refusal> {
        Ok(Self { origin: origin(&flags.saved, &flags.window, tracer)?, view })
    }
}

/// The saved trace, where one is given; the machine is looked at only without.
fn origin(
    flags: &SavedFlags,
    window: &WindowFlags,
    tracer: impl FnOnce() -> Result<TracerConfig, Refusal>,
) -> Result<Origin, Refusal> {
    let output = OutputConfig::new(&flags.output())?;
    Ok(match &flags.from {
        Some(from) => Origin::Saved(saved(from, output)?),
        None => Origin::Live(Box::new(Live { tracer: tracer()?, window: Window::new(window), output })),
    })
}

fn saved(from: &Path, output: OutputConfig) -> Result<Saved, ConfigError> {
    if from.is_dir() {
        let why = format!("`{}` is a directory; expected a file or `-`", from.display());
        return Err(ConfigError::usage("--from", why));
    }
    Ok(Saved { from: from.to_owned(), output })
}
