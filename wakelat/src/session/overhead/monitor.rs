//! Adds up the cost of measuring (the programs' time and wakelat's own CPU time), and enforces the overhead
//! limit if there is one.
//!
//! Nothing here interrupts another CPU while the programs stay attached: reading what they counted is a copy
//! of memory, stopping them writes one word, and waiting until none of them still measures takes two switches of
//! each CPU or an ordinary RCU grace period, for which the kernel waits until each CPU has passed through the scheduler,
//! idle or user space.

use std::{
    cell::Cell,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Result, anyhow};
use tokio::time::Instant;

use super::{
    super::{
        begin_period::begin_period_now,
        clock::{cpu_ns, monotonic_ns},
    },
    limit::OverheadLimit,
    price::{MeasuringTime, OverheadCost, ProgramTimeEstimate},
    reading::{LimitReading, Pause, PauseEnd},
};
use crate::collect::{Collector, RunCounts};
use wakelat_core::aggregate::estimate::Period;
use wakelat_kernel::{Roots, context_switches};

/// Without a limit nothing is due.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

/// Measures the overhead and enforces the limit.
pub struct OverheadMonitor {
    limit_state: Option<LimitState>,
    tool_clock: LimitedCpuClock,
    measuring_time: MeasuringTime,
    proc: PathBuf,
    cpus: u32,
    program_time: ProgramTimeEstimate,
    opened_at: Instant,
}

/// What the session has to do after [`OverheadMonitor::step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverheadAction {
    /// Nothing: only a check was due.
    Nothing,
    /// A period has ended, and this one follows at once.
    NewPeriod(Period),
    /// Stop the programs, and detach them if the pause needs it: [`OverheadMonitor::pause`].
    Pause(Pause),
    /// Detach the programs in the middle of a pause: the calls of the stopped programs cost too much.
    Detach,
    /// Let the programs measure again: [`OverheadMonitor::resume`].
    Resume,
}

/// The limit and the current period.
struct LimitState {
    limit: OverheadLimit,
    /// The lowest and the highest sampling shift since the window began.
    shift_range: (u8, u8),
    period: Period,
    period_began_at_ns: u64,
    /// When the period or the pause ends.
    until: Instant,
    /// When to look at the programs next.
    check_at: Instant,
}

impl OverheadMonitor {
    /// Begins to count. `unlimited_cpu_ns`: CPU time of threads that the limit does not apply to.
    ///
    /// # Errors
    /// If procfs or the number of CPUs cannot be read.
    pub fn open(unlimited_cpu_ns: Option<Arc<AtomicU64>>) -> Result<Self> {
        let proc = Roots::default().proc;
        let measuring_time = MeasuringTime::new(context_switches::count(&proc)?);
        let online = aya::util::online_cpus()
            .map_err(|(path, error)| anyhow!(error).context(format!("cannot read `{path}`")))?;
        let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
        let (program_time, opened_at) = (ProgramTimeEstimate::default(), Instant::now());
        let tool_clock =
            LimitedCpuClock { unlimited_cpu_ns: unlimited_cpu_ns.unwrap_or_default(), last_ns: Cell::new(0) };
        Ok(Self { limit_state: None, tool_clock, measuring_time, proc, cpus, program_time, opened_at })
    }

    /// Attaches the programs and enforces a limit of `limit_ppm` millionths of the time of all CPUs, if there
    /// is one: by sampling tasks if `samples_tasks`, and by pauses. With a limit, the run begins with a pause.
    ///
    /// # Errors
    /// If the kernel refuses to attach the programs, or to read or write a map.
    pub fn attach(&mut self, collector: &mut Collector, limit_ppm: Option<u32>, samples_tasks: bool) -> Result<()> {
        let Some(ppm) = limit_ppm else { return collector.attach() };
        let before_ns = self.tool_clock.now_ns();
        collector.stop(monotonic_ns())?;
        collector.attach()?;
        let now = reading(collector, &self.tool_clock)?;
        let attaching_ns = now.tool_ns - before_ns;
        let limit = OverheadLimit::new(ppm, self.cpus, attaching_ns, now);
        let mut limit = if samples_tasks { limit } else { limit.of_all_tasks() };
        let pause_ns = limit.first_pause();
        log::debug!("attached in {attaching_ns} ns, pause of {pause_ns} ns: {limit:?}");
        self.measuring_time.pause(context_switches::count(&self.proc)?, monotonic_ns());
        let at = Instant::now();
        let check_at = at + Duration::from_nanos(limit.pause_check_interval_ns());
        self.limit_state = Some(LimitState {
            limit,
            shift_range: (0, 0),
            period: Period::FIRST,
            period_began_at_ns: now.at_ns,
            until: at + Duration::from_nanos(pause_ns),
            check_at,
        });
        Ok(())
    }

    /// The lowest and the highest N since the window began, if one task in N was sampled; `None` without a
    /// limit.
    pub fn sampled_one_in(&self) -> Option<(u32, u32)> {
        self.limit_state.as_ref().map(|LimitState { shift_range: (least, most), .. }| (1 << least, 1 << most))
    }

    /// Begins a window.
    pub fn begin_window(&mut self) {
        if let Some(limited) = &mut self.limit_state {
            limited.shift_range = (limited.limit.sampling_shift(), limited.limit.sampling_shift());
        }
    }

    /// Number of online CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether the run is in a pause.
    pub fn is_paused(&self) -> bool {
        self.measuring_time.is_paused()
    }

    /// When to call [`Self::step`] next.
    pub fn next_at(&self) -> Instant {
        match &self.limit_state {
            // Nothing changes while the programs are detached.
            Some(limited) if limited.limit.is_detached() => limited.until,
            Some(limited) => limited.until.min(limited.check_at),
            None => self.opened_at + NEVER,
        }
    }

    /// Ends a period or a pause that is over, or whose programs cost more than expected.
    ///
    /// # Errors
    /// If the kernel refuses to read or write a map.
    pub fn step(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        let is_paused = self.is_paused();
        let Some(limited) = &mut self.limit_state else { return Ok(OverheadAction::Nothing) };
        if is_paused {
            return Ok(limited.end_pause(reading(collector, &self.tool_clock)?));
        }
        limited.check_at = Instant::now() + Duration::from_nanos(limited.limit.check_interval_ns());
        // A period ends as planned: if its end depended on what happens in it, the weights of its waits would be
        // unknown. Only the run budget ends it earlier: then the programs have already stopped, and their limit
        // comes before exact weights.
        if limited.until <= Instant::now() || collector.stopped_at_ns()?.is_some() {
            return limited.end_period(reading(collector, &self.tool_clock)?, collector);
        }
        limited.limit.charge(reading(collector, &self.tool_clock)?);
        collector.allow_runs(limited.limit.runs())?;
        Ok(OverheadAction::Nothing)
    }

    /// Begins a pause. The programs have been told to stop, but some may still be running. Returns since when
    /// they do not measure (ns of CLOCK_MONOTONIC): they may have stopped by themselves.
    ///
    /// # Errors
    /// If procfs or a map cannot be read.
    pub fn pause(&mut self, collector: &Collector, pause: Pause) -> Result<u64> {
        let paused_at_ns = collector.stopped_at_ns()?.unwrap_or_else(monotonic_ns);
        self.measuring_time.pause(context_switches::count(&self.proc)?, paused_at_ns);
        if let Some(limited) = &mut self.limit_state {
            limited.until = Instant::now() + Duration::from_nanos(pause.length_ns);
        }
        Ok(paused_at_ns)
    }

    /// Takes note of what [`Self::pause`] has cost, with everything that belongs to it.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn paused(&mut self, collector: &Collector) -> Result<()> {
        if let Some(limited) = &mut self.limit_state {
            limited.limit.has_stopped(reading(collector, &self.tool_clock)?);
        }
        Ok(())
    }

    /// Ends a pause: the programs measure again, after they have been attached again if they were detached. Returns
    /// the period that begins, or `None` without a limit.
    ///
    /// # Errors
    /// If the kernel refuses to attach the programs, or if procfs or a map cannot be read.
    pub fn resume(&mut self, collector: &mut Collector) -> Result<Option<Period>> {
        let Some(limited) = &mut self.limit_state else { return Ok(None) };
        if limited.limit.is_detached() {
            collector.attach()?;
        }
        limited.limit.begin_period(reading(collector, &self.tool_clock)?);
        collector.allow_runs(limited.limit.runs())?;
        let pause_ns = self.measuring_time.resume(context_switches::count(&self.proc)?, monotonic_ns());
        let period = limited.begin_period(pause_ns);
        begin_period_now(collector, Collector::clear_stop)?;
        Ok(Some(period))
    }

    /// The cost so far, and the pauses until `at_ns` (CLOCK_MONOTONIC).
    ///
    /// # Errors
    /// If procfs or the programs' counters cannot be read.
    pub fn cost(&mut self, collector: &Collector, at_ns: u64) -> Result<OverheadCost> {
        let runs = collector.program_runs();
        let stopped_at_ns = if self.limit_state.is_some() { collector.stopped_at_ns()? } else { None };
        Ok(OverheadCost {
            tool_ns: cpu_ns(),
            switches: self.measuring_time.switches(context_switches::count(&self.proc)?),
            paused_ns: self.measuring_time.paused_at_reading(at_ns, stopped_at_ns),
            programs_ns: self.program_time.update(&runs),
            timed_runs: runs.timed(),
        })
    }
}

impl LimitState {
    /// Ends a period: decides whether a pause follows or the next period.
    fn end_period(&mut self, now: LimitReading, collector: &mut Collector) -> Result<OverheadAction> {
        let stopped_at_ns = collector.stopped_at_ns()?;
        let measured_ns = stopped_at_ns.unwrap_or(now.at_ns).saturating_sub(self.period_began_at_ns);
        let shift = self.limit.sampling_shift();
        let pause = self.limit.end_period(now, measured_ns, stopped_at_ns.is_some(), random());
        log::debug!("measured for {measured_ns} ns, {pause:?}: {:?}", self.limit);
        if self.limit.sampling_shift() != shift {
            self.change_shift(collector)?;
        }
        if let Some(pause) = pause {
            return Ok(OverheadAction::Pause(pause));
        }
        collector.allow_runs(self.limit.runs())?;
        Ok(OverheadAction::NewPeriod(self.begin_period(0)))
    }

    /// Ends a pause, unless it is not over or the limit requires that it lasts longer.
    fn end_pause(&mut self, reading: LimitReading) -> OverheadAction {
        let now = Instant::now();
        let remaining = self.until.saturating_duration_since(now);
        let remaining_ns = u64::try_from(remaining.as_nanos()).unwrap_or(u64::MAX);
        let end = self.limit.end_pause(reading, remaining_ns);
        self.check_at = now + Duration::from_nanos(self.limit.pause_check_interval_ns());
        match end {
            PauseEnd::Longer(ns) => {
                self.until = now + Duration::from_nanos(ns);
                OverheadAction::Nothing
            }
            PauseEnd::Detach(ns) => {
                log::debug!("the calls of the stopped BPF programs cost too much: {:?}", self.limit);
                self.until = now + Duration::from_nanos(ns);
                OverheadAction::Detach
            }
            PauseEnd::Resume => OverheadAction::Resume,
        }
    }

    /// Begins the next period, after a pause of `pause_ns`.
    fn begin_period(&mut self, pause_ns: u64) -> Period {
        let length_ns = self.limit.period_ns();
        let now = Instant::now();
        self.until = now + Duration::from_nanos(length_ns);
        self.check_at = now + Duration::from_nanos(self.limit.check_interval_ns());
        self.period_began_at_ns = monotonic_ns();
        self.period = Period { number: self.period.number + 1, pause_ns };
        self.period
    }

    fn change_shift(&mut self, collector: &mut Collector) -> Result<()> {
        let shift = self.limit.sampling_shift();
        collector.set_sampling_shift(shift)?;
        self.shift_range = (self.shift_range.0.min(shift), self.shift_range.1.max(shift));
        Ok(())
    }
}

/// The CPU time of this process without threads that the limit does not apply to.
struct LimitedCpuClock {
    unlimited_cpu_ns: Arc<AtomicU64>,
    last_ns: Cell<u64>,
}

impl LimitedCpuClock {
    /// The time until now: ns. It never decreases, although these threads report their time late.
    fn now_ns(&self) -> u64 {
        let ns = cpu_ns().saturating_sub(self.unlimited_cpu_ns.load(Relaxed)).max(self.last_ns.get());
        self.last_ns.set(ns);
        ns
    }
}

/// The totals now.
fn reading(collector: &Collector, tool_clock: &LimitedCpuClock) -> Result<LimitReading> {
    let times = collector.program_runs();
    let RunCounts { measured, stopped } = collector.run_counts()?;
    Ok(LimitReading {
        at_ns: monotonic_ns(),
        measured,
        stopped,
        measured_times: times.measured,
        stopped_times: times.stopped,
        tool_ns: tool_clock.now_ns(),
    })
}

/// An unpredictable number from 0 to 1, from the seed of the standard library's hash maps.
fn random() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
