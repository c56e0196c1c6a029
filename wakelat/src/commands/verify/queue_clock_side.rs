//! The third instrument: a program on `sched_switch` that measures the window by the run queue's own clock, and the
//! kernel's counters of its run queues at the window's edges.

use std::path::Path;

use anyhow::{Context as _, Result};
use wakelat_common::{Class, filter::part};

use super::{
    checks::{self, Check},
    distributions,
    queue_clock::{self, ClassComparison, NAME, QueueClockCounts, TracepointLosses, WaitsBetweenReadings},
    run_queues::{self, RunQueueReading},
    setup::settings_of,
    window::TimeBracket,
};
use crate::{
    collect::{AggregatedWaits, Collector, Settings},
    config::{Attach, InjectedError, VerifyConfig},
    session::{Environment, clock::monotonic_ns},
};
use wakelat_core::{
    report::{LatencyFrom, SwitchInTerms},
    wait::Wait,
};
use wakelat_kernel::{
    btf::{self, BtfTypes},
    run_queue_schedstat::RunQueueSchedstat,
};

/// The attached program, which aggregates in the kernel and needs no ring buffer, and the waits by the tracepoints
/// that it is compared with.
pub struct QueueClockSide {
    collector: Collector,
    waits: WaitsBetweenReadings,
    before: SwitchInTerms,
    /// Events that the kernel had skipped when the window began; `None` if it does not count them.
    missed_before: Option<u64>,
    counts: QueueClockCounts,
    /// The kernel's counters when the window began and ended, if it has them.
    run_queues: [Option<RunQueueReading>; 2],
    /// Whether the program counts every task, as the run queues do.
    all_tasks: bool,
    from: LatencyFrom,
    plant: Option<InjectedError>,
}

impl QueueClockSide {
    /// Loads and attaches the program, or returns why this machine has no queue clock.
    ///
    /// # Errors
    /// If the BTF cannot be read, or the kernel refuses the program.
    pub fn attach(config: &VerifyConfig, environment: &Environment) -> Result<Result<Self, String>> {
        let path = match &environment.btf {
            _ if config.resources.attach == Attach::Classic => {
                return Ok(Err("records of classic tracepoints do not contain the run queue's clock".to_owned()));
            }
            _ if config.filter.parts & (part::PRIO | part::POLICY) != 0 => {
                let why = "the tracepoints apply the filter when a wait begins, and the queue clock when it ends; priority \
                           inheritance may change priority and policy in between";
                return Ok(Err(why.to_owned()));
            }
            None => return Ok(Err("the run queue's clock needs the kernel's BTF".to_owned())),
            Some(path) => path,
        };
        let types = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        if let Some(missing) = BtfTypes::find(&types).and_then(|types| btf::missing_for_queue_clock(&types)) {
            return Ok(Err(format!("this kernel has no `{missing}`, which the run queue's clock needs")));
        }
        let own = settings_of(config, environment, false);
        let ring_bytes = Settings::SMALLEST_RING;
        let settings = Settings { aggregate: true, queue_clock: true, from_waking: false, ring_bytes, ..own };
        let mut collector = Collector::load(&settings)?;
        collector.attach()?;
        collector.open()?;
        Ok(Ok(Self {
            collector,
            waits: WaitsBetweenReadings::default(),
            before: SwitchInTerms::default(),
            missed_before: None,
            counts: QueueClockCounts::default(),
            run_queues: [None; 2],
            all_tasks: config.filter.parts == 0,
            from: config.from,
            plant: config.plant,
        }))
    }

    /// Begins the window: what the program has aggregated so far does not count.
    ///
    /// # Errors
    /// If the kernel refuses to read the maps.
    pub fn open(&mut self, proc: &Path) -> Result<()> {
        self.run_queues[0] = self.read_run_queues(proc)?;
        self.missed_before = self.collector.missed()?;
        self.before = self.terms()?;
        let (at, ()) = TimeBracket::of(monotonic_ns, || self.collector.take_counted(|_| Ok(())))?;
        self.waits.open(at);
        Ok(())
    }

    /// Ends the window.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn close(&mut self, proc: &Path) -> Result<()> {
        let Self { collector, counts, .. } = self;
        let (at, ()) = TimeBracket::of(monotonic_ns, || {
            collector.take_counted(|waits| {
                if let AggregatedWaits::Class(class, histogram) = waits {
                    let (count, sum_ns) = &mut counts.classes[class as usize];
                    *count += histogram.count();
                    *sum_ns += u128::from(histogram.sum_ns);
                    if class == Class::Wakeup {
                        counts.wakeups.add_buckets(&histogram.buckets);
                    }
                }
                Ok(())
            })
        })?;
        self.waits.close(at);
        self.counts.terms = self.terms()?.since(&self.before);
        self.run_queues[1] = self.read_run_queues(proc)?;
        self.counts.missed = checks::missed_since(self.collector.missed()?, self.missed_before);
        if let Some(plant) = self.plant {
            self.counts.classes.iter_mut().for_each(|(count, _)| *count = plant.apply_to_queue_clock(*count));
            self.counts.wakeups = self.counts.wakeups.map(|length_ns| plant.apply_to_queue_clock_length(length_ns));
        }
        self.collector.detach()
    }

    /// Adds a wait by the tracepoints.
    pub fn add(&mut self, wait: &Wait) {
        self.waits.add(wait);
    }

    /// Compares the two, once all waits are added.
    pub fn check(&self, lacks: TracepointLosses, cpus: u64) -> Check {
        queue_clock::check(&self.waits, &self.counts, lacks, cpus)
    }

    /// Compares the two distributions of waits after a wakeup. `clock_ns` is the clock's tolerance.
    pub fn check_distributions(&self, lacks: TracepointLosses, cpus: u64, clock_ns: u64) -> Check {
        if self.from == LatencyFrom::Waking {
            return checks::unknown(
                distributions::NAME,
                "`sched_waking` fires before the task is on a run queue; leave out `--from waking`",
            );
        }
        let distance_ns = distributions::distance_ns(clock_ns);
        queue_clock::check_distributions(&self.waits, &self.counts, lacks, cpus, distance_ns)
    }

    /// The waits of each class by both instruments, between the two readings.
    pub fn classes(&self) -> ClassComparison {
        queue_clock::classes(&self.waits, &self.counts)
    }

    /// Compares the queue clock with the kernel's counters of its run queues. `untraced` is the number of switches that
    /// may have fired no tracepoint.
    pub fn check_run_queues(&self, untraced: u64) -> Check {
        let [Some(opened), Some(closed)] = &self.run_queues else {
            return checks::unknown(
                run_queues::NAME,
                "this kernel has no `/proc/schedstat`; use one built with `CONFIG_SCHEDSTATS=y`",
            );
        };
        if !self.all_tasks {
            return checks::unknown(
                run_queues::NAME,
                "the kernel counts the waits of all tasks; leave out the filters",
            );
        }
        let measured_ns = self.counts.classes.iter().map(|(_, sum_ns)| sum_ns).sum();
        run_queues::check(opened, closed, measured_ns, untraced + self.counts.missed.unwrap_or(0))
    }

    fn read_run_queues(&self, proc: &Path) -> Result<Option<RunQueueReading>> {
        let terms_before = self.terms()?;
        let Some(kernel) = RunQueueSchedstat::read(proc) else { return Ok(None) };
        Ok(Some(RunQueueReading { terms_before, kernel, terms_after: self.terms()? }))
    }

    fn terms(&self) -> Result<SwitchInTerms> {
        self.collector.totals()?.switch_ins.context("the program keeps no queue clock")
    }
}

/// The checks of an instrument that this machine does not have.
pub fn unavailable(why: &str) -> [Check; 3] {
    [NAME, distributions::NAME, run_queues::NAME].map(|name| checks::unknown(name, why))
}
