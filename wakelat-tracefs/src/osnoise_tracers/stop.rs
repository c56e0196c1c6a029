//! Ends a run at the record that reached a threshold, for every source: the kernel stops only its own
//! buffers. Pure.

use crate::osnoise_tracers::{Tracer, TracerSetup};
use wakelat_core::osnoise_tracers::record::{TimerlatContext, TimerlatEvent, TimerlatRecord};

/// The thresholds. The kernel applies them, too (kernel/trace/trace_osnoise.c, 5.14 to 7.2).
#[derive(Clone, Copy, Debug)]
pub struct StopThresholds {
    tracer: Tracer,
    /// The threshold of the interrupt latency, or of a single noise: µs.
    stop_us: Option<u64>,
    /// The threshold of the thread and return-to-user latencies, or of all noise in a period: µs.
    stop_total_us: Option<u64>,
}

impl StopThresholds {
    /// The thresholds of a run.
    pub fn of(setup: &TracerSetup) -> Self {
        Self { tracer: setup.tracer, stop_us: setup.stop_us, stop_total_us: setup.stop_total_us }
    }

    /// The latency that reached its threshold, if any: what was measured, and its value in ns.
    pub fn reached(&self, event: &TimerlatEvent) -> Option<(&'static str, u64)> {
        let (what, ns, limit_us) = match (self.tracer, event) {
            (Tracer::Timerlat, TimerlatEvent::Timerlat { context: TimerlatContext::Irq, latency_ns, .. }) => {
                ("IRQ latency", *latency_ns, self.stop_us)
            }
            (Tracer::Timerlat, TimerlatEvent::Timerlat { context: TimerlatContext::Thread, latency_ns, .. }) => {
                ("thread latency", *latency_ns, self.stop_total_us)
            }
            (Tracer::Timerlat, TimerlatEvent::Timerlat { context: TimerlatContext::User, latency_ns, .. }) => {
                ("return-to-user latency", *latency_ns, self.stop_total_us)
            }
            (Tracer::Osnoise, TimerlatEvent::SampleThreshold { duration_ns, .. }) => {
                ("single noise", *duration_ns, self.stop_us)
            }
            (Tracer::Osnoise, TimerlatEvent::Osnoise(sample)) => {
                ("total noise of a measurement", sample.noise_ns, self.stop_total_us)
            }
            _ => return None,
        };
        let limit_us = limit_us.filter(|limit_us| *limit_us > 0)?;
        // timerlat stops at the threshold, in whole microseconds (`timerlat_irq`, `timerlat_main`); osnoise
        // above it (`run_osnoise`).
        let over = match self.tracer {
            Tracer::Timerlat => ns / 1000 >= limit_us,
            Tracer::Osnoise => ns > limit_us * 1000,
        };
        over.then_some((what, ns))
    }
}

/// Keeps the records up to the first latency over the threshold, and the stack of that latency, which
/// follows it.
#[derive(Debug)]
pub struct ThresholdCutoff {
    threshold: StopThresholds,
    stopped: bool,
}

impl ThresholdCutoff {
    /// Creates a cutoff that has seen no latency over the threshold.
    pub fn at(threshold: StopThresholds) -> Self {
        Self { threshold, stopped: false }
    }

    /// Whether the threshold was reached.
    pub fn is_reached(&self) -> bool {
        self.stopped
    }

    /// Returns the records to keep, with [`TimerlatEvent::Stopped`] after the one that stopped the run.
    pub fn truncate(&mut self, records: Vec<TimerlatRecord>) -> Vec<TimerlatRecord> {
        let mut passed = Vec::with_capacity(records.len());
        for record in records {
            if self.stopped {
                if matches!(record.event, TimerlatEvent::Stack { .. }) {
                    passed.push(record);
                }
                continue;
            }
            let reached = self.threshold.reached(&record.event);
            let (at_ns, cpu) = (record.at_ns, record.cpu);
            passed.push(record);
            if let Some((what, ns)) = reached {
                self.stopped = true;
                let reason = format!("the {what} on CPU {cpu} was {ns} ns");
                passed.push(TimerlatRecord { at_ns, cpu, task: None, event: TimerlatEvent::Stopped { reason } });
            }
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::osnoise_tracers::record::OsnoisePeriod;

    fn latency(at_ns: u64, context: TimerlatContext, latency_ns: u64) -> TimerlatRecord {
        TimerlatRecord { at_ns, cpu: 0, task: None, event: TimerlatEvent::Timerlat { seq: 1, context, latency_ns } }
    }

    fn threshold(tracer: Tracer, stop_us: u64, stop_total_us: u64) -> StopThresholds {
        StopThresholds { tracer, stop_us: Some(stop_us), stop_total_us: Some(stop_total_us) }
    }

    #[test]
    fn records_after_the_latency_that_stopped_are_dropped_except_its_stack() {
        let mut cut = ThresholdCutoff::at(threshold(Tracer::Timerlat, 0, 20));
        let stack = TimerlatRecord {
            at_ns: 4,
            cpu: 0,
            task: None,
            event: TimerlatEvent::Stack { seq: None, frames: Vec::new() },
        };
        let records = vec![
            latency(1, TimerlatContext::Irq, 50_000),
            latency(2, TimerlatContext::Thread, 19_999),
            latency(3, TimerlatContext::Thread, 20_000),
            stack.clone(),
            latency(5, TimerlatContext::Irq, 1),
        ];
        let passed = cut.truncate(records);
        assert!(cut.is_reached());
        let reason = "the thread latency on CPU 0 was 20000 ns".to_owned();
        assert_eq!(passed[3].event, TimerlatEvent::Stopped { reason });
        assert_eq!(passed[4], stack);
        assert_eq!(passed.len(), 5);
        assert_eq!(cut.truncate(vec![latency(6, TimerlatContext::Irq, 1)]), []);
    }

    #[test]
    fn the_tracers_compare_with_the_threshold_as_the_kernel_does() {
        let reached = |tracer, event| threshold(tracer, 20, 20).reached(&event).is_some();
        let noise = |duration_ns| TimerlatEvent::SampleThreshold { start_ns: 0, duration_ns, interference: 0 };
        assert!(!reached(Tracer::Osnoise, noise(20_000)) && reached(Tracer::Osnoise, noise(20_001)));
        let period = |noise_ns| TimerlatEvent::Osnoise(OsnoisePeriod { noise_ns, ..OsnoisePeriod::default() });
        assert!(!reached(Tracer::Osnoise, period(20_000)) && reached(Tracer::Osnoise, period(21_000)));
        assert!(!reached(Tracer::Timerlat, noise(20_001)));
        assert!(reached(Tracer::Timerlat, latency(0, TimerlatContext::Irq, 20_000).event));
    }
}
