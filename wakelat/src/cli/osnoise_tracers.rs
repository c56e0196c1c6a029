//! The live tracers, in rtla's words.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValue};

use super::{named_value::named_value, resources::ATTACH};
use crate::config::{
    Attach, ConfigError, Priority, SourceChoice, ThresholdAction, TracerConfig, UserThreadConfig, duration, number,
    priority,
};
use wakelat_kernel::{Machine, cpus::Cpus, ranges::Ranges};
use wakelat_tracefs::osnoise_tracers::{CgroupChoice, Tracer, TracerSetup, UserThreadsConfig};

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
    #[arg(short = 'P', long, value_name = "PRIORITY", value_parser = priority, allow_hyphen_values = true)]
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

    /// Action when a stop limit is reached: stop, continue, signal:NAME:PID or exec:COMMAND [default: stop]
    #[arg(long, value_name = "ACTION", value_parser = ThresholdAction::parse, allow_hyphen_values = true)]
    pub on_threshold: Option<ThresholdAction>,

    /// Read tracepoints (bpf), the trace buffer (buffer), or what this kernel supports (auto)
    #[arg(long, value_name = "SOURCE", default_value = "auto", hide_possible_values = true)]
    pub source: SourceChoice,

    /// How programs are attached: btf, raw, auto
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = named_value(&ATTACH), hide = true)]
    pub attach: Attach,
}

/// Flags of timerlat.
#[derive(Clone, Debug, Args)]
#[group(id = "LIVE", multiple = true)]
#[command(next_help_heading = "Timer (a bare number is microseconds)")]
pub struct TimerFlags {
    /// Period of the timer [default: 1ms]
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub period: Option<u64>,

    /// Stop if the IRQ latency reaches this
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub irq: Option<u64>,

    /// Stop if the thread latency reaches this
    #[arg(short = 'T', long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub thread: Option<u64>,

    /// Save the kernel stack that the IRQ interrupted if the thread latency reaches this
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub stack: Option<u64>,

    /// Stop if the thread latency reaches this, and save the stack (-T and -s in one)
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true, conflicts_with_all = ["thread", "stack"])]
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
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub period: Option<u64>,

    /// Length of each measurement [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub runtime: Option<u64>,

    /// Stop if a single noise is longer than this
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub stop: Option<u64>,

    /// Stop if the total noise of a measurement is longer than this
    #[arg(short = 'S', long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub stop_total: Option<u64>,

    /// Stop if a single noise is longer than this, and count noise from 1us (-s and -T 1 in one)
    #[arg(short, long, value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true, conflicts_with_all = ["stop", "noise"])]
    pub auto: Option<u64>,

    /// Shortest interruption that counts as noise [default: the kernel's]
    #[arg(short = 'T', long = "noise", value_name = "TIME", value_parser = duration::microseconds, allow_hyphen_values = true)]
    pub noise: Option<u64>,

    /// Flags of both tracers.
    #[command(flatten)]
    pub tracer: TracerFlags,
}

impl ValueEnum for SourceChoice {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Auto, Self::Bpf, Self::Buffer]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let name = match self {
            Self::Auto => "auto",
            Self::Bpf => "bpf",
            Self::Buffer => "buffer",
        };
        Some(name.into())
    }
}

impl TracerFlags {
    /// The configuration of a run with these stop limits. The limits are in µs, as in
    /// [`TracerSetup::stop_us`] and [`TracerSetup::stop_total_us`].
    fn config(
        &self,
        tracer: Tracer,
        [stop_us, stop_total_us]: [Option<u64>; 2],
        machine: &Machine,
    ) -> Result<TracerConfig, ConfigError> {
        let cpus = |flag: &str, ranges: &Option<Ranges>| {
            ranges.as_ref().map(|ranges| online(flag, ranges, machine)).transpose()
        };
        if self.on_threshold.is_some() && stop_us.or(stop_total_us).is_none() {
            let why = format!("needs a threshold; add {}", stop_flags(tracer));
            return Err(ConfigError::usage("--on-threshold", why));
        }
        let action = self.on_threshold.clone().unwrap_or(ThresholdAction::Stop);
        action.check(machine)?;
        for option in &self.options {
            check_option(option)?;
        }
        let setup = TracerSetup {
            cpus: cpus("--cpus", &self.cpus)?,
            stop_us,
            stop_total_us,
            options: self.options.iter().map(|option| option.to_uppercase()).collect(),
            priority: self.priority,
            cgroup: self.cgroup.as_ref().map(|name| match name.as_str() {
                "" => CgroupChoice::Own,
                name => CgroupChoice::Named(name.to_owned()),
            }),
            stops_in_kernel: action == ThresholdAction::Stop,
            ..TracerSetup::new(tracer)
        };
        Ok(TracerConfig {
            setup,
            source: self.source,
            attach: self.attach,
            house_keeping: cpus("--house-keeping", &self.house_keeping)?,
            action,
            trace: self.trace.clone(),
            ..TracerConfig::new(tracer)
        })
    }
}

/// The flags for the stop limits of a tracer.
fn stop_flags(tracer: Tracer) -> &'static str {
    match tracer {
        Tracer::Timerlat => "`-i`, `-T` or `-a`, such as `-T 100us`",
        Tracer::Osnoise => "`-s`, `-S` or `-a`, such as `-s 100us`",
    }
}

/// The CPUs of the list, if all of them are online.
fn online(flag: &str, ranges: &Ranges, machine: &Machine) -> Result<Cpus, ConfigError> {
    let cpus = Cpus::of(ranges).map_err(|_| ConfigError::usage(flag, "expected CPU numbers of 0 or more"))?;
    let online =
        Cpus::read(&machine.roots.sys, "online").map_err(|error| ConfigError::unmet(flag, format!("{error:#}")))?;
    // Stops at the first CPU that is not online: a list may be longer than any machine.
    let missing = cpus.iter().find(|cpu| !online.contains(*cpu));
    match missing {
        Some(cpu) => Err(ConfigError::usage(
            flag,
            format!("CPU `{cpu}` is not online; expected online CPUs, which are `{online}`"),
        )),
        None => Ok(cpus),
    }
}

/// Rejects options that have a flag of their own, or that no measurement wants.
fn check_option(option: &str) -> Result<(), ConfigError> {
    let word = option.to_uppercase();
    let why = match word.strip_prefix("NO_").unwrap_or(&word) {
        "PANIC_ON_STOP" => "it makes the kernel panic when a run stops; leave it out",
        "OSNOISE_WORKLOAD" => "use `--user-threads`, which sets it",
        "DEFAULTS" => "it resets all options, which every run does anyway; leave it out",
        word if word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !word.is_empty() => {
            return Ok(());
        }
        _ => "not an option name; expected one such as `OSNOISE_IRQ_DISABLE`",
    };
    Err(ConfigError::usage("--options", format!("`{option}`: {why}")))
}

impl TimerFlags {
    /// The configuration of the run.
    pub(super) fn config(&self, machine: &Machine) -> Result<TracerConfig, ConfigError> {
        let mut config = self.tracer.config(Tracer::Timerlat, [self.irq, self.thread.or(self.auto)], machine)?;
        config.dma_latency_us = self.dma_latency;
        config.setup = TracerSetup {
            period_us: self.period,
            print_stack_us: self.stack.or(self.auto),
            user: self.user_threads.then(|| UserThreadsConfig { load: self.user_load.clone() }),
            ..config.setup
        };
        Ok(config)
    }
}

impl NoiseFlags {
    /// The configuration of the run.
    pub(super) fn config(&self, machine: &Machine) -> Result<TracerConfig, ConfigError> {
        let (period, runtime) = (self.period.unwrap_or(1_000_000), self.runtime.unwrap_or(1_000_000));
        if runtime > period {
            let why = format!("`{runtime}us` is longer than the period of `{period}us`");
            return Err(ConfigError::Usage(format!(
                "`--runtime`: {why}; give a longer `--period` or a shorter `--runtime`"
            )));
        }
        let stop_us = self.stop.or(self.auto);
        let mut config = self.tracer.config(Tracer::Osnoise, [stop_us, self.stop_total], machine)?;
        // The kernel reports that a noise stopped the run, but not which one; an action at each needs a
        // record of each.
        config.wants_single_noise = self.auto.is_some() || stop_us.is_some() && !config.stops_in_kernel();
        config.setup = TracerSetup {
            period_us: self.period,
            runtime_us: self.runtime,
            threshold_us: self.noise.or(self.auto.map(|_| 1)),
            ..config.setup
        };
        Ok(config)
    }
}

/// Run one user-space measuring thread, started by wakelat itself; see [`crate::commands::timerlat_thread`]
#[derive(Clone, Debug, Args)]
pub struct ThreadFlags {
    /// The process that starts it
    #[arg(long)]
    parent: u32,

    /// Where it runs
    #[arg(long)]
    cpu: u32,

    /// How it is scheduled
    #[arg(long, value_parser = priority)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmful_options_and_options_with_a_flag_are_rejected() {
        for option in ["PANIC_ON_STOP", "no_panic_on_stop", "OSNOISE_WORKLOAD", "DEFAULTS", "a b", ""] {
            assert!(check_option(option).is_err(), "{option}");
        }
        for option in ["OSNOISE_IRQ_DISABLE", "NO_OSNOISE_PREEMPT_DISABLE", "timerlat_align"] {
            check_option(option).unwrap();
        }
    }
}
