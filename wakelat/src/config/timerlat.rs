//! What `timerlat` and `osnoise` are to show, and of what: a saved trace, or the tracer itself.

use super::{ConfigError, OutputConfig, TracerConfig, TracerEvents, Window};
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
        let events = |config: &TracerConfig| TracerEvents::of_timerlat(view, config.trace.is_some());
        Ok(Self { origin: origin(&flags.saved, &flags.window, tracer, events)?, shown })
    }
}

impl OsnoiseConfig {
    pub(crate) fn new(
        flags: &OsnoiseFlags,
        view: NoiseView,
        tracer: impl FnOnce() -> Result<TracerConfig, Refusal>,
    ) -> Result<Self, Refusal> {
        let events =
            |config: &TracerConfig| TracerEvents::of_osnoise(view, config.trace.is_some(), config.wants_single_noise);
        Ok(Self { origin: origin(&flags.saved, &flags.window, tracer, events)?, view })
    }
}

/// The saved trace, where one is given; the machine is looked at only without.
fn origin(
    flags: &SavedFlags,
    window: &WindowFlags,
    tracer: impl FnOnce() -> Result<TracerConfig, Refusal>,
    events: impl FnOnce(&TracerConfig) -> TracerEvents,
) -> Result<Origin, Refusal> {
    let output = OutputConfig::new(&flags.output())?;
    if let Some(from) = &flags.from {
        output.check_input("--from", from)?;
        return Ok(Origin::Saved(Saved { from: from.to_owned(), output }));
    }
    let mut tracer = tracer()?;
    tracer.events = events(&tracer);
    tracer.trace.as_deref().map_or(Ok(()), |trace| output.check_beside("--trace", trace))?;
    Ok(Origin::Live(Box::new(Live { tracer, window: Window::new(window), output })))
}
