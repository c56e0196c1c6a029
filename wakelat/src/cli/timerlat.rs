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
    timerlat::sink::{NoiseView, TimerlatView},
};

const TIMERLAT_EXAMPLES: &str = "\
Examples:
  wakelat timerlat -d 30s                                    why the worst activations are late
  wakelat timerlat hist -c 0-3 -p 500us -P f:95              the distributions, CPU by CPU
  wakelat timerlat -a 50us                                   stop at the first that is 50 us late, with the stack
  wakelat timerlat --from trace.txt                          why the worst activations were late
  wakelat timerlat trace --from trace.txt --threshold 50us   a line for each of 50 us or more
  cat trace | wakelat timerlat hist --from -                 the distributions, CPU by CPU";

const OSNOISE_EXAMPLES: &str = "\
Examples:
  wakelat osnoise -d 30s -c 1-3           how much of each CPU noise takes
  wakelat osnoise --from trace.txt        how much of each CPU noise takes
  wakelat osnoise hist --from trace.txt   the distribution of single noises";

/// How late a timer's thread runs, and what made it late: the timerlat tracer explained
#[derive(Clone, Debug, Args)]
#[command(after_help = TIMERLAT_EXAMPLES)]
pub struct TimerlatFlags {
    /// What to show: hist, top, trace, why
    #[arg(value_enum, default_value = "why", hide_possible_values = true)]
    pub view: ViewName,

    /// The saved and shared flags.
    #[command(flatten)]
    pub saved: SavedFlags,

    /// Explain activations of this latency or more; a bare number is microseconds [default: all of them]
    #[arg(long, value_name = "TIME", value_parser = span::microseconds_as_ns, allow_hyphen_values = true)]
    pub threshold: Option<u64>,

    /// Show latencies in nanoseconds throughout
    #[arg(short, long)]
    pub nano: bool,

    /// Leave the latencies of the interrupt out of hist
    #[arg(long)]
    pub no_irq: bool,

    /// Leave the latencies of the thread out of hist
    #[arg(long)]
    pub no_thread: bool,

    /// How many of the worst activations why draws, or hist, top and why give with --json [default: 3]
    #[arg(long, value_name = "N", value_parser = number::worst, allow_hyphen_values = true)]
    pub worst: Option<usize>,

    /// The histogram.
    #[command(flatten)]
    pub histogram: HistogramFlags,

    /// For how long.
    #[command(flatten)]
    pub window: WindowFlags,

    /// What the tracer is told.
    #[command(flatten)]
    pub live: TimerFlags,
}

/// What operating-system noise takes from a thread that wants a whole CPU: the osnoise tracer
#[derive(Clone, Debug, Args)]
#[command(after_help = OSNOISE_EXAMPLES)]
pub struct OsnoiseFlags {
    /// What to show: hist, top
    #[arg(value_enum, default_value = "top", hide_possible_values = true)]
    pub view: NoiseViewName,

    /// The saved and shared flags.
    #[command(flatten)]
    pub saved: SavedFlags,

    /// The histogram.
    #[command(flatten)]
    pub histogram: HistogramFlags,

    /// For how long.
    #[command(flatten)]
    pub window: WindowFlags,

    /// What the tracer is told.
    #[command(flatten)]
    pub live: NoiseFlags,
}

/// A saved trace, and how and where what it says is shown.
///
/// These are not [`OutputFlags`], for `-T` is a threshold here, as in rtla.
#[derive(Clone, Debug, Args)]
pub struct SavedFlags {
    /// Explain the saved text of a trace instead of running the tracer; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["TracerFlags", "WindowFlags", "LIVE"])]
    pub from: Option<PathBuf>,

    /// JSON, one document, integers in ns
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    pub json: bool,

    /// CSV, integers in ns
    #[arg(long, help_heading = "Output")]
    pub csv: bool,

    /// Nothing but the result: no notes, and top only at the end
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Where, and how it is to look.
    #[command(flatten)]
    pub render: RenderFlags,

    /// Of rtla, and refused: a trace of further events
    #[arg(short, long, aliases = ["trigger", "filter"], value_name = "EVENT", value_parser = refused_event, hide = true)]
    pub event: Option<std::convert::Infallible>,
}

/// What wakelat saves is what it reads, which it can write as text.
fn refused_event(_: &str) -> Result<std::convert::Infallible, String> {
    Err("wakelat saves the records of the tracers and no other events; record these beside the run in a tracefs instance of \
         your own, such as `mkdir instances/mine; echo 1 > instances/mine/events/sched/enable`"
        .to_owned())
}

/// The buckets of hist, in rtla's words. Without any of these flags, there is a bucket for each power of two.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Histogram")]
pub struct HistogramFlags {
    /// Count in buckets of N microseconds, or with --nano of N nanoseconds [default: powers of two, or 1 with --entries]
    #[arg(short, long, value_name = "N", value_parser = number::bucket_size, allow_hyphen_values = true)]
    pub bucket_size: Option<u64>,

    /// Have N such buckets; longer values are counted as over [default: 256 with --bucket-size]
    #[arg(short = 'E', long, value_name = "N", value_parser = number::entries, allow_hyphen_values = true)]
    pub entries: Option<u64>,
}

/// A view of timerlat, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ViewName {
    /// The distributions
    Hist,
    /// A line for each CPU
    Top,
    /// A line for each activation
    Trace,
    /// Where the time went
    Why,
}

/// A view of osnoise, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NoiseViewName {
    /// The distributions
    Hist,
    /// A line for each CPU
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
