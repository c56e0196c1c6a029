//! `wakelat timerlat` and `wakelat osnoise`

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{
    CliError, OutputFlags, RenderFlags, WindowFlags,
    tracer::{NoiseFlags, TimerFlags},
};
use crate::{
    config::{OsnoiseConfig, TimerlatConfig, number, span},
    kernel::Machine,
    timerlat::render::{NoiseView, TimerlatView},
};

const TIMERLAT_EXAMPLES: &str = "\
Examples:
  wakelat timerlat -d 30s                                    what delays the worst activations
  wakelat timerlat hist -c 0-3 -p 500us -P f:95              distributions per CPU
  wakelat timerlat -a 50us                                   stop at the first latency of 50 us, with the stack
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
    #[arg(long, value_name = "TIME", value_parser = span::microseconds_as_ns, allow_hyphen_values = true)]
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

    /// Number of worst activations in why, and in hist, top and why with --json [default: 3]
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

/// Measure operating-system noise with the osnoise tracer: what it takes from a busy thread on each CPU
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
    #[arg(short, long, aliases = ["trigger", "filter"], value_name = "EVENT", value_parser = refused_event, hide = true)]
    pub event: Option<std::convert::Infallible>,
}

/// Rejects rtla's flag for other events: wakelat saves only the records that it reads, and can write
/// those as text.
fn refused_event(_: &str) -> Result<std::convert::Infallible, String> {
    Err("wakelat saves only the tracers' own records; record other events in a tracefs instance of your own, \
         such as `mkdir instances/mine; echo 1 > instances/mine/events/sched/enable`"
        .to_owned())
}

/// The buckets of hist, in rtla's words. Without any of these flags, there is a bucket for each power of two.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Histogram")]
pub struct HistogramFlags {
    /// Use buckets of N microseconds (--nano: nanoseconds) [default: powers of two, or 1 with --entries]
    #[arg(short, long, value_name = "N", value_parser = number::bucket_size, allow_hyphen_values = true)]
    pub bucket_size: Option<u64>,

    /// Use N such buckets; longer latencies count as over [default: 256 with --bucket-size]
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
    pub fn output(&self) -> OutputFlags {
        OutputFlags {
            json: self.json,
            csv: self.csv,
            quiet: self.quiet,
            render: self.render.clone(),
            ..OutputFlags::default()
        }
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
        TimerlatConfig::new(self, view, || Ok(self.live.config(&machine()?)?))
    }
}

impl OsnoiseFlags {
    pub(super) fn config(&self, machine: impl FnOnce() -> Result<Machine>) -> Result<OsnoiseConfig, CliError> {
        let view = match self.view {
            NoiseViewName::Hist => NoiseView::Hist,
            NoiseViewName::Top => NoiseView::Top,
        };
        OsnoiseConfig::new(self, view, || Ok(self.live.config(&machine()?)?))
    }
}
