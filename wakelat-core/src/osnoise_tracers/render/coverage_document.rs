//! What a run of a tracer saw and what it did not, as JSON documents have it.

use serde::Serialize;

use super::super::{record::LostByCpu, summary::TimerlatCoverage};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TimerlatCoverageDocument {
    /// Activations with the latencies of both interrupt and thread.
    complete: u64,
    /// Activations without the latency of the interrupt.
    without_irq: u64,
    /// Activations without the latency of the thread.
    without_thread: u64,
    /// Activations without any record: gaps in the numbers.
    missing: u64,
    /// How often the clock or the numbers restarted.
    restarts: u64,
    /// Periods without an activation, because the tracer was still late from the previous one; `null` if the period
    /// is unknown, as in a saved trace.
    skipped: Option<u64>,
    /// Noise records. A live `hist` or `top` records none, and explains only the delay of the interrupt.
    noise: u64,
    /// Noise records that the activations lack, because one had more than wakelat keeps of it; their time is
    /// unexplained.
    noise_left_out: u64,
    /// Length of the window; for a saved trace, time from its first record to its last.
    duration_ns: u64,
    #[serde(flatten)]
    losses: LossesDocument,
}

impl TimerlatCoverageDocument {
    pub(super) fn new(coverage: &TimerlatCoverage) -> Self {
        let seen = coverage.activations;
        Self {
            complete: seen.complete,
            without_irq: seen.without_irq,
            without_thread: seen.without_thread,
            missing: seen.missing,
            restarts: seen.restarts,
            skipped: coverage.skipped,
            noise: coverage.noise,
            noise_left_out: coverage.noise_left_out,
            duration_ns: coverage.duration_ns,
            losses: LossesDocument::new(coverage),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LossesDocument {
    /// CPUs on which there was no room for events.
    lost: Vec<LostDocument>,
    /// Events that were overwritten before the trace was read.
    overwritten: u64,
    /// Events for which the kernel skipped a program because one was already active, on CPUs that it does not
    /// report; `null` if no program read the events: for a saved trace, or from the trace buffer.
    missed: Option<u64>,
    /// Events of other kinds.
    other: u64,
    /// Lines that were truncated or corrupt.
    broken: u64,
    /// Lines that do not belong to a trace.
    foreign: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LostDocument {
    /// The CPU.
    cpu: u32,
    /// Number of events that are known to be lost.
    events: u64,
    /// Number of losses of unknown size.
    unknown: u64,
}

impl LossesDocument {
    pub(super) fn new(coverage: &TimerlatCoverage) -> Self {
        let cpus: std::collections::BTreeSet<u32> =
            coverage.lost.keys().chain(coverage.lost_unknown.keys()).copied().collect();
        let of = |lost: &LostByCpu, cpu| lost.get(&cpu).copied().unwrap_or(0);
        let lost =
            |cpu| LostDocument { cpu, events: of(&coverage.lost, cpu), unknown: of(&coverage.lost_unknown, cpu) };
        Self {
            lost: cpus.into_iter().map(lost).collect(),
            overwritten: coverage.overwritten,
            missed: coverage.missed,
            other: coverage.other,
            broken: coverage.broken.lines,
            foreign: coverage.foreign.lines,
        }
    }
}
