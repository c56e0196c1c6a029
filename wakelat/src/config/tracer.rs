//! The timerlat and osnoise tracers: what they are told, and where their threads run.

use std::path::PathBuf;

use super::{Attach, ConfigError, ThresholdAction, TracerEvents, number, ranges::Ranges, span};
use crate::{
    cli::TracerFlags,
    kernel::{Machine, cpus::Cpus},
};

/// A tracer of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// A timer for each CPU, and a thread that it wakes.
    Timerlat,
    /// A thread for each CPU that looks for what keeps it from running.
    Osnoise,
}

impl Tracer {
    /// Both. The kernel runs one at a time.
    pub const ALL: [Self; 2] = [Self::Timerlat, Self::Osnoise];

    /// As `current_tracer` calls it, and the names of its threads begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timerlat => "timerlat",
            Self::Osnoise => "osnoise",
        }
    }

    /// The kernel option that brings it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Timerlat => "CONFIG_TIMERLAT_TRACER",
            Self::Osnoise => "CONFIG_OSNOISE_TRACER",
        }
    }

    /// The flags for what stops it.
    fn thresholds(self) -> &'static str {
        match self {
            Self::Timerlat => "`-i`, `-T` or `-a`, such as `-T 100us`",
            Self::Osnoise => "`-s`, `-S` or `-a`, such as `-s 100us`",
        }
    }

    /// The tracepoint of its samples, from 6.15 on.
    pub fn sample(self) -> &'static str {
        match self {
            Self::Timerlat => "timerlat_sample",
            Self::Osnoise => "osnoise_sample",
        }
    }
}

/// Where records are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SourceChoice {
    /// By BPF where the samples are tracepoints, else from the trace buffer
    #[default]
    Auto,
    /// By BPF
    Bpf,
    /// From the trace buffer
    Buffer,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// SCHED_OTHER, with this nice value.
    Other(i8),
    /// SCHED_RR.
    RoundRobin(u8),
    /// SCHED_FIFO.
    Fifo(u8),
    /// SCHED_DEADLINE; the deadline is the period.
    Deadline {
        /// How long it may run in each period: ns.
        runtime_ns: u64,
        /// ns.
        period_ns: u64,
    },
}

/// The cgroup of the measuring threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupChoice {
    /// wakelat's own.
    Own,
    /// By its path.
    Named(String),
}

/// Measuring by threads in user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserThreadsConfig {
    /// What each runs at every activation, with `sh -c`; none for nothing.
    pub load: Option<String>,
}

/// One such thread, as it is told by the run that starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserThreadConfig {
    /// The process that starts it, and with which it ends.
    pub parent: u32,
    /// Where it runs.
    pub cpu: u32,
    /// How it is scheduled.
    pub priority: Priority,
    /// `timerlat_fd` of that CPU.
    pub fd: PathBuf,
    /// What it runs at every activation, with `sh -c`.
    pub load: Option<String>,
}

/// A run of a tracer.
#[derive(Clone, Debug)]
pub struct TracerConfig {
    /// Which.
    pub tracer: Tracer,
    /// Where records are read.
    pub source: SourceChoice,
    /// How programs are attached, where they are.
    pub attach: Attach,
    /// Bytes of the ring buffer: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Where it measures; all CPUs that are online where none are named.
    pub cpus: Option<Cpus>,
    /// Where wakelat's own threads run.
    pub house_keeping: Option<Cpus>,
    /// The timer's period, or osnoise's: µs.
    pub period_us: Option<u64>,
    /// Of each of osnoise's periods, how long it measures: µs.
    pub runtime_us: Option<u64>,
    /// The latency in the interrupt, or the single noise, that stops the run: µs.
    pub stop_us: Option<u64>,
    /// The latency of the thread, or all noise in a period, that stops the run: µs.
    pub stop_total_us: Option<u64>,
    /// The latency from which the stack is saved: µs.
    pub print_stack_us: Option<u64>,
    /// What osnoise takes for a noise: µs.
    pub threshold_us: Option<u64>,
    /// Options of the tracer, by the words of `osnoise/options`.
    pub options: Vec<String>,
    /// Of the measuring threads; the tracer's own choice where none is given.
    pub priority: Option<Priority>,
    /// The longest way out of idle that the CPUs may have: µs.
    pub dma_latency_us: Option<i32>,
    /// Of the measuring threads; the kernel's choice where none is given.
    pub cgroup: Option<CgroupChoice>,
    /// Whether threads in user space measure.
    pub user: Option<UserThreadsConfig>,
    /// What happens when a latency reaches what stops.
    pub action: ThresholdAction,
    /// Where the records are saved as the tracer's own text.
    pub trace: Option<PathBuf>,
    /// What is recorded beside the samples.
    pub events: TracerEvents,
    /// Whether a single noise of osnoise is wanted by itself, whatever is shown.
    pub wants_single_noise: bool,
}

impl TracerConfig {
    /// Judges the flags that both tracers take by what this machine is, and with them what stops: µs, as
    /// [`Self::stop_us`] and [`Self::stop_total_us`].
    ///
    /// # Errors
    /// Where a value makes no sense, anywhere or on this machine.
    pub(crate) fn new(
        tracer: Tracer,
        [stop_us, stop_total_us]: [Option<u64>; 2],
        flags: &TracerFlags,
        machine: &Machine,
    ) -> Result<Self, ConfigError> {
        let cpus = |flag: &str, ranges: &Option<Ranges>| {
            ranges.as_ref().map(|ranges| online(flag, ranges, machine)).transpose()
        };
        if flags.on_threshold.is_some() && stop_us.or(stop_total_us).is_none() {
            let why = format!("there is no threshold; add {}", tracer.thresholds());
            return Err(ConfigError::usage("--on-threshold", why));
        }
        if let Some(ThresholdAction::Signal { pid, .. }) = flags.on_threshold
            && machine.task(pid).is_none()
        {
            return Err(ConfigError::unmet("--on-threshold", format!("there is no process `{pid}`")));
        }
        for option in &flags.options {
            check_option(option)?;
        }
        Ok(Self {
            tracer,
            source: flags.source,
            attach: flags.attach,
            ring_bytes: RING_BYTES,
            cpus: cpus("--cpus", &flags.cpus)?,
            house_keeping: cpus("--house-keeping", &flags.house_keeping)?,
            period_us: None,
            runtime_us: None,
            stop_us,
            stop_total_us,
            print_stack_us: None,
            threshold_us: None,
            options: flags.options.iter().map(|option| option.to_uppercase()).collect(),
            priority: flags.priority,
            dma_latency_us: None,
            cgroup: flags.cgroup.as_ref().map(|name| match name.as_str() {
                "" => CgroupChoice::Own,
                name => CgroupChoice::Named(name.to_owned()),
            }),
            user: None,
            action: flags.on_threshold.clone().unwrap_or(ThresholdAction::Stop),
            trace: flags.trace.clone(),
            events: TracerEvents::default(),
            wants_single_noise: false,
        })
    }

    /// The time between two activations of timerlat: ns.
    pub fn timer_period_ns(&self) -> Option<u64> {
        (self.tracer == Tracer::Timerlat).then(|| self.period_us.unwrap_or(TIMERLAT_PERIOD_US) * 1000)
    }

    /// Whether a single noise may stop the run that is not recorded itself.
    pub fn stops_unrecorded(&self) -> bool {
        self.tracer == Tracer::Osnoise && self.stop_us.is_some() && !self.events.single_noises
    }

    /// How often to read what there is: ns. A result that needs nothing but osnoise's samples, one a period, can wait.
    pub fn drain_interval_ns(&self) -> u64 {
        match (self.tracer, self.events.is_samples_only()) {
            (Tracer::Osnoise, true) => LONG_DRAIN_INTERVAL_NS,
            _ => DRAIN_INTERVAL_NS,
        }
    }

    /// Whether the kernel stops by itself: not where the run is to go on.
    pub fn stops_in_kernel(&self) -> bool {
        self.action == ThresholdAction::Stop
    }
}

/// The kernel's own (`DEFAULT_TIMERLAT_PERIOD`, kernel/trace/trace_osnoise.c).
pub const TIMERLAT_PERIOD_US: u64 = 1000;
/// Seconds of a busy machine: at some 5 records of 128 bytes an activation, 1000 activations a second, and 16 CPUs.
const RING_BYTES: u32 = 16 * 1024 * 1024;
/// Often enough that no buffer of the kernel's default size overflows, seldom enough that it is not felt.
const DRAIN_INTERVAL_NS: u64 = 50_000_000;
/// As seldom as rtla: each time is a noise that wakelat itself makes.
const LONG_DRAIN_INTERVAL_NS: u64 = 1_000_000_000;

fn online(flag: &str, ranges: &Ranges, machine: &Machine) -> Result<Cpus, ConfigError> {
    let cpus = Cpus::of(ranges).map_err(|_| ConfigError::usage(flag, "a CPU has a number from 0 on"))?;
    let online =
        Cpus::read(&machine.roots.sys, "online").map_err(|error| ConfigError::unmet(flag, format!("{error:#}")))?;
    // Looked up by its first CPU beyond: a list may be longer than any machine.
    let missing = cpus.iter().find(|cpu| !online.contains(*cpu));
    match missing {
        Some(cpu) => Err(ConfigError::usage(flag, format!("CPU `{cpu}` is not online; expected some of `{online}`"))),
        None => Ok(cpus),
    }
}

/// Options that a flag of its own stands for, or that no measurement wants.
fn check_option(option: &str) -> Result<(), ConfigError> {
    let word = option.to_uppercase();
    let why = match word.strip_prefix("NO_").unwrap_or(&word) {
        "PANIC_ON_STOP" => "it makes the kernel panic when a run stops, so wakelat leaves it alone",
        "OSNOISE_WORKLOAD" => "it is set by `--user-threads`",
        "DEFAULTS" => "it is a way to reset the others, which every run does by itself",
        word if word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !word.is_empty() => {
            return Ok(());
        }
        _ => "it is no name of an option; expected words such as `OSNOISE_IRQ_DISABLE`",
    };
    Err(ConfigError::usage("--options", format!("`{option}`: {why}")))
}

impl Priority {
    /// Reads `o:NICE`, `r:PRIO`, `f:PRIO` or `d:RUNTIME:PERIOD`, as rtla does.
    ///
    /// # Errors
    /// Where it is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused =
            || format!("`{text}` is no priority; expected `f:1-99`, `r:1-99`, `o:-20-19` or `d:RUNTIME:PERIOD`");
        let (policy, rest) = text.split_once(':').ok_or_else(refused)?;
        match policy {
            "o" => {
                let nice = rest.parse::<i8>().ok().filter(|nice| (-20..=19).contains(nice));
                nice.map(Self::Other).ok_or_else(refused)
            }
            "r" => number::rt_priority(rest).map(Self::RoundRobin),
            "f" => number::rt_priority(rest).map(Self::Fifo),
            "d" => {
                let (runtime, period) = rest.split_once(':').ok_or_else(refused)?;
                let (runtime_ns, period_ns) = (span::with_unit(runtime)?, span::with_unit(period)?);
                if runtime_ns > period_ns {
                    return Err(format!("`{text}`: a runtime cannot be longer than its period"));
                }
                Ok(Self::Deadline { runtime_ns, period_ns })
            }
            _ => Err(refused()),
        }
    }
}

impl std::fmt::Display for Priority {
    /// As [`Self::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other(nice) => write!(f, "o:{nice}"),
            Self::RoundRobin(priority) => write!(f, "r:{priority}"),
            Self::Fifo(priority) => write!(f, "f:{priority}"),
            Self::Deadline { runtime_ns, period_ns } => write!(f, "d:{runtime_ns}ns:{period_ns}ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_reads_back_as_it_was_written() {
        for text in ["o:-20", "o:19", "r:1", "f:99", "d:500000ns:1000000ns"] {
            assert_eq!(Priority::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Priority::parse("d:500us:1ms"), Priority::parse("d:500000ns:1000000ns"));
    }

    #[test]
    fn what_is_no_priority_is_refused() {
        for text in ["", "95", "f:", "f:0", "f:100", "x:1", "o:20", "d:1ms", "d:2ms:1ms"] {
            assert!(Priority::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_that_do_harm_or_have_a_flag_are_refused() {
        for option in ["PANIC_ON_STOP", "no_panic_on_stop", "OSNOISE_WORKLOAD", "DEFAULTS", "a b", ""] {
            assert!(check_option(option).is_err(), "{option}");
        }
        for option in ["OSNOISE_IRQ_DISABLE", "NO_OSNOISE_PREEMPT_DISABLE", "timerlat_align"] {
            check_option(option).unwrap();
        }
    }
}
