//! The live tracers, in rtla's words.

use std::path::PathBuf;

use clap::Args;

use crate::{
    config::{
        Attach, ConfigError, Priority, SourceChoice, ThresholdAction, Tracer, TracerConfig, UserThreadConfig,
        UserThreadsConfig, number, ranges::Ranges, span,
    },
    kernel::Machine,
};

/// Flags of both tracers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tracer")]
pub struct TracerFlags {
    /// Measure only on these CPUs, such as 0-3,8
    #[arg(short, long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub cpus: Option<Ranges>,

    /// Run wakelat itself only on these CPUs
    #[arg(short = 'H', long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub house_keeping: Option<Ranges>,

    /// Policy and priority of the measuring threads: f:PRIO, r:PRIO, o:NICE or d:RUNTIME:PERIOD
    #[arg(short = 'P', long, value_name = "PRIORITY", value_parser = Priority::parse, allow_hyphen_values = true)]
    pub priority: Option<Priority>,

    /// Move the measuring threads to this cgroup [without PATH: wakelat's own]
    #[arg(short = 'C', long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub cgroup: Option<String>,

    /// Set options of the tracer, such as OSNOISE_IRQ_DISABLE or NO_OSNOISE_PREEMPT_DISABLE
    #[arg(long, value_name = "OPTION", value_delimiter = ',')]
    pub options: Vec<String>,

    /// Save all records to a file in the tracer's text format, for --from
    #[arg(short, long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Action at the first latency over a stop limit: stop, continue, signal:NAME:PID or exec:COMMAND [default: stop]
    #[arg(long, value_name = "ACTION", value_parser = ThresholdAction::parse, allow_hyphen_values = true)]
    pub on_threshold: Option<ThresholdAction>,

    /// Read tracepoints (bpf), the trace buffer (buffer), or what this kernel supports (auto)
    #[arg(long, value_name = "SOURCE", default_value = "auto", hide_possible_values = true)]
    pub source: SourceChoice,

    /// How programs are attached: btf, raw, auto
    #[arg(long, value_name = "KIND", default_value = "auto", hide = true)]
    pub attach: Attach,
}

/// Flags of timerlat.
#[derive(Clone, Debug, Args)]
#[group(id = "LIVE", multiple = true)]
#[command(next_help_heading = "Timer (a bare number is microseconds)")]
pub struct TimerFlags {
    /// Period of the timer [default: 1ms]
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub period: Option<u64>,

    /// Stop if the IRQ latency reaches this
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub irq: Option<u64>,

    /// Stop if the thread latency reaches this
    #[arg(short = 'T', long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub thread: Option<u64>,

    /// Save the kernel stack that the IRQ interrupted if the thread latency reaches this
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub stack: Option<u64>,

    /// Stop if the thread latency reaches this, and save the stack (-T and -s in one)
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true, conflicts_with_all = ["thread", "stack"])]
    pub auto: Option<u64>,

    /// Measure with user-space threads, including the return to user space
    #[arg(short, long)]
    pub user_threads: bool,

    /// Run this command in each user-space thread at every activation, with sh -c
    #[arg(short = 'U', long, value_name = "COMMAND", requires = "user_threads")]
    pub user_load: Option<String>,

    /// Allow only C-states with at most this exit latency; 0 keeps CPUs out of C-states
    #[arg(long, value_name = "MICROSECONDS", value_parser = number::dma_latency, allow_hyphen_values = true)]
    pub dma_latency: Option<i32>,

    /// Flags of both tracers.
    #[command(flatten)]
    pub tracer: TracerFlags,
}

/// Flags of osnoise.
#[derive(Clone, Debug, Args)]
#[group(id = "LIVE", multiple = true)]
#[command(next_help_heading = "Noise (a bare number is microseconds)")]
pub struct NoiseFlags {
    /// Time from the start of one measurement to the next [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub period: Option<u64>,

    /// Length of each measurement [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub runtime: Option<u64>,

    /// Stop if a single noise is longer than this
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub stop: Option<u64>,

    /// Stop if the total noise of a measurement is longer than this
    #[arg(short = 'S', long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub stop_total: Option<u64>,

    /// Stop if a single noise is longer than this, and count noise from 1us (-s and -T 1 in one)
    #[arg(short, long, value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true, conflicts_with_all = ["stop", "noise"])]
    pub auto: Option<u64>,

    /// Shortest interruption that counts as noise [default: the kernel's]
    #[arg(short = 'T', long = "noise", value_name = "TIME", value_parser = span::microseconds, allow_hyphen_values = true)]
    pub noise: Option<u64>,

    /// Flags of both tracers.
    #[command(flatten)]
    pub tracer: TracerFlags,
}

impl TimerFlags {
    /// The configuration of the run.
    pub(crate) fn config(&self, machine: &Machine) -> Result<TracerConfig, ConfigError> {
        Ok(TracerConfig {
            period_us: self.period,
            print_stack_us: self.stack.or(self.auto),
            user: self.user_threads.then(|| UserThreadsConfig { load: self.user_load.clone() }),
            dma_latency_us: self.dma_latency,
            ..TracerConfig::new(Tracer::Timerlat, [self.irq, self.thread.or(self.auto)], &self.tracer, machine)?
        })
    }
}

impl NoiseFlags {
    /// The configuration of the run.
    pub(crate) fn config(&self, machine: &Machine) -> Result<TracerConfig, ConfigError> {
        let (period, runtime) = (self.period.unwrap_or(1_000_000), self.runtime.unwrap_or(1_000_000));
        if runtime > period {
            let why = format!("`{runtime}us` is longer than the period of `{period}us`");
            return Err(ConfigError::Usage(format!(
                "`--runtime`: {why}; give a longer `--period` or a shorter `--runtime`"
            )));
        }
        let stop_us = self.stop.or(self.auto);
        let config = TracerConfig::new(Tracer::Osnoise, [stop_us, self.stop_total], &self.tracer, machine)?;
        // The kernel reports that a noise stopped the run, but not which one; an action at each needs a
        // record of each.
        let wants_single_noise = self.auto.is_some() || stop_us.is_some() && !config.stops_in_kernel();
        Ok(TracerConfig {
            wants_single_noise,
            period_us: self.period,
            runtime_us: self.runtime,
            threshold_us: self.noise.or(self.auto.map(|_| 1)),
            ..config
        })
    }
}

/// Run one user-space measuring thread, started by wakelat itself; see [`crate::timerlat::live::user`]
#[derive(Clone, Debug, Args)]
pub struct ThreadFlags {
    /// The process that starts it
    #[arg(long)]
    parent: u32,

    /// Where it runs
    #[arg(long)]
    cpu: u32,

    /// How it is scheduled
    #[arg(long, value_parser = Priority::parse)]
    priority: Priority,

    /// `timerlat_fd` of that CPU
    #[arg(long)]
    fd: PathBuf,

    /// What it runs at every activation
    #[arg(long)]
    load: Option<String>,
}

impl From<ThreadFlags> for UserThreadConfig {
    fn from(flags: ThreadFlags) -> Self {
        let ThreadFlags { parent, cpu, priority, fd, load } = flags;
        Self { parent, cpu, priority, fd, load }
    }
}
