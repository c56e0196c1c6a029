//! What the tracers and the tracepoints of noise say, one thing at a time, whatever source it came from.
//!
//! The fields are those of `kernel/trace/trace_entries.h` (`osnoise_entry`, `timerlat_entry`) and
//! `include/trace/events/osnoise.h`, the same from Linux 5.17 to 7.2 but for `timerlat_sample`, which 6.15 added.

use crate::wait::Comm;

/// One thing a tracer or a tracepoint of noise said. A source hands them over in the order of time on each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerlatRecord {
    /// When it was said: ns of the same clock as the `start_ns` of noise. Live, that is CLOCK_MONOTONIC; in the text of a
    /// trace, the trace's own clock.
    pub at_ns: u64,
    /// The CPU it was said on.
    pub cpu: u32,
    /// Who ran there, where the source tells.
    pub task: Option<TracedTask>,
    /// What was said.
    pub event: TimerlatEvent,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TracedTask {
    /// Its id; 0 is the idle task.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
}

/// What was said. Durations of noise are net: without what interrupted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerlatEvent {
    /// A latency of an activation. It is gross: all the time since the timer was due.
    Timerlat {
        /// The activation's number on its CPU, from 1.
        seq: u64,
        /// Where it was measured.
        context: TimerlatContext,
        /// ns since the timer was due.
        latency_ns: u64,
    },
    /// The sum of a period of the osnoise workload.
    Osnoise(OsnoisePeriod),
    /// An interrupt.
    IrqNoise {
        /// The interrupt's number, or its vector where it is one of the architecture's own.
        vector: i32,
        /// What the kernel calls it: `local_timer`, `qxl`.
        desc: String,
        /// When it began: ns.
        start_ns: u64,
        /// How long it took: net ns.
        duration_ns: u64,
    },
    /// A softirq.
    SoftirqNoise {
        /// Its number (`enum` in include/linux/interrupt.h).
        vector: i32,
        /// When it began: ns.
        start_ns: u64,
        /// How long it took: net ns.
        duration_ns: u64,
    },
    /// A non-maskable interrupt.
    NmiNoise {
        /// When it began: ns.
        start_ns: u64,
        /// How long it took: ns.
        duration_ns: u64,
    },
    /// A thread that had the CPU, said when it was switched out.
    ThreadNoise {
        /// The thread.
        tid: u32,
        /// Its name.
        comm: Comm,
        /// When it began, or when the timer's interrupt did while it ran: ns.
        start_ns: u64,
        /// How long it took: net ns.
        duration_ns: u64,
    },
    /// A gap that the osnoise workload saw between two readings of the clock.
    SampleThreshold {
        /// When it began: ns.
        start_ns: u64,
        /// How long it was: gross ns, with the interferences in it (`run_osnoise`, kernel/trace/trace_osnoise.c).
        duration_ns: u64,
        /// How many NMIs, interrupts, softirqs and threads there were in it.
        interference: u64,
    },
    /// The stack that the timer's interrupt found, innermost function first: see `osnoise/print_stack`.
    Stack {
        /// The activation it belongs to, where the source tells.
        seq: Option<u64>,
        /// The functions.
        frames: Vec<KernelFrame>,
    },
    /// The tracer stopped because a latency reached `stop_tracing_us` or `stop_tracing_total_us`.
    Stopped {
        /// What the source says about it.
        reason: String,
    },
}

/// Where a latency is measured: `timerlat_lat_context` in kernel/trace/trace_osnoise.c and trace_output.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerlatContext {
    /// In the timer's interrupt.
    Irq,
    /// In the thread that it woke.
    Thread,
    /// When that thread, of user space, came back for the next activation.
    User,
}

impl TimerlatContext {
    /// All of them, in the order of an activation.
    pub const ALL: [Self; 3] = [Self::Irq, Self::Thread, Self::User];

    /// The context of the kernel's number for it: `timer_lat.context` of a record.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// rtla's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Irq => "IRQ",
            Self::Thread => "Thr",
            Self::User => "Usr",
        }
    }
}

/// The sum of a period of the osnoise workload: `struct osnoise_sample`, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsnoisePeriod {
    /// How long the workload ran: ns.
    pub runtime_ns: u64,
    /// How much of it was noise: ns.
    pub noise_ns: u64,
    /// The longest single noise: ns.
    pub max_single_ns: u64,
    /// Noises without any interference that the kernel knows: hardware, firmware, a hypervisor.
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

/// A function of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelFrame {
    /// Its name, with what else the source says of it: `delay_tsc`, `delay_tsc+0x1f/0x40 [module]`.
    Symbol(String),
    /// Its address, where nothing else is known.
    Address(u64),
}

impl std::fmt::Display for KernelFrame {
    /// Writes the name or the address, control characters escaped.
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

/// What a source could not hand over, per CPU.
pub type LostByCpu = std::collections::BTreeMap<u32, u64>;

/// The names of softirqs by their number (`softirq_to_name`, kernel/softirq.c).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The name of a softirq.
pub fn softirq_name(vector: i32) -> Option<&'static str> {
    SOFTIRQS.get(usize::try_from(vector).ok()?).copied()
}
