//! What a run of the osnoise tracer comes to: how much of a CPU is left to a thread that wants all of it.

use std::collections::BTreeMap;

use super::{
    record::{Event, Record},
    summary::Coverage,
};
use crate::{
    aggregate::distribution::{Distribution, Maximum},
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
    pub coverage: Coverage,
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
    pub counts: Counts,
    /// The gaps that the workload saw (`sample_threshold`), net of the noise of which the kernel knows.
    pub samples: Distribution,
    /// What the noise records say themselves.
    seen: Counts,
}

/// How often, by kind of noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
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
    pub fn counts(&self) -> Counts {
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

    fn push(&mut self, record: &Record) {
        match &record.event {
            Event::Osnoise(period) => {
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
            Event::SampleThreshold { duration_ns, interference, .. } => {
                self.seen.hw += u64::from(*interference == 0);
                let (tid, comm) = record.task.map_or((0, Comm::default()), |task| (task.tid, task.comm));
                let (latency_ns, at_ns, cpu) = (*duration_ns, record.at_ns, record.cpu);
                self.samples.record(Maximum { latency_ns, at_ns, tid, comm, cpu });
            }
            Event::NmiNoise { .. } => self.seen.nmi += 1,
            Event::IrqNoise { .. } => self.seen.irq += 1,
            Event::SoftirqNoise { .. } => self.seen.softirq += 1,
            Event::ThreadNoise { .. } => self.seen.thread += 1,
            Event::Timerlat { .. } | Event::Stack { .. } | Event::Stopped { .. } => {}
        }
    }
}

impl NoiseSummary {
    /// Takes a record. What the timerlat tracer says is passed over.
    pub fn push(&mut self, record: &Record) {
        if matches!(record.event, Event::Timerlat { .. } | Event::Stack { .. } | Event::Stopped { .. }) {
            return;
        }
        let first = *self.first_at_ns.get_or_insert(record.at_ns);
        let coverage = &mut self.coverage;
        coverage.duration_ns = coverage.duration_ns.max(record.at_ns.saturating_sub(first));
        coverage.noise += u64::from(!matches!(record.event, Event::Osnoise(_) | Event::SampleThreshold { .. }));
        self.cpus.entry(record.cpu).or_default().push(record);
        self.all.push(record);
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
    use crate::timerlat::record::Osnoise;

    fn record(event: Event) -> Record {
        Record { at_ns: 1, cpu: 0, task: None, event }
    }

    #[test]
    fn periods_are_added_up_as_rtla_does() {
        let mut summary = NoiseSummary::default();
        for noise_ns in [250_000_000, 50_000_000] {
            let period = Osnoise {
                runtime_ns: 1_000_000_000,
                noise_ns,
                max_single_ns: noise_ns / 10,
                hw: 1,
                irq: 3,
                ..Osnoise::default()
            };
            summary.push(&record(Event::Osnoise(period)));
        }
        let cpu = &summary.cpus[&0];
        assert_eq!((cpu.periods, cpu.available()), (2, Some(8_500_000)));
        assert_eq!((cpu.max_noise_ns, cpu.max_single_ns()), (250_000_000, 25_000_000));
        assert_eq!(cpu.counts(), Counts { hw: 2, irq: 6, ..Counts::default() });
    }

    #[test]
    fn a_run_without_a_whole_period_is_told_by_its_gaps() {
        let mut summary = NoiseSummary::default();
        for (duration_ns, interference) in [(900, 0), (5_000, 2)] {
            summary.push(&record(Event::SampleThreshold { start_ns: 0, duration_ns, interference }));
        }
        summary.push(&record(Event::NmiNoise { start_ns: 0, duration_ns: 1 }));
        let cpu = &summary.cpus[&0];
        assert_eq!((cpu.available(), cpu.noise_ns(), cpu.max_single_ns()), (None, 5_900, 5_000));
        assert_eq!(cpu.counts(), Counts { hw: 1, nmi: 1, ..Counts::default() });
    }
}
