//! The configuration of the timerlat and osnoise tracers, and of the threads that measure.

use std::path::PathBuf;

use super::{Attach, Priority, ThresholdAction, duration, number};
use wakelat_kernel::cpus::Cpus;
use wakelat_tracefs::osnoise_tracers::{Tracer, TracerEvents, TracerSetup};

/// Where records are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// By BPF if the samples are tracepoints, otherwise from the trace buffer.
    #[default]
    Auto,
    /// By BPF.
    Bpf,
    /// From the trace buffer.
    Buffer,
}

/// One measuring thread in user space, as configured by the run that starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserThreadConfig {
    /// The process that starts the thread; the thread ends with it.
    pub parent: u32,
    /// The CPU on which it runs.
    pub cpu: u32,
    /// How it is scheduled.
    pub priority: Priority,
    /// `timerlat_fd` of that CPU.
    pub fd: PathBuf,
    /// The command that it runs at every activation, with `sh -c`.
    pub load: Option<String>,
}

/// The configuration of a run of a tracer.
#[derive(Clone, Debug)]
pub struct TracerConfig {
    /// What the tracer measures, and where.
    pub setup: TracerSetup,
    /// Where records are read from.
    pub source: SourceChoice,
    /// How programs are attached, if any are.
    pub attach: Attach,
    /// Size of the ring buffer: bytes, a power of two, at least a page.
    pub ring_bytes: u32,
    /// The CPUs on which wakelat's own threads run.
    pub house_keeping: Option<Cpus>,
    /// The longest C-state exit latency that the CPUs may have: µs.
    pub dma_latency_us: Option<i32>,
    /// The action when a latency reaches a stop limit.
    pub action: ThresholdAction,
    /// The file to which the records are saved in the tracer's text format.
    pub trace: Option<PathBuf>,
    /// The events that are recorded besides the samples.
    pub events: TracerEvents,
    /// Whether single noises of osnoise must be recorded, whatever is shown.
    pub wants_single_noise: bool,
}

impl TracerConfig {
    /// A run of the tracer with the kernel's settings on all CPUs, without limits.
    pub(crate) fn new(tracer: Tracer) -> Self {
        Self {
            setup: TracerSetup::new(tracer),
            source: SourceChoice::Auto,
            attach: Attach::Auto,
            ring_bytes: RING_BYTES,
            house_keeping: None,
            dma_latency_us: None,
            action: ThresholdAction::Stop,
            trace: None,
            events: TracerEvents::default(),
            wants_single_noise: false,
        }
    }

    /// Whether a single noise can stop the run without being recorded itself.
    pub fn stops_unrecorded(&self) -> bool {
        self.setup.tracer == Tracer::Osnoise && self.setup.stop_us.is_some() && !self.events.single_noises
    }

    /// Whether the kernel stops the run at a threshold, and only at one that the records show.
    pub fn records_what_stops(&self) -> bool {
        let has_threshold = self.setup.stop_us.or(self.setup.stop_total_us).is_some();
        has_threshold && self.stops_in_kernel() && !self.stops_unrecorded()
    }

    /// Whether the kernel may have stopped the run at a threshold although no record shows it. `is_complete` is whether
    /// no record was lost.
    pub fn may_stop_without_a_record(&self, is_complete: bool) -> bool {
        self.stops_in_kernel() && self.stops_unrecorded() || self.records_what_stops() && !is_complete
    }

    /// The interval at which to read records: ns. A result that needs only osnoise's samples, one per
    /// period, can wait.
    pub fn drain_interval_ns(&self) -> u64 {
        match (self.setup.tracer, self.events.is_samples_only()) {
            (Tracer::Osnoise, true) => LONG_DRAIN_INTERVAL_NS,
            _ => DRAIN_INTERVAL_NS,
        }
    }

    /// Whether the kernel stops the tracer by itself: not if the run continues after the action.
    pub fn stops_in_kernel(&self) -> bool {
        self.setup.stops_in_kernel
    }
}

/// Room for more than a second of a busy machine: some 5 records of 128 bytes per activation, 1000
/// activations a second, and 16 CPUs.
const RING_BYTES: u32 = 16 * 1024 * 1024;
/// Often enough that no buffer of the kernel's default size overflows, and seldom enough not to disturb.
const DRAIN_INTERVAL_NS: u64 = 50_000_000;
/// As seldom as rtla: each read is noise that wakelat itself makes.
const LONG_DRAIN_INTERVAL_NS: u64 = 1_000_000_000;

/// Parses `o:NICE`, `r:PRIO`, `f:PRIO` or `d:RUNTIME:PERIOD`, as rtla does.
pub fn priority(text: &str) -> Result<Priority, String> {
    let refused =
        || format!("`{text}` is not a priority; expected `f:1-99`, `r:1-99`, `o:-20-19` or `d:RUNTIME:PERIOD`");
    let (policy, rest) = text.split_once(':').ok_or_else(refused)?;
    match policy {
        "o" => {
            let nice = rest.parse::<i8>().ok().filter(|nice| (-20..=19).contains(nice));
            nice.map(Priority::Other).ok_or_else(refused)
        }
        "r" => number::rt_priority(rest).map(Priority::RoundRobin),
        "f" => number::rt_priority(rest).map(Priority::Fifo),
        "d" => {
            let (runtime, period) = rest.split_once(':').ok_or_else(refused)?;
            let (runtime_ns, period_ns) = (duration::with_unit(runtime)?, duration::with_unit(period)?);
            if runtime_ns > period_ns {
                return Err(format!("`{text}`: the runtime is longer than the period; give a longer period"));
            }
            Ok(Priority::Deadline { runtime_ns, period_ns })
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_reads_back_as_it_was_written() {
        for text in ["o:-20", "o:19", "r:1", "f:99", "d:500000ns:1000000ns"] {
            assert_eq!(priority(text).unwrap().to_string(), text);
        }
        assert_eq!(priority("d:500us:1ms"), priority("d:500000ns:1000000ns"));
    }

    #[test]
    fn an_invalid_priority_is_rejected() {
        for text in ["", "95", "f:", "f:0", "f:100", "x:1", "o:20", "d:1ms", "d:2ms:1ms"] {
            assert!(priority(text).is_err(), "{text}");
        }
    }
}
