//! Accounts the cost of measuring (the programs' time and wakelat's own CPU time), and enforces the overhead
//! limit if there is one.
//!
//! The kernel accounts a program's run by reading the clock before and after it (`bpf_prog_run()`,
//! include/linux/filter.h), which takes about as long as the run itself. So the kernel is asked to do this
//! only in short slices, and the rest is extrapolated.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    os::fd::OwnedFd,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Result, anyhow, bail};
use aya::sys::{Stats, enable_stats};
use tokio::time::Instant;

use super::{
    clock::{cpu_ns, monotonic_ns},
    overhead_limit::{LimitReading, OverheadLimit},
    program_cost::{AttachedTime, MeasuredSlice, OverheadCost, ProgramTimeEstimate},
};
use crate::collect::{Collector, ProgramStats, RunCounts};
use wakelat_core::aggregate::estimate::Period;
use wakelat_kernel::{Roots, context_switches};

/// Time from the beginning of one slice to that of the next.
const SLICE_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest length of a slice, used if much happens: 1 % of the time.
const SHORTEST_SLICE: Duration = Duration::from_millis(20);
/// Longest length of a slice.
const LONGEST_SLICE: Duration = Duration::from_millis(640);
/// Number of switches from which the cost of one is known to within some percent.
const ENOUGH_SWITCHES: u64 = 500;

/// Measures the overhead and enforces the limit.
pub struct OverheadMonitor {
    limit_state: Option<LimitState>,
    attached_time: AttachedTime,
    proc: PathBuf,
    cpus: u32,
    program_time: ProgramTimeEstimate,
    open_slice: Option<OpenSlice>,
    /// When to begin a slice, or to check the open one.
    slice_at: Instant,
}

/// What the session has to do after [`OverheadMonitor::step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverheadAction {
    /// Nothing: only the accounting was due.
    Nothing,
    /// A period has ended, and this one follows at once.
    NewPeriod(Period),
    /// Detach the programs for this long: [`OverheadMonitor::pause`].
    Pause(Duration),
    /// Attach the programs again: [`OverheadMonitor::resume`].
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
}

/// A slice that has begun and not ended.
struct OpenSlice {
    /// The kernel accounts the programs while this descriptor is open.
    _stats: OwnedFd,
    began_at: Instant,
    began_at_ns: u64,
    before: ProgramStats,
    stopped_before: u64,
    looked_at_after: Duration,
}

impl OverheadMonitor {
    /// Begins the first slice. Without CAP_SYS_ADMIN the kernel opens no slice for this user.
    ///
    /// # Errors
    /// If procfs or the kernel's information on the programs cannot be read.
    pub fn open(collector: &mut Collector) -> Result<Self> {
        let proc = Roots::default().proc;
        let switches = context_switches::count(&proc)?;
        let online = aya::util::online_cpus()
            .map_err(|(path, error)| anyhow!(error).context(format!("cannot read `{path}`")))?;
        let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
        let slice_at = Instant::now();
        let (attached_time, program_time) = (AttachedTime::new(switches), ProgramTimeEstimate::new(0));
        let mut monitor =
            Self { limit_state: None, attached_time, proc, cpus, program_time, open_slice: None, slice_at };
        monitor.begin_slice(collector)?;
        Ok(monitor)
    }

    /// Attaches the programs and enforces a limit of `limit_ppm` millionths of the time of all CPUs, if there
    /// is one. If the bucket does not yet cover the cost of detaching them, they are detached at once, and
    /// the run begins with a pause.
    ///
    /// # Errors
    /// If the kernel refuses to attach the programs, or if there is a limit and the kernel does not account
    /// programs for this user.
    pub fn attach(&mut self, collector: &mut Collector, limit_ppm: Option<u32>) -> Result<()> {
        let before_ns = cpu_ns();
        collector.attach()?;
        let Some(ppm) = limit_ppm else { return Ok(()) };
        if self.open_slice.is_none() {
            bail!(
                "`--max-overhead` needs CAP_SYS_ADMIN, because the kernel reports BPF run times only to privileged users; run wakelat with `sudo`, or leave out `--max-overhead`"
            );
        }
        let now = reading(collector)?;
        let attaching_ns = now.tool_ns - before_ns;
        let mut limit = OverheadLimit::new(ppm, self.cpus, attaching_ns, now);
        let pause_ns = limit.first_pause();
        log::debug!("attached in {attaching_ns} ns, pause of {pause_ns:?} ns: {limit:?}");
        collector.allow_runs(limit.runs())?;
        let until = Instant::now() + Duration::from_nanos(limit.period_ns());
        let (period, period_began_at_ns) = (Period::FIRST, now.at_ns);
        self.limit_state = Some(LimitState { limit, shift_range: (0, 0), period, period_began_at_ns, until });
        if let Some(pause_ns) = pause_ns {
            collector.detach_and(|collector| self.pause(collector, Duration::from_nanos(pause_ns)))?;
            // This cost precedes measuring, like that of attaching.
            let now = reading(collector)?;
            self.limit_state.iter_mut().for_each(|limited| limited.limit.skip_to(now));
        }
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
        !self.attached_time.is_attached()
    }

    /// When to call [`Self::step`] next.
    pub fn next_at(&self) -> Instant {
        match &self.limit_state {
            Some(limited) if self.is_paused() => limited.until,
            Some(limited) => self.slice_at.min(limited.until),
            None => self.slice_at,
        }
    }

    /// Handles a wakeup of the reader. If the programs have used up their run budget, [`Self::step`] is due
    /// now.
    ///
    /// # Errors
    /// If the kernel refuses to read the map.
    pub fn reader_woken(&mut self, collector: &Collector) -> Result<()> {
        if let Some(limited) = self.limit_state.as_mut().filter(|_| self.attached_time.is_attached())
            && collector.stopped_at_ns()?.is_some()
        {
            log::debug!("the BPF programs have used up their run budget");
            limited.until = Instant::now();
        }
        Ok(())
    }

    /// Begins a slice, or ends the open one if it has shown enough; ends a period or a pause.
    ///
    /// # Errors
    /// If procfs or the kernel's information on the programs cannot be read.
    pub fn step(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        if self.is_paused() {
            return self.end_pause(collector);
        }
        // A period ends as planned, whatever the open slice has shown by then: if its end depended on what
        // happens in it, the weights of its waits would be unknown. Only the run budget ends it earlier: then
        // the programs have already stopped, and their limit comes before exact weights.
        let is_over = match &self.limit_state {
            Some(limited) => limited.until <= Instant::now() || collector.stopped_at_ns()?.is_some(),
            None => false,
        };
        let Some(open) = &mut self.open_slice else {
            if is_over {
                return self.end_period(collector);
            }
            self.begin_slice(collector)?;
            return Ok(OverheadAction::Nothing);
        };
        let seen = collector.program_stats()?.switches - open.before.switches;
        if seen < ENOUGH_SWITCHES && open.looked_at_after < LONGEST_SLICE && !is_over {
            open.looked_at_after *= 2;
            self.slice_at = open.began_at + open.looked_at_after;
            return Ok(OverheadAction::Nothing);
        }
        self.slice_at = open.began_at + SLICE_INTERVAL;
        self.end_slice(collector)?;
        if is_over {
            return self.end_period(collector);
        }
        if let Some(limited) = &self.limit_state {
            collector.allow_runs(limited.limit.runs())?;
        }
        Ok(OverheadAction::Nothing)
    }

    /// Ends a period: decides whether a pause follows or the next period.
    fn end_period(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        let Some(limited) = &mut self.limit_state else { return Ok(OverheadAction::Nothing) };
        let now = reading(collector)?;
        let stopped_at_ns = collector.stopped_at_ns()?;
        let measured_ns = stopped_at_ns.unwrap_or(now.at_ns).saturating_sub(limited.period_began_at_ns);
        let shift = limited.limit.sampling_shift();
        let pause_ns = limited.limit.end_period(now, measured_ns, stopped_at_ns.is_some(), random());
        log::debug!("measured for {measured_ns} ns, pause of {pause_ns:?} ns: {:?}", limited.limit);
        if limited.limit.sampling_shift() != shift {
            limited.change_shift(collector)?;
            // Start a slice now, to learn soon whether the new sampling shift fits.
            self.slice_at = Instant::now();
        }
        if let Some(pause_ns) = pause_ns {
            return Ok(OverheadAction::Pause(Duration::from_nanos(pause_ns)));
        }
        collector.allow_runs(limited.limit.runs())?;
        Ok(OverheadAction::NewPeriod(limited.begin_period(0)))
    }

    /// Ends a pause, unless the limit requires that it lasts longer.
    fn end_pause(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        if let Some(limited) = &mut self.limit_state {
            if let Some(more_ns) = limited.limit.end_pause(reading(collector)?) {
                limited.until = Instant::now() + Duration::from_nanos(more_ns);
                return Ok(OverheadAction::Nothing);
            }
            collector.clear_stop()?;
            collector.allow_runs(limited.limit.runs())?;
        }
        // A slice that is due covers the period from its beginning: its first runs take longer than the
        // others.
        if self.slice_at <= Instant::now() {
            self.begin_slice(collector)?;
        }
        Ok(OverheadAction::Resume)
    }

    /// Begins a pause of this length: the programs are detached. Returns since when they do not measure (ns
    /// of CLOCK_MONOTONIC): since their stop, if they had stopped by themselves.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn pause(&mut self, collector: &Collector, length: Duration) -> Result<u64> {
        let paused_at_ns = collector.stopped_at_ns()?.unwrap_or_else(monotonic_ns);
        self.attached_time.detach(context_switches::count(&self.proc)?, paused_at_ns);
        if let Some(limited) = &mut self.limit_state {
            limited.until = Instant::now() + length;
        }
        Ok(paused_at_ns)
    }

    /// Ends a pause: the programs are attached again. Returns the period that begins, or `None` without a
    /// limit.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn resume(&mut self, collector: &Collector) -> Result<Option<Period>> {
        let pause_ns = self.attached_time.attach(context_switches::count(&self.proc)?, monotonic_ns());
        let Some(limited) = &mut self.limit_state else { return Ok(None) };
        limited.limit.begin_period(reading(collector)?);
        Ok(Some(limited.begin_period(pause_ns)))
    }

    /// The cost so far, extrapolated from the slices that have ended.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn cost_so_far(&mut self) -> Result<OverheadCost> {
        let switches = self.attached_time.switches(context_switches::count(&self.proc)?);
        Ok(self.program_time.cost(switches, self.attached_time.detached_ns(monotonic_ns()), cpu_ns()))
    }

    /// The cost so far. If no slice has ended yet, the open one is ended for this.
    ///
    /// # Errors
    /// If procfs or the kernel's information on the programs cannot be read.
    pub fn cost(&mut self, collector: &Collector) -> Result<OverheadCost> {
        let cost = self.cost_so_far()?;
        if cost.programs_ns.is_some() || self.open_slice.is_none() {
            return Ok(cost);
        }
        self.end_slice(collector)?;
        self.slice_at = Instant::now();
        self.cost_so_far()
    }

    fn begin_slice(&mut self, collector: &Collector) -> Result<()> {
        let began_at = Instant::now();
        self.slice_at = began_at + SLICE_INTERVAL;
        match enable_stats(Stats::RunTime) {
            Ok(stats) => {
                self.slice_at = began_at + SHORTEST_SLICE;
                let (before, began_at_ns) = (collector.program_stats()?, monotonic_ns());
                let stopped_before = collector.run_counts()?.stopped;
                let looked_at_after = SHORTEST_SLICE;
                self.open_slice =
                    Some(OpenSlice { _stats: stats, began_at, began_at_ns, before, stopped_before, looked_at_after });
            }
            Err(error) => log::info!("the kernel does not report BPF run times to this user: {error}"),
        }
        Ok(())
    }

    fn end_slice(&mut self, collector: &Collector) -> Result<()> {
        let Some(ended) = self.open_slice.take() else { return Ok(()) };
        let runs = collector.program_stats()?;
        let slice = MeasuredSlice {
            programs_ns: runs.ns - ended.before.ns,
            switches: runs.switches - ended.before.switches,
            length_ns: monotonic_ns() - ended.began_at_ns,
        };
        self.program_time.add(&slice, self.attached_time.switches(context_switches::count(&self.proc)?));
        if let Some(limited) = &mut self.limit_state {
            let now = reading(collector)?;
            let count = runs.count - ended.before.count;
            let stopped = (now.stopped - ended.stopped_before).min(count);
            limited.limit.charge(now);
            limited.limit.reprice(slice.programs_ns, count - stopped, stopped);
        }
        Ok(())
    }
}

impl LimitState {
    /// Begins the next period, after a pause of `pause_ns`.
    fn begin_period(&mut self, pause_ns: u64) -> Period {
        let length_ns = self.limit.period_ns();
        self.until = Instant::now() + Duration::from_nanos(length_ns);
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

/// The totals now.
fn reading(collector: &Collector) -> Result<LimitReading> {
    let RunCounts { measured, stopped } = collector.run_counts()?;
    Ok(LimitReading { at_ns: monotonic_ns(), measured, stopped, tool_ns: cpu_ns() })
}

/// An unpredictable number from 0 to 1, from the seed of the standard library's hash maps.
fn random() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
