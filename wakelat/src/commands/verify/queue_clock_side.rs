//! The third instrument: a program on `sched_switch` that measures the window by the run queue's own clock.

use anyhow::{Context as _, Result};
use wakelat_common::filter::part;

use super::{
    checks::{self, Check},
    queue_clock::{self, NAME, QueueClockCounts, TracepointLosses, WaitsBetweenReadings},
    setup::settings_of,
    window::TimeBracket,
};
use crate::{
    collect::{AggregatedWaits, Collector, Settings},
    config::{Attach, InjectedError, VerifyConfig},
    session::{Environment, clock::monotonic_ns},
};
use wakelat_core::{report::SwitchInTerms, wait::Wait};
use wakelat_kernel::btf;

/// The attached program, which aggregates in the kernel and needs no ring buffer, and the waits by the tracepoints
/// that it is compared with.
pub struct QueueClockSide {
    collector: Collector,
    waits: WaitsBetweenReadings,
    before: SwitchInTerms,
    /// Events that the kernel had skipped when the window began.
    missed_before: u64,
    counts: QueueClockCounts,
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
        if let Some(missing) = btf::missing_for_queue_clock(&types) {
            return Ok(Err(format!("this kernel has no `{missing}`, which the run queue's clock needs")));
        }
        let own = settings_of(config, environment, false);
        // Not used if waits are aggregated, so one page.
        let settings = Settings { aggregate: true, queue_clock: true, from_waking: false, ring_bytes: 4096, ..own };
        let mut collector = Collector::load(&settings)?;
        collector.attach()?;
        collector.open()?;
        Ok(Ok(Self {
            collector,
            waits: WaitsBetweenReadings::default(),
            before: SwitchInTerms::default(),
            missed_before: 0,
            counts: QueueClockCounts::default(),
            plant: config.plant,
        }))
    }

    /// Begins the window: what the program has aggregated so far does not count.
    ///
    /// # Errors
    /// If the kernel refuses to read the maps.
    pub fn open(&mut self) -> Result<()> {
        self.missed_before = self.collector.missed()?.unwrap_or(0);
        self.before = self.terms()?;
        let (at, ()) = TimeBracket::of(monotonic_ns, || self.collector.take_counted(|_| Ok(())))?;
        self.waits.open(at);
        Ok(())
    }

    /// Ends the window.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn close(&mut self) -> Result<()> {
        let Self { collector, counts, .. } = self;
        let (at, ()) = TimeBracket::of(monotonic_ns, || {
            collector.take_counted(|waits| {
                if let AggregatedWaits::Class(class, histogram) = waits {
                    let (count, sum_ns) = &mut counts.classes[class as usize];
                    *count += histogram.count;
                    *sum_ns += u128::from(histogram.sum_ns);
                }
                Ok(())
            })
        })?;
        self.waits.close(at);
        self.counts.terms = self.terms()?.since(&self.before);
        self.counts.missed = self.collector.missed()?.unwrap_or(0) - self.missed_before;
        if let Some(plant) = self.plant {
            self.counts.classes.iter_mut().for_each(|(count, _)| *count = plant.apply_to_queue_clock(*count));
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

    fn terms(&self) -> Result<SwitchInTerms> {
        self.collector.totals()?.switch_ins.context("the program keeps no queue clock")
    }
}

/// The check of an instrument that this machine does not have.
pub fn unavailable(why: &str) -> Check {
    checks::unknown(NAME, why)
}
