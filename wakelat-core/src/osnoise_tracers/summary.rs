//! The summary of a timerlat run: latencies by CPU and context, time by cause, the longest activations, the
//! coverage.

use std::collections::BTreeMap;

use super::{
    assemble::{ActivationCounts, Assembler},
    explain::{ExplainedActivation, LatencyCause},
    linear::{Bins, LinearHistogram},
    record::{LostByCpu, TimerlatContext, TimerlatEvent, TimerlatRecord},
    skipped_periods::PeriodCounter,
};
use crate::{
    aggregate::distribution::{Distribution, Maximum},
    wait::Comm,
};

/// Options of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerlatSummaryOptions {
    /// The latency from which an activation is explained: ns. `None` explains all of them.
    pub threshold_ns: Option<u64>,
    /// The number of longest activations to keep.
    pub worst: usize,
    /// The precision of `at_ns` of the records: ns.
    pub resolution_ns: u64,
    /// The time between two activations: ns. `None` if the source does not report it.
    pub period_ns: Option<u64>,
    /// Buckets of equal width in which latencies are also counted, if requested.
    pub bins: Option<Bins>,
    /// Whether the records come from a running tracer, and not from a saved trace.
    pub is_live: bool,
}

/// The summary of a run.
#[derive(Clone, Debug)]
pub struct TimerlatSummary {
    /// The options with which it was made.
    pub options: TimerlatSummaryOptions,
    /// The latencies of each CPU.
    pub cpus: BTreeMap<u32, Latencies>,
    /// The latencies of all CPUs.
    pub all: Latencies,
    /// The time of the explained activations, by cause.
    pub shares: BTreeMap<LatencyCause, ShareSum>,
    /// The number of explained activations.
    pub explained: u64,
    /// The sum of the latencies of the explained activations: ns.
    pub explained_ns: u128,
    /// The longest activations, longest first.
    pub worst: Vec<ExplainedActivation>,
    /// What was recorded and what was lost.
    pub coverage: TimerlatCoverage,
}

/// The latencies of one CPU, or of all CPUs.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    contexts: [Distribution; 3],
    linear: [LinearHistogram; 3],
    current: [Option<u64>; 3],
    /// Activations whose last latency reached the threshold.
    pub over: u64,
}

impl Latencies {
    /// The distribution of a context.
    pub fn of(&self, context: TimerlatContext) -> &Distribution {
        &self.contexts[context as usize]
    }

    /// The counts of a context in buckets of equal width; empty if not requested.
    pub fn linear(&self, context: TimerlatContext) -> &LinearHistogram {
        &self.linear[context as usize]
    }

    /// The most recent latency of a context: ns.
    pub fn current_ns(&self, context: TimerlatContext) -> Option<u64> {
        self.current[context as usize]
    }
}

/// The time of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareSum {
    /// The total: ns.
    pub ns: u128,
    /// The most in one activation: ns.
    pub max_ns: u64,
    /// The latency of the activation with the most: ns.
    pub max_of_ns: u64,
    /// The number of activations with this cause.
    pub activations: u64,
    /// The number of times that the cause occurred.
    pub times: u64,
}

/// What was recorded and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerlatCoverage {
    /// What became of the activations.
    pub activations: ActivationCounts,
    /// Periods for which the tracer made no activation. `None` if the period is not known.
    pub skipped: Option<u64>,
    /// Records lost between the kernel and wakelat, by CPU.
    pub lost: LostByCpu,
    /// Losses of an unknown number of records, by CPU.
    pub lost_unknown: LostByCpu,
    /// Events that were overwritten in the ring buffers before they were read.
    pub overwritten: u64,
    /// Events for which the kernel skipped a BPF program, on unknown CPUs. `None` if no programs were used.
    pub missed: Option<u64>,
    /// Events of other kinds.
    pub other: u64,
    /// Lines that are not part of a trace, with the first of them.
    pub foreign: UnreadLines,
    /// Lines that are truncated or malformed, with the first of them.
    pub broken: UnreadLines,
    /// Noise records: NMIs, interrupts, softirqs and threads. Without any, nothing can be explained.
    pub noise: u64,
    /// Noise records that activations lack, because they had more than are kept of one. Their time is unexplained.
    pub noise_left_out: u64,
    /// How long was measured: ns. The length of the window of a live run, known at its end; until then, and for a
    /// saved trace, the time from the first record to the last.
    pub duration_ns: u64,
}

/// Lines that could not be parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadLines {
    /// The number of lines.
    pub lines: u64,
    /// The error of the first line.
    pub first: Option<String>,
}

impl UnreadLines {
    /// Counts a line.
    pub fn add(&mut self, why: impl std::fmt::Display) {
        self.lines += 1;
        if self.first.is_none() {
            self.first = Some(why.to_string());
        }
    }
}

/// Sums up a run, record by record.
#[derive(Debug)]
pub struct TimerlatSummaryBuilder {
    assembler: Assembler,
    summary: TimerlatSummary,
    periods: Option<PeriodCounter>,
    first_at_ns: Option<u64>,
}

impl TimerlatSummaryBuilder {
    /// Creates an empty summary.
    pub fn new(options: TimerlatSummaryOptions) -> Self {
        let summary = TimerlatSummary {
            options,
            cpus: BTreeMap::new(),
            all: Latencies::default(),
            shares: BTreeMap::new(),
            explained: 0,
            explained_ns: 0,
            worst: Vec::new(),
            coverage: TimerlatCoverage::default(),
        };
        let periods = options.period_ns.map(PeriodCounter::new);
        Self { assembler: Assembler::default(), summary, periods, first_at_ns: None }
    }

    /// Adds a record. Returns the completed activations that reached the threshold.
    pub fn push(&mut self, record: TimerlatRecord) -> Vec<ExplainedActivation> {
        let first = *self.first_at_ns.get_or_insert(record.at_ns);
        let coverage = &mut self.summary.coverage;
        coverage.duration_ns = coverage.duration_ns.max(record.at_ns.saturating_sub(first));
        coverage.noise += u64::from(matches!(
            record.event,
            TimerlatEvent::IrqNoise { .. }
                | TimerlatEvent::SoftirqNoise { .. }
                | TimerlatEvent::NmiNoise { .. }
                | TimerlatEvent::ThreadNoise { .. }
        ));
        if let TimerlatEvent::Timerlat { .. } = record.event {
            self.summary.cpus.entry(record.cpu).or_default();
        }
        let closed = self.assembler.push(record);
        self.add(closed)
    }

    /// Counts lost records of a CPU; `None` if their number is unknown.
    pub fn lost(&mut self, cpu: u32, events: Option<u64>) {
        self.assembler.lost(cpu);
        let coverage = &mut self.summary.coverage;
        match events {
            Some(events) => {
                let lost = coverage.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(events);
            }
            None => *coverage.lost_unknown.entry(cpu).or_default() += 1,
        }
    }

    /// The coverage, for counts that only the source knows.
    pub fn coverage(&mut self) -> &mut TimerlatCoverage {
        &mut self.summary.coverage
    }

    /// The summary so far, without activations that are not complete.
    pub fn so_far(&mut self) -> &TimerlatSummary {
        self.count();
        &self.summary
    }

    /// The summary of the whole run, and those of the remaining activations that reached the threshold.
    pub fn end(mut self) -> (TimerlatSummary, Vec<ExplainedActivation>) {
        let open = self.assembler.end();
        let over = self.add(open);
        self.count();
        (self.summary, over)
    }

    fn count(&mut self) {
        self.summary.coverage.activations = self.assembler.counts();
        self.summary.coverage.skipped = self.periods.as_ref().map(PeriodCounter::skipped);
    }

    fn add(&mut self, closed: Vec<super::assemble::Activation>) -> Vec<ExplainedActivation> {
        let resolution_ns = self.summary.options.resolution_ns;
        let explained = closed.into_iter().filter_map(|activation| ExplainedActivation::new(activation, resolution_ns));
        let (summary, periods) = (&mut self.summary, &mut self.periods);
        explained
            .inspect(|one| {
                if let Some(periods) = periods {
                    periods.push(one.activation.cpu, one.activation.seq, one.due_at_ns);
                }
            })
            .filter(|one| summary.add(one))
            .collect()
    }
}

impl TimerlatSummary {
    /// Adds an activation. Returns whether it reached the threshold.
    fn add(&mut self, one: &ExplainedActivation) -> bool {
        let over = self.options.threshold_ns.is_none_or(|threshold| one.latency_ns >= threshold);
        self.coverage.noise_left_out += one.activation.noise_left_out;
        for latencies in [self.cpus.entry(one.activation.cpu).or_default(), &mut self.all] {
            for context in TimerlatContext::ALL {
                let Some(measured) = one.activation.measured(context) else { continue };
                let (tid, comm) = measured.task.map_or((0, Comm::default()), |task| (task.tid, task.comm));
                latencies.current[context as usize] = Some(measured.latency_ns);
                if let Some(bins) = self.options.bins {
                    latencies.linear[context as usize].record(bins, measured.latency_ns);
                }
                latencies.contexts[context as usize].record(Maximum {
                    latency_ns: measured.latency_ns,
                    at_ns: measured.at_ns,
                    tid,
                    comm,
                    cpu: one.activation.cpu,
                });
            }
            latencies.over += u64::from(over && self.options.threshold_ns.is_some());
        }
        if !over {
            return false;
        }
        self.explained += 1;
        self.explained_ns += u128::from(one.latency_ns);
        for share in &one.shares {
            let sum = self.shares.entry(share.cause.on_any_cpu()).or_default();
            sum.ns += u128::from(share.ns);
            if share.ns > sum.max_ns {
                (sum.max_ns, sum.max_of_ns) = (share.ns, one.latency_ns);
            }
            sum.activations += 1;
            sum.times += share.times;
        }
        let index = self.worst.partition_point(|worse| worse.latency_ns >= one.latency_ns);
        if index < self.options.worst {
            self.worst.insert(index, one.clone());
            self.worst.truncate(self.options.worst);
        }
        true
    }

    /// Whether a user-space thread measured.
    pub fn has_user(&self) -> bool {
        self.all.of(TimerlatContext::User).count() > 0
    }

    /// The contexts that were measured.
    pub fn contexts(&self) -> Vec<TimerlatContext> {
        TimerlatContext::ALL
            .into_iter()
            .filter(|context| *context != TimerlatContext::User || self.has_user())
            .collect()
    }

    /// The sums of all causes, largest first.
    pub fn shares_by_size(&self) -> Vec<(&LatencyCause, &ShareSum)> {
        let mut shares: Vec<_> = self.shares.iter().collect();
        shares.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise_tracers::{
        fixtures,
        text::{TraceItem, TraceReader},
    };

    fn sum(text: &str, threshold_ns: Option<u64>, worst: usize) -> TimerlatSummary {
        let mut builder = TimerlatSummaryBuilder::new(TimerlatSummaryOptions {
            threshold_ns,
            worst,
            resolution_ns: 1_000,
            ..TimerlatSummaryOptions::default()
        });
        let mut trace = TraceReader::new(text.as_bytes());
        while let Some(item) = trace.next().unwrap() {
            if let Ok(TraceItem::Record(record)) = item {
                builder.push(record);
            }
        }
        builder.end().0
    }

    #[test]
    fn latencies_are_added_up_per_cpu_and_context() {
        let summary = sum(fixtures::DOCUMENTATION[0], None, 2);
        let figures = |latencies: &Latencies, context| {
            let of: &Distribution = latencies.of(context);
            (of.count(), of.min_ns(), of.avg_ns(), of.max_ns())
        };
        assert_eq!(figures(&summary.cpus[&0], TimerlatContext::Irq), (2, 769, 850, 932));
        assert_eq!(figures(&summary.cpus[&1], TimerlatContext::Thread), (2, 4_351, 7_085, 9_820));
        assert_eq!(figures(&summary.all, TimerlatContext::Thread), (4, 3_070, 7_235, 11_700));
        assert_eq!(summary.cpus[&0].current_ns(TimerlatContext::Thread), Some(3_070));
        assert_eq!(summary.worst.iter().map(|one| one.latency_ns).collect::<Vec<_>>(), [11_700, 9_820]);
    }

    #[test]
    fn the_idle_tasks_of_all_cpus_are_one_cause() {
        // The timer's interrupt finds `swapper/0` on one CPU and `swapper/1` on the other.
        let text = "\
          <idle>-0 [000] d.h1.  10.000003: #1 context irq timer_latency 2000 ns
          <idle>-0 [000] d.h1.  10.000004: thread_noise: swapper/0:0 start 10.000003000 duration 500 ns
      timerlat/0-9 [000] .....  10.000005: #1 context thread timer_latency 4000 ns
          <idle>-0 [001] d.h1.  10.000003: #1 context irq timer_latency 2000 ns
          <idle>-0 [001] d.h1.  10.000004: thread_noise: swapper/1:0 start 10.000003000 duration 700 ns
      timerlat/1-9 [001] .....  10.000005: #1 context thread timer_latency 4000 ns\n";
        let summary = sum(text, None, 9);
        let blocking: Vec<_> =
            summary.shares.iter().filter(|(cause, _)| matches!(cause, LatencyCause::Blocking(_))).collect();
        assert_eq!(blocking.len(), 1, "{blocking:?}");
        assert_eq!((blocking[0].1.ns, blocking[0].1.activations), (1_200, 2));
        // Each activation keeps its own idle task.
        assert!(format!("{:?}", summary.worst).contains("swapper/1"), "{:?}", summary.worst);
    }

    #[test]
    fn the_threshold_counts_and_selects() {
        let summary = sum(fixtures::DOCUMENTATION[0], Some(5_000), 9);
        assert_eq!((summary.all.over, summary.cpus[&0].over, summary.explained), (2, 1, 2));
        assert_eq!(summary.explained_ns, 11_700 + 9_820);
    }

    #[test]
    fn the_sums_of_the_shares_are_the_sum_of_the_latencies() {
        for (name, text) in fixtures::CAPTURES {
            let summary = sum(text, None, 3);
            let shares: u128 = summary.shares.values().map(|sum| sum.ns).sum();
            assert_eq!(shares, summary.explained_ns, "{name}");
            let seen = summary.coverage.activations;
            assert_eq!(summary.explained, seen.complete + seen.without_irq + seen.without_thread, "{name}");
            assert!(summary.coverage.noise > 0, "{name}");
        }
    }
}
