//! Records of the tracers and of the noise tracepoints, the same for every source.
//!
//! The fields are those of `kernel/trace/trace_entries.h` (`osnoise_entry`, `timerlat_entry`) and
//! `include/trace/events/osnoise.h`, unchanged from Linux 5.17 to 7.2 except for `timerlat_sample`, which
//! 6.15 added.

use wakelat_common::sample::COMM_LEN;

use crate::wait::Comm;

/// A record of a tracer or of a noise tracepoint. A source emits the records of each CPU in the order of
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerlatRecord {
    /// The time of the record: ns, on the same clock as `start_ns` of noise. This is CLOCK_MONOTONIC for a
    /// live tracer, and the clock of the trace for the text of a trace.
    pub at_ns: u64,
    /// The CPU of the record.
    pub cpu: u32,
    /// The task that was running, if the source reports it.
    pub task: Option<TracedTask>,
    /// The event.
    pub event: TimerlatEvent,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TracedTask {
    /// The TID; 0 is the idle task.
    pub tid: u32,
    /// The name.
    pub comm: Comm,
}

/// The event of a record. Durations of noise are net: they exclude what interrupted the noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerlatEvent {
    /// A latency of an activation. It is gross: the whole time since the timer was due.
    Timerlat {
        /// The number of the activation on its CPU, from 1.
        seq: u64,
        /// Where the latency was measured.
        context: TimerlatContext,
        /// The time since the timer was due: ns.
        latency_ns: u64,
    },
    /// The totals of a period of the osnoise workload.
    Osnoise(OsnoisePeriod),
    /// An interrupt.
    IrqNoise {
        /// The number of the interrupt, or its vector if it is one of the architecture's own.
        vector: i32,
        /// The kernel's name for it, such as `local_timer` or `qxl`.
        desc: String,
        /// The start: ns.
        start_ns: u64,
        /// The net duration: ns.
        duration_ns: u64,
    },
    /// A softirq.
    SoftirqNoise {
        /// The number of the softirq (`enum` in include/linux/interrupt.h).
        vector: i32,
        /// The start: ns.
        start_ns: u64,
        /// The net duration: ns.
        duration_ns: u64,
    },
    /// A non-maskable interrupt.
    NmiNoise {
        /// The start: ns.
        start_ns: u64,
        /// The duration: ns.
        duration_ns: u64,
    },
    /// A thread that had the CPU. Recorded when it is switched out.
    ThreadNoise {
        /// The TID of the thread.
        tid: u32,
        /// The name of the thread.
        comm: Comm,
        /// The start: ns. If the timer interrupted the thread, the start of the timer's interrupt.
        start_ns: u64,
        /// The net duration: ns.
        duration_ns: u64,
    },
    /// A gap between two consecutive readings of the clock by the osnoise workload.
    SampleThreshold {
        /// The start: ns.
        start_ns: u64,
        /// The gross duration: ns, including the interferences (`run_osnoise`,
        /// kernel/trace/trace_osnoise.c).
        duration_ns: u64,
        /// The number of NMIs, interrupts, softirqs and threads in the gap.
        interference: u64,
    },
    /// The stack that the timer's interrupt found, innermost function first. See `osnoise/print_stack`.
    Stack {
        /// The activation to which the stack belongs, if the source reports it.
        seq: Option<u64>,
        /// The functions.
        frames: Vec<KernelFrame>,
    },
    /// The tracer stopped because a latency reached `stop_tracing_us` or `stop_tracing_total_us`.
    Stopped {
        /// The reason that the source gives.
        reason: String,
    },
}

impl TimerlatEvent {
    /// Whether a measuring thread or timer recorded its own measurement: a latency, a single noise or a
    /// period.
    pub fn is_sample(&self) -> bool {
        matches!(self, Self::Timerlat { .. } | Self::SampleThreshold { .. } | Self::Osnoise(_))
    }
}

/// Where a latency is measured: `timerlat_lat_context` in kernel/trace/trace_osnoise.c and trace_output.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerlatContext {
    /// In the timer's interrupt.
    Irq,
    /// In the thread that the interrupt woke.
    Thread,
    /// In a user-space thread, when it returns to wait for the next activation.
    User,
}

impl TimerlatContext {
    /// All contexts, in the order of an activation.
    pub const ALL: [Self; 3] = [Self::Irq, Self::Thread, Self::User];

    /// The context for the kernel's number, which is `timer_lat.context` of a record.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The name in rtla.
    pub fn name(self) -> &'static str {
        match self {
            Self::Irq => "IRQ",
            Self::Thread => "Thr",
            Self::User => "Usr",
        }
    }
}

/// The totals of a period of the osnoise workload: `struct osnoise_sample`, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsnoisePeriod {
    /// How long the workload ran: ns.
    pub runtime_ns: u64,
    /// How much of the runtime was noise: ns.
    pub noise_ns: u64,
    /// The longest single noise: ns.
    pub max_single_ns: u64,
    /// Noises without an interference that the kernel knows: hardware, firmware or a hypervisor.
    pub hw: u64,
    /// Non-maskable interrupts.
    pub nmi: u64,
    /// Interrupts.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Threads.
    pub thread: u64,
}

/// A function of a kernel stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelFrame {
    /// The name, with what the source appends to it: `delay_tsc`, `delay_tsc+0x1f/0x40 [module]`.
    Symbol(String),
    /// The address, if the name is not known.
    Address(u64),
}

impl std::fmt::Display for KernelFrame {
    /// Writes the name or the address, with control characters escaped.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Symbol(name) => name.chars().try_for_each(|c| match c.is_control() {
                true => write!(f, "{}", c.escape_default()),
                false => write!(f, "{c}"),
            }),
            Self::Address(address) => write!(f, "{address:#x}"),
        }
    }
}

/// Records that a source lost, by CPU.
pub type LostByCpu = std::collections::BTreeMap<u32, u64>;

/// Makes a name from at most 16 bytes, ended by a NUL if it is shorter.
pub fn comm(bytes: &[u8]) -> Comm {
    let mut comm = [0; COMM_LEN];
    let length = bytes.len().min(COMM_LEN);
    comm[..length].copy_from_slice(&bytes[..length]);
    Comm::new(&comm)
}
