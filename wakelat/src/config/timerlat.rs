//! The configuration of `timerlat` and `osnoise`: what to show, of a saved trace or of the tracer
//! itself.

use super::{ConfigError, OutputConfig, TracerConfig, TracerEvents, WindowConfig};
use crate::{
    cli::{CliError, HistogramFlags, OsnoiseFlags, SavedFlags, TimerlatFlags, WindowFlags},
    timerlat::{
        linear::Bins,
        render::{LatencyDisplay, NoiseView, TimerlatView},
        run::{OsnoiseOptions, SavedTrace, TimerlatOptions},
    },
};

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

/// Number of the worst activations that are shown by default.
const DEFAULT_WORST: usize = 3;

/// Default number of buckets of rtla's histograms (Documentation/tools/rtla/common_hist_options.rst).
const DEFAULT_ENTRIES: u64 = 256;

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

impl TimerlatConfig {
    pub(crate) fn new(
        flags: &TimerlatFlags,
        view: TimerlatView,
        tracer: impl FnOnce() -> Result<TracerConfig, CliError>,
    ) -> Result<Self, CliError> {
        let shows_worst = view == TimerlatView::Why || view != TimerlatView::Trace && flags.saved.json;
        if flags.worst.is_some() && !shows_worst {
            let why = "this view does not show the worst activations; leave it out, or use `why`, or `hist` or `top` with `--json`";
            return Err(ConfigError::usage("--worst", why).into());
        }
        let (hist, text) = (view == TimerlatView::Hist, !flags.saved.json && !flags.saved.csv);
        for (flag, given) in [("--no-irq", flags.no_irq), ("--no-thread", flags.no_thread)] {
            if given && !(hist && text) {
                return Err(ConfigError::usage(
                    flag,
                    "only applies to the text of `hist`; use `timerlat hist` without `--json` and `--csv`",
                )
                .into());
            }
        }
        if flags.no_irq && flags.no_thread && !flags.live.user_threads {
            return Err(ConfigError::usage(
                "--no-irq",
                "nothing is left to show with `--no-thread`; leave out one of the two",
            )
            .into());
        }
        if flags.nano && !(text && matches!(view, TimerlatView::Hist | TimerlatView::Top)) {
            let why = "only applies to `hist` and `top`: `why`, `trace`, `--json` and `--csv` always show nanoseconds; leave it out";
            return Err(ConfigError::usage("--nano", why).into());
        }
        let shown = TimerlatOptions {
            view,
            threshold_ns: flags.threshold,
            worst: flags.worst.unwrap_or(DEFAULT_WORST),
            form: LatencyDisplay { nano: flags.nano, irq: !flags.no_irq, thread: !flags.no_thread },
            bins: bins(&flags.histogram, hist && !flags.saved.json, flags.nano)?,
        };
        let events = |config: &TracerConfig| TracerEvents::of_timerlat(view, config.trace.is_some());
        Ok(Self { origin: origin(&flags.saved, &flags.window, tracer, events)?, shown })
    }
}

impl OsnoiseConfig {
    pub(crate) fn new(
        flags: &OsnoiseFlags,
        view: NoiseView,
        tracer: impl FnOnce() -> Result<TracerConfig, CliError>,
    ) -> Result<Self, CliError> {
        let events =
            |config: &TracerConfig| TracerEvents::of_osnoise(view, config.trace.is_some(), config.wants_single_noise);
        let bins = bins(&flags.histogram, view == NoiseView::Hist && !flags.saved.json, false)?;
        let shown = OsnoiseOptions { view, bins };
        Ok(Self { origin: origin(&flags.saved, &flags.window, tracer, events)?, shown })
    }
}

/// The buckets of equal width, if one of their flags is given; `shown` if the result is a table of them.
fn bins(flags: &HistogramFlags, shown: bool, nano: bool) -> Result<Option<Bins>, ConfigError> {
    let HistogramFlags { bucket_size, entries } = *flags;
    let Some(flag) = bucket_size.map(|_| "--bucket-size").or(entries.map(|_| "--entries")) else { return Ok(None) };
    if !shown {
        let why =
            "only applies to the table of `hist`; JSON has its own buckets, powers of two and finer; leave it out";
        return Err(ConfigError::usage(flag, why));
    }
    let unit_ns = if nano { 1 } else { 1_000 };
    Ok(Some(Bins { width_ns: bucket_size.unwrap_or(1) * unit_ns, entries: entries.unwrap_or(DEFAULT_ENTRIES) }))
}

/// The saved trace if one is given; otherwise the tracer, which needs the configuration of this machine.
fn origin(
    flags: &SavedFlags,
    window: &WindowFlags,
    tracer: impl FnOnce() -> Result<TracerConfig, CliError>,
    events: impl FnOnce(&TracerConfig) -> TracerEvents,
) -> Result<TracerInput, CliError> {
    let output = OutputConfig::new(&flags.output())?;
    if let Some(from) = &flags.from {
        output.check_input("--from", from)?;
        return Ok(TracerInput::Saved(SavedTrace { from: from.to_owned(), output }));
    }
    let mut tracer = tracer()?;
    tracer.events = events(&tracer);
    tracer.trace.as_deref().map_or(Ok(()), |trace| output.check_beside("--trace", trace))?;
    Ok(TracerInput::Live(Box::new(LiveConfig { tracer, window: WindowConfig::new(window), output })))
}
