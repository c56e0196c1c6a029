//! The summary of a run of the osnoise tracer: how much of a CPU is left to a thread that would use all of
//! it.

use std::collections::BTreeMap;

use super::{
    linear::{Bins, LinearHistogram},
    record::{OsnoisePeriod, TimerlatEvent, TimerlatRecord},
    summary::TimerlatCoverage,
};
use crate::{
    aggregate::{
        distribution::{Distribution, Maximum},
        percentile_rank::Percentile,
    },
    wait::Comm,
};

/// The summary of a run of the osnoise tracer.
#[derive(Clone, Debug, Default)]
pub struct NoiseSummary {
    /// The noise of each CPU.
    pub cpus: BTreeMap<u32, CpuNoise>,
    /// The noise of all CPUs together.
    pub all: CpuNoise,
    /// What was recorded and what was lost.
    pub coverage: TimerlatCoverage,
    /// Buckets of equal width in which single noises are also counted, if requested.
    pub bins: Option<Bins>,
    /// Whether the tracer runs now and records single noises; otherwise, the summary is of a saved trace.
    pub is_live: bool,
    first_at_ns: Option<u64>,
}

/// The noise of one CPU, or of all CPUs.
#[derive(Clone, Debug, Default)]
pub struct CpuNoise {
    /// Completed periods of the workload.
    pub periods: u64,
    /// How long the workload ran in these periods: ns.
    pub runtime_ns: u64,
    /// How much of that was noise: ns.
    pub noise_ns: u64,
    /// The most noise in one period: ns.
    pub max_noise_ns: u64,
    /// The longest single noise: ns.
    pub max_single_ns: u64,
    /// Counts by kind, from the records of periods. Use [`CpuNoise::counts()`], which also covers runs
    /// without a whole period.
    pub counts: NoiseCounts,
    /// The recorded single noises (`sample_threshold`): from one reading of the clock to the next,
    /// including the interferences between them.
    pub samples: Distribution,
    /// The counts of single noises in buckets of equal width; empty if not requested.
    pub linear: LinearHistogram,
    /// Single noises that begin where the previous one ended, with no interference between.
    pub back_to_back: u64,
    /// Counts by kind, from the records of interferences and single noises.
    seen: NoiseCounts,
    /// The end of the last single noise: ns.
    last_end_ns: Option<u64>,
    /// The last period, and the time of its record: ns.
    last_period: Option<(OsnoisePeriod, u64)>,
}

/// Maximum distance from the end of a noise to the start of the next for them to be back to back: ns. The
/// two clocks of a live record may drift apart by this much.
const BACK_TO_BACK_NS: u64 = 100;
/// Minimum number of back-to-back noises that is not a coincidence.
const MIN_NOISES: u64 = 100;

/// Counts of noise by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoiseCounts {
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

impl CpuNoise {
    /// The share of the runtime that was left to the workload, in hundred-thousandths of a percent, as many
    /// digits as rtla shows. `None` if no period has ended.
    pub fn available(&self) -> Option<u64> {
        let left = u128::from(self.runtime_ns.saturating_sub(self.noise_ns)) * 10_000_000;
        let share = left.checked_div(u128::from(self.runtime_ns))?;
        u64::try_from(share).ok()
    }

    /// The counts by kind: from the periods, or from the noise records if no period has ended.
    pub fn counts(&self) -> NoiseCounts {
        if self.periods > 0 { self.counts } else { self.seen }
    }

    /// The longest single noise: from the periods, or from the gaps if no period has ended: ns.
    pub fn max_single_ns(&self) -> u64 {
        if self.periods > 0 { self.max_single_ns } else { self.samples.max_ns() }
    }

    /// All noise: from the periods, or from the gaps if no period has ended: ns.
    pub fn noise_ns(&self) -> u128 {
        if self.periods > 0 { u128::from(self.noise_ns) } else { self.samples.sum_ns() }
    }

    /// Whether most of the single noises are the time that recording the previous one took. A record that
    /// takes longer than the noise threshold is a noise itself, which is recorded, and so on.
    pub fn is_mostly_recording(&self) -> bool {
        self.back_to_back >= MIN_NOISES && self.back_to_back * 2 > self.samples.count()
    }

    /// A noise threshold above the time that recording takes: whole µs, as ns.
    pub fn threshold_above_recording_ns(&self) -> u64 {
        self.samples.percentile_ns(Percentile::P50).saturating_mul(2).div_ceil(1_000).saturating_mul(1_000)
    }

    /// Whether the noise of `event` begins where the previous one ended. Remembers the end of this one for
    /// the next call.
    fn follows(&mut self, event: &TimerlatEvent) -> bool {
        let TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference } = *event else { return false };
        let before = self.last_end_ns.replace(start_ns.saturating_add(duration_ns));
        interference == 0 && before.is_some_and(|end_ns| start_ns.abs_diff(end_ns) <= BACK_TO_BACK_NS)
    }

    /// Whether `record` is the period of the last one, which is in the trace twice: as the line of the tracer, and as the
    /// event `osnoise_sample` (`record_osnoise_sample`, kernel/trace/trace_osnoise.c, since Linux 6.15). Another period
    /// of this CPU takes its runtime.
    fn repeats(&mut self, record: &TimerlatRecord) -> bool {
        let TimerlatEvent::Osnoise(period) = record.event else { return false };
        let before = self.last_period.replace((period, record.at_ns));
        before.is_some_and(|(same, at_ns)| {
            let passed_ns = record.at_ns.checked_sub(at_ns);
            same == period && passed_ns.is_some_and(|passed_ns| passed_ns < period.runtime_ns)
        })
    }

    fn push(&mut self, record: &TimerlatRecord, follows: bool, bins: Option<Bins>) {
        self.back_to_back += u64::from(follows);
        match &record.event {
            TimerlatEvent::Osnoise(period) => {
                self.periods += 1;
                self.runtime_ns = self.runtime_ns.saturating_add(period.runtime_ns);
                self.noise_ns = self.noise_ns.saturating_add(period.noise_ns);
                self.max_noise_ns = self.max_noise_ns.max(period.noise_ns);
                self.max_single_ns = self.max_single_ns.max(period.max_single_ns);
                let counts = &mut self.counts;
                for (sum, more) in [
                    (&mut counts.hw, period.hw),
                    (&mut counts.nmi, period.nmi),
                    (&mut counts.irq, period.irq),
                    (&mut counts.softirq, period.softirq),
                    (&mut counts.thread, period.thread),
                ] {
                    *sum = sum.saturating_add(more);
                }
            }
            TimerlatEvent::SampleThreshold { duration_ns, interference, .. } => {
                self.seen.hw += u64::from(*interference == 0);
                let (tid, comm) = record.task.map_or((0, Comm::default()), |task| (task.tid, task.comm));
                let (latency_ns, at_ns, cpu) = (*duration_ns, record.at_ns, record.cpu);
                if let Some(bins) = bins {
                    self.linear.record(bins, latency_ns);
                }
                self.samples.record(Maximum { latency_ns, at_ns, tid, comm, cpu });
            }
            TimerlatEvent::NmiNoise { .. } => self.seen.nmi += 1,
            TimerlatEvent::IrqNoise { .. } => self.seen.irq += 1,
            TimerlatEvent::SoftirqNoise { .. } => self.seen.softirq += 1,
            TimerlatEvent::ThreadNoise { .. } => self.seen.thread += 1,
            TimerlatEvent::Timerlat { .. } | TimerlatEvent::Stack { .. } | TimerlatEvent::Stopped { .. } => {}
        }
    }
}

impl NoiseSummary {
    /// Creates an empty summary, which also counts single noises in `bins`.
    pub fn new(bins: Option<Bins>) -> Self {
        Self { bins, ..Self::default() }
    }

    /// Adds a record. Ignores records of the timerlat tracer.
    pub fn push(&mut self, record: &TimerlatRecord) {
        if matches!(
            record.event,
            TimerlatEvent::Timerlat { .. } | TimerlatEvent::Stack { .. } | TimerlatEvent::Stopped { .. }
        ) {
            return;
        }
        let first = *self.first_at_ns.get_or_insert(record.at_ns);
        let coverage = &mut self.coverage;
        coverage.duration_ns = coverage.duration_ns.max(record.at_ns.saturating_sub(first));
        coverage.noise +=
            u64::from(!matches!(record.event, TimerlatEvent::Osnoise(_) | TimerlatEvent::SampleThreshold { .. }));
        let cpu = self.cpus.entry(record.cpu).or_default();
        if cpu.repeats(record) {
            return;
        }
        let follows = cpu.follows(&record.event);
        cpu.push(record, follows, self.bins);
        self.all.push(record, follows, self.bins);
    }

    /// Forgets all records, but not what was lost: those so far were of another workload.
    pub fn forget_noise(&mut self) {
        let coverage = TimerlatCoverage { noise: 0, duration_ns: 0, ..std::mem::take(&mut self.coverage) };
        *self = Self { coverage, bins: self.bins, is_live: self.is_live, ..Self::default() };
    }

    /// Counts lost records of a CPU; `None` if their number is unknown.
    pub fn lost(&mut self, cpu: u32, events: Option<u64>) {
        match events {
            Some(events) => {
                let lost = self.coverage.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(events);
            }
            None => *self.coverage.lost_unknown.entry(cpu).or_default() += 1,
        }
    }

    /// Whether there are no records of the osnoise tracer.
    pub fn is_empty(&self) -> bool {
        self.all.periods == 0 && self.all.samples.count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: TimerlatEvent) -> TimerlatRecord {
        TimerlatRecord { at_ns: 1, cpu: 0, task: None, event }
    }

    #[test]
    fn periods_are_added_up_as_rtla_does() {
        let mut summary = NoiseSummary::default();
        for noise_ns in [250_000_000, 50_000_000] {
            let period = OsnoisePeriod {
                runtime_ns: 1_000_000_000,
                noise_ns,
                max_single_ns: noise_ns / 10,
                hw: 1,
                irq: 3,
                ..OsnoisePeriod::default()
            };
            summary.push(&record(TimerlatEvent::Osnoise(period)));
        }
        let cpu = &summary.cpus[&0];
        assert_eq!((cpu.periods, cpu.available()), (2, Some(8_500_000)));
        assert_eq!((cpu.max_noise_ns, cpu.max_single_ns()), (250_000_000, 25_000_000));
        assert_eq!(cpu.counts(), NoiseCounts { hw: 2, irq: 6, ..NoiseCounts::default() });
    }

    #[test]
    fn a_period_that_is_in_the_trace_as_line_and_as_event_counts_once() {
        let mut summary = NoiseSummary::default();
        let period = OsnoisePeriod { runtime_ns: 1_000_000, noise_ns: 4_000, irq: 3, ..OsnoisePeriod::default() };
        // Twice on each of two CPUs, a later period with the same figures, and one of another trace.
        for (at_ns, cpu) in [(5_000, 0), (6_000, 1), (7_000, 0), (8_000, 1), (1_007_000, 0), (1_008_000, 0), (2_000, 0)]
        {
            summary.push(&TimerlatRecord { at_ns, cpu, task: None, event: TimerlatEvent::Osnoise(period) });
        }
        assert_eq!((summary.cpus[&0].periods, summary.cpus[&1].periods, summary.all.periods), (3, 1, 4));
        assert_eq!((summary.all.runtime_ns, summary.all.counts().irq), (4_000_000, 12));
    }

    /// A summary of single noises, each with its start, its duration and the number of interferences in it.
    fn singles(noises: impl IntoIterator<Item = (u64, u64, u64)>) -> NoiseSummary {
        let mut summary = NoiseSummary::default();
        for (start_ns, duration_ns, interference) in noises {
            let event = TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference };
            summary.push(&TimerlatRecord { at_ns: start_ns + duration_ns, cpu: 0, task: None, event });
        }
        summary
    }

    #[test]
    fn back_to_back_noises_are_the_cost_of_recording() {
        // A noise of 4 µs every 4 µs, within the accuracy of the clocks.
        let summary = singles((0..1_000).map(|n| (n * 4_000 + n % 3 * 20, 4_000, 0)));
        assert_eq!((summary.all.samples.count(), summary.all.back_to_back), (1_000, 999));
        assert!(summary.all.is_mostly_recording());
        assert_eq!(summary.all.threshold_above_recording_ns(), 8_000);
    }

    #[test]
    fn noises_with_a_gap_or_an_interference_are_not_the_cost_of_recording() {
        let apart = singles((0..1_000).map(|n| (n * 10_000, 4_000, 0)));
        let interrupts = singles((0..1_000).map(|n| (n * 4_000, 4_000, 1)));
        let few = singles((0..50).map(|n| (n * 4_000, 4_000, 0)));
        assert_eq!([&apart, &interrupts, &few].map(|summary| summary.all.back_to_back), [0, 0, 49]);
        assert!([apart, interrupts, few].iter().all(|summary| !summary.all.is_mostly_recording()));
    }

    #[test]
    fn noise_of_another_workload_is_forgotten_and_losses_are_not() {
        let mut summary = NoiseSummary::default();
        summary.push(&record(TimerlatEvent::NmiNoise { start_ns: 0, duration_ns: 1 }));
        summary.lost(0, Some(3));
        summary.forget_noise();
        assert!(summary.cpus.is_empty() && summary.all.counts() == NoiseCounts::default());
        assert_eq!((summary.coverage.noise, summary.coverage.lost[&0]), (0, 3));
    }

    #[test]
    fn a_run_without_a_whole_period_is_summed_up_from_its_gaps() {
        let mut summary = NoiseSummary::default();
        for (duration_ns, interference) in [(900, 0), (5_000, 2)] {
            summary.push(&record(TimerlatEvent::SampleThreshold { start_ns: 0, duration_ns, interference }));
        }
        summary.push(&record(TimerlatEvent::NmiNoise { start_ns: 0, duration_ns: 1 }));
        let cpu = &summary.cpus[&0];
        assert_eq!((cpu.available(), cpu.noise_ns(), cpu.max_single_ns()), (None, 5_900, 5_000));
        assert_eq!(cpu.counts(), NoiseCounts { hw: 1, nmi: 1, ..NoiseCounts::default() });
    }
}
