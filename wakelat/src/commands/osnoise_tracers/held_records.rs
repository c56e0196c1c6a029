//! Holds the records of a window back until it cannot begin anew any more. Pure.

use std::collections::{BTreeSet, VecDeque};

use wakelat_core::osnoise_tracers::record::{LostByCpu, TimerlatRecord};
use wakelat_tracefs::osnoise_tracers::stop::StopThresholds;

/// Maximum number of records that are held: some 16 MiB.
pub const MAX_HELD: usize = 131_072;

/// How long records wait for the first samples of the other CPUs, after the first sample of any was read: ns. A CPU
/// whose thread gets no CPU time, or that went offline, must not keep the results of all others back.
pub const MAX_HOLD_NS: u64 = 1_000_000_000;

/// The records of a window that are not shown yet, because the window may have to begin anew.
///
/// The kernel records a latency first, and stops recording later (`run_osnoise`, `timerlat_irq` and `timerlat_main`,
/// kernel/trace/trace_osnoise.c, 5.14 to 7.2). A window that begins in between is stopped although nothing in it has
/// reached the threshold. A CPU stops recording before it records its next sample, so it can no longer do so once it
/// has a sample in the window. That of one CPU says nothing about the others.
#[derive(Debug)]
pub struct HeldRecords {
    /// The CPUs that can stop the window for a latency from before it.
    cpus: BTreeSet<u32>,
    threshold: StopThresholds,
    /// Those without a sample in the window.
    unsampled: BTreeSet<u32>,
    /// At most [`MAX_HELD`].
    records: VecDeque<TimerlatRecord>,
    /// Records that were dropped and are not reported as lost yet, by CPU.
    dropped: LostByCpu,
    /// When the first sample was read: ns of CLOCK_MONOTONIC.
    sampled_at_ns: Option<u64>,
    /// A record has reached the threshold.
    is_reached: bool,
    /// Records were taken out to be shown.
    is_shown: bool,
}

impl HeldRecords {
    /// For a window that has not begun. `cpus` are those that measure; none if no recorded latency stops the run, so
    /// that nothing is held back.
    pub fn new(cpus: impl IntoIterator<Item = u32>, threshold: StopThresholds) -> Self {
        let cpus: BTreeSet<u32> = cpus.into_iter().collect();
        Self {
            unsampled: cpus.clone(),
            cpus,
            threshold,
            records: VecDeque::new(),
            dropped: LostByCpu::new(),
            sampled_at_ns: None,
            is_reached: false,
            is_shown: false,
        }
    }

    /// Begins the window, for the first time or anew.
    pub fn begin(&mut self) {
        *self = Self::new(std::mem::take(&mut self.cpus), self.threshold);
    }

    /// Whether no record of the window was shown: it can begin anew.
    pub fn can_begin_anew(&self) -> bool {
        !self.is_shown
    }

    /// Whether a CPU may still stop recording for a latency from before the window, and no record so far has reached
    /// the threshold.
    pub fn may_stop_from_before(&self) -> bool {
        !self.unsampled.is_empty() && !self.is_reached
    }

    /// Takes over records of the window that were read at `now_ns` (CLOCK_MONOTONIC). Returns whether those that are
    /// held are to be shown: the window cannot begin anew any more, or was held long enough.
    pub fn push(&mut self, records: Vec<TimerlatRecord>, now_ns: u64) -> bool {
        for record in records.iter().filter(|record| record.event.is_sample()) {
            self.unsampled.remove(&record.cpu);
            self.sampled_at_ns.get_or_insert(now_ns);
            self.is_reached |= self.threshold.reached(&record.event).is_some();
        }
        self.records.extend(records);
        let excess = self.records.len().saturating_sub(MAX_HELD);
        if self.is_shown || self.is_reached || self.unsampled.is_empty() {
            return true;
        }
        if let Some(sampled_at_ns) = self.sampled_at_ns {
            return excess > 0 || now_ns.saturating_sub(sampled_at_ns) >= MAX_HOLD_NS;
        }
        // The oldest ones, none of them a sample: what reaches a threshold is never dropped.
        for record in self.records.drain(..excess) {
            *self.dropped.entry(record.cpu).or_default() += 1;
        }
        false
    }

    /// The records to show, oldest first. From now on, the window cannot begin anew.
    pub fn take(&mut self) -> Vec<TimerlatRecord> {
        self.is_shown = true;
        Vec::from(std::mem::take(&mut self.records))
    }

    /// Records that were dropped since the last call, by CPU.
    pub fn take_dropped(&mut self) -> LostByCpu {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::osnoise_tracers::record::{TimerlatContext, TimerlatEvent};
    use wakelat_tracefs::osnoise_tracers::{Tracer, TracerSetup};

    fn held(cpus: impl IntoIterator<Item = u32>) -> HeldRecords {
        let setup = TracerSetup { stop_total_us: Some(10), ..TracerSetup::new(Tracer::Timerlat) };
        HeldRecords::new(cpus, StopThresholds::of(&setup))
    }

    fn latency(at_ns: u64, cpu: u32, latency_ns: u64) -> TimerlatRecord {
        let event = TimerlatEvent::Timerlat { seq: 1, context: TimerlatContext::Thread, latency_ns };
        TimerlatRecord { at_ns, cpu, task: None, event }
    }

    fn noise(at_ns: u64) -> TimerlatRecord {
        let event = TimerlatEvent::NmiNoise { start_ns: at_ns, duration_ns: 1 };
        TimerlatRecord { at_ns, cpu: 0, task: None, event }
    }

    #[test]
    fn a_sample_of_one_cpu_does_not_end_the_wait_for_another() {
        let mut held = held([0, 1]);
        assert!(!held.push(vec![latency(1, 0, 1)], 1) && held.may_stop_from_before() && held.can_begin_anew());
        assert!(held.push(vec![latency(3, 1, 1)], 3) && !held.may_stop_from_before());
        assert_eq!(held.take().len(), 2);
        assert!(!held.can_begin_anew());
        held.begin();
        assert!(held.can_begin_anew() && held.may_stop_from_before());
    }

    #[test]
    fn a_cpu_without_samples_keeps_the_others_back_only_for_a_time() {
        let mut held = held([0, 1]);
        assert!(!held.push(vec![noise(1)], 10 * MAX_HOLD_NS));
        let sampled_at_ns = 10 * MAX_HOLD_NS;
        assert!(!held.push(vec![latency(sampled_at_ns, 0, 1)], sampled_at_ns));
        assert!(!held.push(Vec::new(), sampled_at_ns + MAX_HOLD_NS - 1));
        assert!(held.push(Vec::new(), sampled_at_ns + MAX_HOLD_NS));
        assert_eq!(held.take().len(), 2);
        // Nothing more is held, but that CPU may still stop the run.
        assert!(held.push(vec![latency(sampled_at_ns + 1, 0, 1)], sampled_at_ns) && held.may_stop_from_before());
    }

    #[test]
    fn what_reaches_the_threshold_is_shown_at_once() {
        let mut held = held([0, 1]);
        assert!(held.push(vec![latency(2, 0, 10_000)], 2) && !held.may_stop_from_before());
    }

    #[test]
    fn of_too_many_records_without_a_sample_the_oldest_are_dropped_and_counted() {
        let mut held = held([0]);
        assert!(!held.push((1..=MAX_HELD as u64 + 5).map(noise).collect(), 1));
        assert_eq!((held.take_dropped(), held.take_dropped()), (LostByCpu::from([(0, 5)]), LostByCpu::new()));
        let records = held.take();
        assert_eq!((records.len(), records[0].at_ns), (MAX_HELD, 6));
    }

    #[test]
    fn without_a_stop_limit_nothing_is_held_or_dropped() {
        let mut held = held([]);
        assert!(held.push((0..2 * MAX_HELD as u64).map(noise).collect(), 1) && !held.may_stop_from_before());
        assert_eq!((held.take().len(), held.take_dropped()), (2 * MAX_HELD, LostByCpu::new()));
    }

    #[test]
    fn too_many_records_with_a_sample_are_shown_and_none_is_dropped() {
        let mut held = held([0, 1]);
        assert!(!held.push(vec![latency(1, 0, 1)], 1));
        assert!(held.push((0..MAX_HELD as u64).map(|n| noise(2 + n)).collect(), 2));
        assert_eq!((held.take().len(), held.take_dropped()), (MAX_HELD + 1, LostByCpu::new()));
    }
}
