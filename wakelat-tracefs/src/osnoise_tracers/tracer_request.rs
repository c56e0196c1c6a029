//! What a tracer measures, and where.

use wakelat_kernel::{cpus::Cpus, thread_priority::Priority};

/// A tracer of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// A timer for each CPU, and a thread that it wakes.
    Timerlat,
    /// A thread for each CPU that detects what keeps it from running.
    Osnoise,
}

impl Tracer {
    /// Both tracers. The kernel runs one at a time.
    pub const ALL: [Self; 2] = [Self::Timerlat, Self::Osnoise];

    /// The name in `current_tracer`, which also begins the names of its threads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timerlat => "timerlat",
            Self::Osnoise => "osnoise",
        }
    }

    /// The kernel option that enables it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Timerlat => "CONFIG_TIMERLAT_TRACER",
            Self::Osnoise => "CONFIG_OSNOISE_TRACER",
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

/// The cgroup of the measuring threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupChoice {
    /// wakelat's own.
    Own,
    /// By its path.
    Named(String),
}

/// Measurement by threads in user space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserThreadsConfig {
    /// The command that each thread runs at every activation, with `sh -c`; none for nothing.
    pub load: Option<String>,
}

/// What a tracer measures, and where. What is not given is the kernel's default.
#[derive(Clone, Debug)]
pub struct TracerSetup {
    /// Which tracer runs.
    pub tracer: Tracer,
    /// The CPUs to measure; none for all CPUs that are online.
    pub cpus: Option<Cpus>,
    /// The period of the timer, or of osnoise: µs.
    pub period_us: Option<u64>,
    /// How long osnoise measures in each of its periods: µs.
    pub runtime_us: Option<u64>,
    /// The IRQ latency, or the single noise, that stops the run: µs.
    pub stop_us: Option<u64>,
    /// The thread latency, or the total noise of a period, that stops the run: µs.
    pub stop_total_us: Option<u64>,
    /// The thread latency from which the stack is saved: µs.
    pub print_stack_us: Option<u64>,
    /// The shortest interruption that osnoise counts as noise: µs.
    pub threshold_us: Option<u64>,
    /// Options of the tracer, as named in `osnoise/options`.
    pub options: Vec<String>,
    /// Scheduling of the measuring threads; none for the tracer's default.
    pub priority: Option<Priority>,
    /// Cgroup of the measuring threads; none for the kernel's choice.
    pub cgroup: Option<CgroupChoice>,
    /// Whether threads in user space measure.
    pub user: Option<UserThreadsConfig>,
    /// Whether the kernel stops the tracer by itself at a stop limit.
    pub stops_in_kernel: bool,
}

impl TracerSetup {
    /// The tracer with the kernel's settings on all CPUs, without limits.
    pub fn new(tracer: Tracer) -> Self {
        Self {
            tracer,
            cpus: None,
            period_us: None,
            runtime_us: None,
            stop_us: None,
            stop_total_us: None,
            print_stack_us: None,
            threshold_us: None,
            options: Vec::new(),
            priority: None,
            cgroup: None,
            user: None,
            stops_in_kernel: true,
        }
    }

    /// The time between two activations of timerlat: ns; none for osnoise.
    pub fn timer_period_ns(&self) -> Option<u64> {
        (self.tracer == Tracer::Timerlat).then(|| self.period_us.unwrap_or(TIMERLAT_PERIOD_US) * 1000)
    }
}

/// The kernel's default period (`DEFAULT_TIMERLAT_PERIOD`, kernel/trace/trace_osnoise.c).
pub const TIMERLAT_PERIOD_US: u64 = 1000;
