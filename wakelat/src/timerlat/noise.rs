//! What a run of the osnoise tracer comes to: how much of a CPU is left to a thread that wants all of it.

use std::collections::BTreeMap;

use super::{
    linear::{Bins, LinearHistogram},
    record::{TimerlatEvent, TimerlatRecord},
    summary::TimerlatCoverage,
};
use crate::{
    aggregate::{
        distribution::{Distribution, Maximum},
        rank::Percentile,
    },
    wait::Comm,
};

/// What a run of the osnoise tracer comes to.
#[derive(Clone, Debug, Default)]
pub struct NoiseSummary {
    /// By CPU.
    pub cpus: BTreeMap<u32, CpuNoise>,
    /// Of all CPUs.
    pub all: CpuNoise,
    /// What was seen and what was not.
    pub coverage: TimerlatCoverage,
    /// Buckets of one width in which single noises are counted too, where they are asked for.
    pub bins: Option<Bins>,
    first_at_ns: Option<u64>,
}

/// The noise of one CPU, or of all.
#[derive(Clone, Debug, Default)]
pub struct CpuNoise {
    /// The workload's periods that ended.
    pub periods: u64,
    /// How long the workload ran in them: ns.
    pub runtime_ns: u64,
    /// How much of that was noise: ns.
    pub noise_ns: u64,
    /// The most noise of a period: ns.
    pub max_noise_ns: u64,
    /// The longest single noise: ns.
    pub max_single_ns: u64,
    /// By kind: of the periods; of the noise records themselves where no period has ended.
    pub counts: NoiseCounts,
    /// The single noises that were recorded (`sample_threshold`): from one reading of the clock to the next, with the
    /// interferences between them.
    pub samples: Distribution,
    /// Their counts in buckets of one width: empty where none are asked for.
    pub linear: LinearHistogram,
    /// Those of them that begin where the one before ended, with no interference between.
    pub back_to_back: u64,
    /// What the records of interferences and single noises say themselves.
    seen: NoiseCounts,
    /// When the last single noise ended: ns.
    last_end_ns: Option<u64>,
}

/// So many ns may the beginning of a noise be from the end of the one before where they follow each other: by as much may
/// the two clocks of a live record move against each other.
const BACK_TO_BACK_NS: u64 = 100;
/// From so many noises on, a pattern is none by chance.
const MIN_NOISES: u64 = 100;

/// How often, by kind of noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoiseCounts {
    /// Hardware, firmware, a hypervisor: noise without an interference that the kernel knows.
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
    /// The part of the runtime that was left to the workload, in hundred-thousandths (rtla shows as many digits); none
    /// where no period has ended.
    pub fn available(&self) -> Option<u64> {
        let left = u128::from(self.runtime_ns.saturating_sub(self.noise_ns)) * 10_000_000;
        let part = left.checked_div(u128::from(self.runtime_ns))?;
        u64::try_from(part).ok()
    }

    /// The counts by kind: those of the periods, or of the noise records where no period has ended.
    pub fn counts(&self) -> NoiseCounts {
        if self.periods > 0 { self.counts } else { self.seen }
    }

    /// The longest single noise: of the periods, or of the gaps where no period has ended.
    pub fn max_single_ns(&self) -> u64 {
        if self.periods > 0 { self.max_single_ns } else { self.samples.max_ns() }
    }

    /// All noise: of the periods, or of the gaps where no period has ended.
    pub fn noise_ns(&self) -> u128 {
        if self.periods > 0 { u128::from(self.noise_ns) } else { self.samples.sum_ns() }
    }

    /// Whether most of the single noises are the time that recording the one before took: a record that takes longer than
    /// the noise threshold is a noise itself, which is recorded, and so on.
    pub fn is_mostly_recording(&self) -> bool {
        self.back_to_back >= MIN_NOISES && self.back_to_back * 2 > self.samples.count()
    }

    /// A noise threshold above what recording takes: whole µs, as ns.
    pub fn threshold_above_recording_ns(&self) -> u64 {
        self.samples.percentile_ns(Percentile::P50).saturating_mul(2).div_ceil(1_000).saturating_mul(1_000)
    }

    /// Whether the noise of `event` follows the one before at once; it is the one before from now on.
    fn follows(&mut self, event: &TimerlatEvent) -> bool {
        let TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference } = *event else { return false };
        let before = self.last_end_ns.replace(start_ns.saturating_add(duration_ns));
        interference == 0 && before.is_some_and(|end_ns| start_ns.abs_diff(end_ns) <= BACK_TO_BACK_NS)
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
    /// An empty run that counts single noises in `bins` too.
    pub fn new(bins: Option<Bins>) -> Self {
        Self { bins, ..Self::default() }
    }

    /// Takes a record. What the timerlat tracer says is passed over.
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
        let follows = cpu.follows(&record.event);
        cpu.push(record, follows, self.bins);
        self.all.push(record, follows, self.bins);
    }

    /// Takes note of lost records of a CPU.
    pub fn lost(&mut self, cpu: u32, events: Option<u64>) {
        match events {
            Some(events) => {
                let lost = self.coverage.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(events);
            }
            None => *self.coverage.lost_unknown.entry(cpu).or_default() += 1,
        }
    }

    /// Whether the osnoise tracer said anything.
    pub fn is_empty(&self) -> bool {
        self.all.periods == 0 && self.all.samples.count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timerlat::record::OsnoisePeriod;

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

    /// Single noises, each with its beginning, its length and how many interferences were in it.
    fn singles(noises: impl IntoIterator<Item = (u64, u64, u64)>) -> NoiseSummary {
        let mut summary = NoiseSummary::default();
        for (start_ns, duration_ns, interference) in noises {
            let event = TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference };
            summary.push(&TimerlatRecord { at_ns: start_ns + duration_ns, cpu: 0, task: None, event });
        }
        summary
    }

    #[test]
    fn noises_that_follow_each_other_without_a_gap_are_of_the_recording() {
        // Every 4 µs one of 4 µs, as far as the clocks can say.
        let summary = singles((0..1_000).map(|n| (n * 4_000 + n % 3 * 20, 4_000, 0)));
        assert_eq!((summary.all.samples.count(), summary.all.back_to_back), (1_000, 999));
        assert!(summary.all.is_mostly_recording());
        assert_eq!(summary.all.threshold_above_recording_ns(), 8_000);
    }

    #[test]
    fn noises_with_a_gap_or_an_interference_are_the_machines() {
        let apart = singles((0..1_000).map(|n| (n * 10_000, 4_000, 0)));
        let interrupts = singles((0..1_000).map(|n| (n * 4_000, 4_000, 1)));
        let few = singles((0..50).map(|n| (n * 4_000, 4_000, 0)));
        assert_eq!([&apart, &interrupts, &few].map(|summary| summary.all.back_to_back), [0, 0, 49]);
        assert!([apart, interrupts, few].iter().all(|summary| !summary.all.is_mostly_recording()));
    }

    #[test]
    fn a_run_without_a_whole_period_is_told_by_its_gaps() {
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
