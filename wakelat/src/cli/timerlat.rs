//! `wakelat timerlat` and `wakelat osnoise`

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{
    CliError, OutputFlags, RenderFlags, WindowFlags,
    osnoise_tracers::{NoiseFlags, TimerFlags},
};
use crate::config::{
    ConfigError, LiveConfig, OsnoiseConfig, SavedTrace, TimerlatConfig, TracerConfig, TracerInput, duration, number,
};
use wakelat_core::osnoise_tracers::{
    linear::Bins,
    render::{LatencyDisplay, NoiseView, OsnoiseOptions, TimerlatOptions, TimerlatView},
};
use wakelat_kernel::Machine;
use wakelat_tracefs::osnoise_tracers::TracerEvents;

/// Number of the worst activations that are shown by default.
const DEFAULT_WORST: usize = 3;

/// Default number of buckets of rtla's histograms (Documentation/tools/rtla/common_hist_options.rst).
const DEFAULT_ENTRIES: u64 = 256;

const TIMERLAT_EXAMPLES: &str = "\
Examples:
  wakelat timerlat -d 30s                                    what delays the worst activations
  wakelat timerlat hist -c 0-3 -p 500us -P f:95              distributions per CPU
  wakelat timerlat -a 50us                                   stop at 50 us or more, with the stack
  wakelat timerlat --from trace.txt                          what delayed the worst activations
  wakelat timerlat trace --from trace.txt --threshold 50us   print each activation of 50 us or more
  cat trace | wakelat timerlat hist --from -                 distributions per CPU";

const OSNOISE_EXAMPLES: &str = "\
Examples:
  wakelat osnoise -d 30s -c 1-3           noise per CPU
  wakelat osnoise --from trace.txt        noise per CPU, from a saved trace
  wakelat osnoise hist --from trace.txt   distribution of single noises";

/// Measure timer latency with the timerlat tracer, and explain its causes
#[derive(Clone, Debug, Args)]
#[command(after_help = TIMERLAT_EXAMPLES)]
pub struct TimerlatFlags {
    /// What to show: hist, top, trace, why
    #[arg(value_enum, default_value = "why", hide_possible_values = true)]
    pub view: ViewName,

    /// Flags for a saved trace, and for output.
    #[command(flatten)]
    pub saved: SavedFlags,

    /// Explain only activations of at least this latency; a bare number is microseconds [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration::microseconds_as_ns, allow_hyphen_values = true)]
    pub threshold: Option<u64>,

    /// Show all latencies in nanoseconds
    #[arg(short, long)]
    pub nano: bool,

    /// Omit IRQ latency from hist
    #[arg(long)]
    pub no_irq: bool,

    /// Omit thread latency from hist
    #[arg(long)]
    pub no_thread: bool,

    /// Show this many of the worst activations in why, and in hist and top with --json [default: 3]
    #[arg(long, value_name = "N", value_parser = number::worst, allow_hyphen_values = true)]
    pub worst: Option<usize>,

    /// Flags of the histogram.
    #[command(flatten)]
    pub histogram: HistogramFlags,

    /// How long to measure.
    #[command(flatten)]
    pub window: WindowFlags,

    /// Flags of the tracer.
    #[command(flatten)]
    pub live: TimerFlags,
}

/// Measure operating-system noise with the osnoise tracer: time taken from a busy thread on each CPU
#[derive(Clone, Debug, Args)]
#[command(after_help = OSNOISE_EXAMPLES)]
pub struct OsnoiseFlags {
    /// What to show: hist, top
    #[arg(value_enum, default_value = "top", hide_possible_values = true)]
    pub view: NoiseViewName,

    /// Flags for a saved trace, and for output.
    #[command(flatten)]
    pub saved: SavedFlags,

    /// Flags of the histogram.
    #[command(flatten)]
    pub histogram: HistogramFlags,

    /// How long to measure.
    #[command(flatten)]
    pub window: WindowFlags,

    /// Flags of the tracer.
    #[command(flatten)]
    pub live: NoiseFlags,
}

/// A saved trace, and how and where the result is shown.
///
/// These are not [`OutputFlags`], because `-T` is a threshold here, as in rtla.
#[derive(Clone, Debug, Args)]
pub struct SavedFlags {
    /// Read a saved trace instead of running the tracer; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["TracerFlags", "WindowFlags", "LIVE"])]
    pub from: Option<PathBuf>,

    /// Print JSON: one document, integers in ns
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    pub json: bool,

    /// Print CSV, integers in ns
    #[arg(long, help_heading = "Output")]
    pub csv: bool,

    /// Print only the result: no notes, and top only at the end
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Destination and style.
    #[command(flatten)]
    pub render: RenderFlags,

    /// Known from rtla, not supported: trace other events
    #[arg(short, long, value_name = "EVENT", value_parser = refused_event, hide = true)]
    pub event: Option<std::convert::Infallible>,

    /// Known from rtla, not supported: attach a trigger to another event
    #[arg(long, value_name = "TRIGGER", value_parser = refused_event, hide = true)]
    pub trigger: Option<std::convert::Infallible>,

    /// Known from rtla, not supported: filter another event
    #[arg(long, value_name = "FILTER", value_parser = refused_event, hide = true)]
    pub filter: Option<std::convert::Infallible>,
}

/// Rejects rtla's flags for other events: wakelat saves only the records that it reads, and can write
/// those as text.
fn refused_event(_: &str) -> Result<std::convert::Infallible, String> {
    Err("wakelat saves only the tracers' own records; record other events in a tracefs instance of your own: \
         `cd /sys/kernel/tracing; mkdir instances/mine; echo 1 > instances/mine/events/sched/enable`"
        .to_owned())
}

/// Changes the flags that `osnoise` has in common with `timerlat`: it has no `--nano`.
pub(super) fn of_osnoise(command: clap::Command) -> clap::Command {
    command.mut_arg("bucket_size", |arg| {
        arg.help("Use buckets of N microseconds [default: powers of two, or 1 with --entries]")
    })
}

/// The buckets of hist, in rtla's words. Without any of these flags, there is a bucket for each power of two.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Histogram")]
pub struct HistogramFlags {
    /// Use buckets of N microseconds (--nano: nanoseconds) [default: powers of two, or 1 with --entries]
    #[arg(short, long, value_name = "N", value_parser = number::bucket_size, allow_hyphen_values = true)]
    pub bucket_size: Option<u64>,

    /// Use N buckets; count latencies beyond the last one as `over` [default: 256 with --bucket-size]
    #[arg(short = 'E', long, value_name = "N", value_parser = number::entries, allow_hyphen_values = true)]
    pub entries: Option<u64>,
}

/// A view of timerlat, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ViewName {
    /// Distributions
    Hist,
    /// A line per CPU
    Top,
    /// A line per activation
    Trace,
    /// Causes of latency
    Why,
}

/// A view of osnoise, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NoiseViewName {
    /// Distributions
    Hist,
    /// A line per CPU
    Top,
}

impl SavedFlags {
    /// The flags for output that all commands share.
    fn output(&self) -> OutputFlags {
        OutputFlags {
            json: self.json,
            csv: self.csv,
            quiet: self.quiet,
            render: self.render.clone(),
            ..OutputFlags::default()
        }
    }

    /// The saved trace if one is given; otherwise the tracer, which needs the configuration of this
    /// machine.
    fn origin(
        &self,
        window: &WindowFlags,
        tracer: impl FnOnce() -> Result<TracerConfig, CliError>,
        events: impl FnOnce(&TracerConfig) -> TracerEvents,
    ) -> Result<TracerInput, CliError> {
        let output = self.output().config()?;
        if let Some(from) = &self.from {
            output.check_input("--from", from)?;
            return Ok(TracerInput::Saved(SavedTrace { from: from.to_owned(), output }));
        }
        let mut tracer = tracer()?;
        tracer.events = events(&tracer);
        tracer.trace.as_deref().map_or(Ok(()), |trace| output.check_beside("--trace", trace))?;
        Ok(TracerInput::Live(Box::new(LiveConfig { tracer, window: window.config(), output })))
    }
}

impl HistogramFlags {
    /// The buckets of equal width, if one of their flags is given; `shown` if the result is a table of
    /// them.
    fn bins(&self, shown: bool, nano: bool) -> Result<Option<Bins>, ConfigError> {
        let Self { bucket_size, entries } = *self;
        let Some(flag) = bucket_size.map(|_| "--bucket-size").or(entries.map(|_| "--entries")) else { return Ok(None) };
        if !shown {
            let why = "only applies to the text and CSV of `hist`; JSON has its own buckets, powers of two and finer; leave it out";
            return Err(ConfigError::usage(flag, why));
        }
        let unit_ns = if nano { 1 } else { 1_000 };
        Ok(Some(Bins { width_ns: bucket_size.unwrap_or(1) * unit_ns, entries: entries.unwrap_or(DEFAULT_ENTRIES) }))
    }
}

impl TimerlatFlags {
    pub(super) fn config(&self, machine: impl FnOnce() -> Result<Machine>) -> Result<TimerlatConfig, CliError> {
        let view = match self.view {
            ViewName::Hist => TimerlatView::Hist,
            ViewName::Top => TimerlatView::Top,
            ViewName::Trace => TimerlatView::Trace,
            ViewName::Why => TimerlatView::Why,
        };
        let shown = self.shown(view)?;
        let events = |config: &TracerConfig| TracerEvents::of_timerlat(view, config.trace.is_some());
        let origin = self.saved.origin(&self.window, || Ok(self.live.config(&machine()?)?), events)?;
        Ok(TimerlatConfig { origin, shown })
    }

    /// What is shown.
    ///
    /// # Errors
    /// If a flag does not apply to the view or its format.
    fn shown(&self, view: TimerlatView) -> Result<TimerlatOptions, ConfigError> {
        let shows_worst = view == TimerlatView::Why || view != TimerlatView::Trace && self.saved.json;
        if self.worst.is_some() && !shows_worst {
            let why = "this view does not show the worst activations; leave it out, or use `why`, or `hist` or `top` with `--json`";
            return Err(ConfigError::usage("--worst", why));
        }
        let (hist, text) = (view == TimerlatView::Hist, !self.saved.json && !self.saved.csv);
        for (flag, given) in [("--no-irq", self.no_irq), ("--no-thread", self.no_thread)] {
            if given && !(hist && text) {
                let why = "only applies to the text of `hist`; use `timerlat hist` without `--json` and `--csv`";
                return Err(ConfigError::usage(flag, why));
            }
        }
        if self.no_irq && self.no_thread && !self.live.user_threads {
            let why = "nothing is left to show with `--no-thread`; leave out one of the two";
            return Err(ConfigError::usage("--no-irq", why));
        }
        if self.nano && !(text && matches!(view, TimerlatView::Hist | TimerlatView::Top)) {
            let why = "only applies to the text of `hist` and `top`; leave it out";
            return Err(ConfigError::usage("--nano", why));
        }
        Ok(TimerlatOptions {
            view,
            threshold_ns: self.threshold,
            worst: self.worst.unwrap_or(DEFAULT_WORST),
            form: LatencyDisplay { nano: self.nano, irq: !self.no_irq, thread: !self.no_thread },
            bins: self.histogram.bins(hist && !self.saved.json, self.nano)?,
        })
    }
}

impl OsnoiseFlags {
    pub(super) fn config(&self, machine: impl FnOnce() -> Result<Machine>) -> Result<OsnoiseConfig, CliError> {
        let view = match self.view {
            NoiseViewName::Hist => NoiseView::Hist,
            NoiseViewName::Top => NoiseView::Top,
        };
        let shown =
            OsnoiseOptions { view, bins: self.histogram.bins(view == NoiseView::Hist && !self.saved.json, false)? };
        let events =
            |config: &TracerConfig| TracerEvents::of_osnoise(view, config.trace.is_some(), config.wants_single_noise);
        let origin = self.saved.origin(&self.window, || Ok(self.live.config(&machine()?)?), events)?;
        Ok(OsnoiseConfig { origin, shown })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use wakelat_kernel::testing;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: TimerlatFlags,
    }

    #[derive(Parser)]
    struct NoiseLine {
        #[command(flatten)]
        flags: OsnoiseFlags,
    }

    #[test]
    fn auto_stands_for_the_two_flags_that_it_replaces() {
        let (_directory, machine) = testing::arbitrary();
        let timer = |line: &str| {
            let setup = Line::parse_from(line.split(' ')).flags.live.config(&machine).unwrap().setup;
            (setup.stop_us, setup.stop_total_us, setup.print_stack_us)
        };
        assert_eq!(timer("timerlat -a 50"), (None, Some(50), Some(50)));
        assert_eq!(timer("timerlat -T 50 -s 50"), timer("timerlat -a 50"));
        let noise = |line: &str| {
            let setup = NoiseLine::parse_from(line.split(' ')).flags.live.config(&machine).unwrap().setup;
            (setup.stop_us, setup.stop_total_us, setup.threshold_us)
        };
        assert_eq!(noise("osnoise -a 50"), (Some(50), None, Some(1)));
        assert_eq!(noise("osnoise -s 50 -T 1"), noise("osnoise -a 50"));
    }

    #[test]
    fn buckets_of_equal_width_are_256_of_microseconds_unless_the_flags_say_otherwise() {
        let bins = |bucket_size, entries, nano| HistogramFlags { bucket_size, entries }.bins(true, nano).unwrap();
        assert_eq!(bins(None, None, false), None);
        assert_eq!(bins(Some(5), None, false), Some(Bins { width_ns: 5_000, entries: 256 }));
        assert_eq!(bins(Some(5), None, true), Some(Bins { width_ns: 5, entries: 256 }));
        assert_eq!(bins(None, Some(10), false), Some(Bins { width_ns: 1_000, entries: 10 }));
    }

    #[test]
    fn a_bare_number_is_microseconds_in_every_flag() {
        let flags = Line::parse_from(["timerlat", "-a", "50", "-p", "1000", "--threshold", "50"]).flags;
        assert_eq!((flags.live.auto, flags.live.period, flags.threshold), (Some(50), Some(1_000), Some(50_000)));
        let units = Line::parse_from(["timerlat", "-a", "50us", "-p", "1ms", "--threshold", "50us"]).flags;
        assert_eq!(
            (units.live.auto, units.live.period, units.threshold),
            (flags.live.auto, flags.live.period, flags.threshold)
        );
    }
}
