//! The account of what measuring takes: the kernel's of the programs, in slices, and this process's own; and with a limit, what
//! is done to keep to it.
//!
//! The kernel accounts a program's runs by reading the clock before and after each (`bpf_prog_run()`,
//! include/linux/filter.h), which takes about as long as the run. So it is asked to for a small part of the run only.

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
    limit::{LimitReading, OverheadLimit},
    meter::{AttachedTime, MeasuredSlice, OverheadCost, ProgramTimeEstimate},
};
use crate::{
    aggregate::sampled::Period,
    collect::{Collector, ProgramStats, RunCounts},
    kernel::{Roots, switches},
};

/// From the beginning of one slice to that of the next.
const SLICE_INTERVAL: Duration = Duration::from_secs(2);
/// How long a slice is where much happens: 1 % of the time.
const SHORTEST_SLICE: Duration = Duration::from_millis(20);
/// How long it is at most.
const LONGEST_SLICE: Duration = Duration::from_millis(640);
/// Switches that tell what one takes to some percent.
const ENOUGH_SWITCHES: u64 = 500;

/// What measuring takes.
pub struct OverheadMonitor {
    limit_state: Option<LimitState>,
    attached_time: AttachedTime,
    proc: PathBuf,
    cpus: u32,
    program_time: ProgramTimeEstimate,
    open_slice: Option<OpenSlice>,
    /// When to begin a slice, or to look at the one under way.
    slice_at: Instant,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverheadAction {
    /// Nothing: only the account was due.
    Nothing,
    /// A period has ended, and this one begins at once.
    NewPeriod(Period),
    /// The programs are to be detached: [`OverheadMonitor::pause`].
    Pause(Duration),
    /// They are to be attached again: [`OverheadMonitor::resume`].
    Resume,
}

/// A limit to hold.
struct LimitState {
    limit: OverheadLimit,
    /// The lowest and the highest level in force since the window began.
    shift_range: (u8, u8),
    period: Period,
    period_began_at_ns: u64,
    /// When the period ends, or the pause.
    until: Instant,
}

/// A slice under way.
struct OpenSlice {
    /// The kernel accounts as long as this is open.
    _stats: OwnedFd,
    began_at: Instant,
    began_at_ns: u64,
    before: ProgramStats,
    stopped_before: u64,
    looked_at_after: Duration,
}

impl OverheadMonitor {
    /// Begins with a slice, of which nothing shows where the kernel does not let this user have one (`CAP_SYS_ADMIN`).
    ///
    /// # Errors
    /// Where procfs or the kernel does not tell.
    pub fn open(collector: &mut Collector) -> Result<Self> {
        let proc = Roots::default().proc;
        let switches = switches::count(&proc)?;
        let online = aya::util::online_cpus()
            .map_err(|(path, error)| anyhow!(error).context(format!("cannot read `{path}`")))?;
        let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
        let slice_at = Instant::now();
        let (presence, meter) = (AttachedTime::new(switches), ProgramTimeEstimate::new(0));
        let mut account = Self {
            limit_state: None,
            attached_time: presence,
            proc,
            cpus,
            program_time: meter,
            open_slice: None,
            slice_at,
        };
        account.begin_slice(collector)?;
        Ok(account)
    }

    /// Attaches the programs, and holds from then on a limit of `limit_ppm` millionths of the time of all CPUs, if there is one. Where the
    /// limit has no room yet for detaching them, they are detached at once, and the run begins with a pause.
    ///
    /// # Errors
    /// Where the kernel refuses to attach them, or there is a limit and the kernel accounts nothing for this user.
    pub fn attach(&mut self, collector: &mut Collector, limit_ppm: Option<u32>) -> Result<()> {
        let before_ns = cpu_ns();
        collector.attach()?;
        let Some(ppm) = limit_ppm else { return Ok(()) };
        if self.open_slice.is_none() {
            bail!("`--max-overhead` needs CAP_SYS_ADMIN: the kernel accounts programs for no other user");
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
            // What that took is before measuring, as attaching is.
            let now = reading(collector)?;
            self.limit_state.iter_mut().for_each(|limited| limited.limit.skip_to(now));
        }
        Ok(())
    }

    /// One task of how many was watched since the window began, at least and at most; none where there is no limit.
    pub fn sampled_one_in(&self) -> Option<(u32, u32)> {
        self.limit_state.as_ref().map(|LimitState { shift_range: (least, most), .. }| (1 << least, 1 << most))
    }

    /// Another window begins.
    pub fn begin_window(&mut self) {
        if let Some(limited) = &mut self.limit_state {
            limited.shift_range = (limited.limit.sampling_shift(), limited.limit.sampling_shift());
        }
    }

    /// CPUs that are online.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether the programs are detached for now.
    pub fn is_paused(&self) -> bool {
        !self.attached_time.is_attached()
    }

    /// When [`Self::step`] is due.
    pub fn next_at(&self) -> Instant {
        match &self.limit_state {
            Some(limited) if self.is_paused() => limited.until,
            Some(limited) => self.slice_at.min(limited.until),
            None => self.slice_at,
        }
    }

    /// The reader was woken. Where it was because the programs have used up what they may take, [`Self::step`] is due now.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn reader_woken(&mut self, collector: &Collector) -> Result<()> {
        if let Some(limited) = self.limit_state.as_mut().filter(|_| self.attached_time.is_attached())
            && collector.stopped_at_ns()?.is_some()
        {
            log::debug!("the programs have used up their runs");
            limited.until = Instant::now();
        }
        Ok(())
    }

    /// Begins a slice, or ends the one under way if it has shown enough; ends a period or a pause.
    ///
    /// # Errors
    /// Where procfs or the kernel does not tell.
    pub fn step(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        if self.is_paused() {
            return self.end_pause(collector);
        }
        // A period ends when it was to end, whatever the slice under way has shown by then: if it depended on what happens in
        // it, what it stands for would not be known.
        let is_over = match &self.limit_state {
            Some(limited) => limited.until <= Instant::now() || collector.stopped_at_ns()?.is_some(),
            None => false,
        };
        let Some(under_way) = &mut self.open_slice else {
            if is_over {
                return self.end_period(collector);
            }
            self.begin_slice(collector)?;
            return Ok(OverheadAction::Nothing);
        };
        let seen = collector.program_stats()?.switches - under_way.before.switches;
        if seen < ENOUGH_SWITCHES && under_way.looked_at_after < LONGEST_SLICE && !is_over {
            under_way.looked_at_after *= 2;
            self.slice_at = under_way.began_at + under_way.looked_at_after;
            return Ok(OverheadAction::Nothing);
        }
        self.slice_at = under_way.began_at + SLICE_INTERVAL;
        self.end_slice(collector)?;
        if is_over {
            return self.end_period(collector);
        }
        if let Some(limited) = &self.limit_state {
            collector.allow_runs(limited.limit.runs())?;
        }
        Ok(OverheadAction::Nothing)
    }

    /// A period has ended: what comes now?
    fn end_period(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        let Some(limited) = &mut self.limit_state else { return Ok(OverheadAction::Nothing) };
        let now = reading(collector)?;
        let stopped_at_ns = collector.stopped_at_ns()?;
        let measured_ns = stopped_at_ns.unwrap_or(now.at_ns).saturating_sub(limited.period_began_at_ns);
        let level = limited.limit.sampling_shift();
        let pause_ns = limited.limit.end_period(now, measured_ns, stopped_at_ns.is_some(), random());
        log::debug!("measured for {measured_ns} ns, pause of {pause_ns:?} ns: {:?}", limited.limit);
        if limited.limit.sampling_shift() != level {
            limited.change_shift(collector)?;
            // Whether it is the right one is to be known soon.
            self.slice_at = Instant::now();
        }
        if let Some(pause_ns) = pause_ns {
            return Ok(OverheadAction::Pause(Duration::from_nanos(pause_ns)));
        }
        collector.allow_runs(limited.limit.runs())?;
        Ok(OverheadAction::NewPeriod(limited.begin_period(0)))
    }

    /// A pause was to end now: does it?
    fn end_pause(&mut self, collector: &mut Collector) -> Result<OverheadAction> {
        if let Some(limited) = &mut self.limit_state {
            if let Some(more_ns) = limited.limit.end_pause(reading(collector)?) {
                limited.until = Instant::now() + Duration::from_nanos(more_ns);
                return Ok(OverheadAction::Nothing);
            }
            collector.clear_stop()?;
            collector.allow_runs(limited.limit.runs())?;
        }
        // The whole of a period that begins: its first runs take longer than the others.
        if self.slice_at <= Instant::now() {
            self.begin_slice(collector)?;
        }
        Ok(OverheadAction::Resume)
    }

    /// The programs are detached from now on, for so long. Returns since when they do not measure: ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn pause(&mut self, collector: &Collector, rest: Duration) -> Result<u64> {
        let left_at_ns = collector.stopped_at_ns()?.unwrap_or_else(monotonic_ns);
        self.attached_time.detach(switches::count(&self.proc)?, left_at_ns);
        if let Some(limited) = &mut self.limit_state {
            limited.until = Instant::now() + rest;
        }
        Ok(left_at_ns)
    }

    /// They are attached again. Returns the period that begins; none where there is no limit to rest for.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn resume(&mut self, collector: &Collector) -> Result<Option<Period>> {
        let rest_ns = self.attached_time.attach(switches::count(&self.proc)?, monotonic_ns());
        let Some(limited) = &mut self.limit_state else { return Ok(None) };
        limited.limit.begin_period(reading(collector)?);
        Ok(Some(limited.begin_period(rest_ns)))
    }

    /// What it has come to, as far as the slices that have ended tell.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn cost_so_far(&mut self) -> Result<OverheadCost> {
        let switches = self.attached_time.switches(switches::count(&self.proc)?);
        Ok(self.program_time.cost(switches, self.attached_time.detached_ns(monotonic_ns()), cpu_ns()))
    }

    /// What it has come to by now. Ends the slice under way, if it is the first: nothing else is known yet.
    ///
    /// # Errors
    /// Where procfs or the kernel does not tell.
    pub fn cost(&mut self, collector: &Collector) -> Result<OverheadCost> {
        let spent = self.cost_so_far()?;
        if spent.programs_ns.is_some() || self.open_slice.is_none() {
            return Ok(spent);
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
            Err(error) => log::info!("the kernel does not account programs for this user: {error}"),
        }
        Ok(())
    }

    fn end_slice(&mut self, collector: &Collector) -> Result<()> {
        let Some(under_way) = self.open_slice.take() else { return Ok(()) };
        let runs = collector.program_stats()?;
        let slice = MeasuredSlice {
            programs_ns: runs.ns - under_way.before.ns,
            switches: runs.switches - under_way.before.switches,
            length_ns: monotonic_ns() - under_way.began_at_ns,
        };
        self.program_time.add(&slice, self.attached_time.switches(switches::count(&self.proc)?));
        if let Some(limited) = &mut self.limit_state {
            let now = reading(collector)?;
            let count = runs.count - under_way.before.count;
            let stopped = (now.stopped - under_way.stopped_before).min(count);
            limited.limit.charge(now);
            limited.limit.reprice(slice.programs_ns, count - stopped, stopped);
        }
        Ok(())
    }
}

impl LimitState {
    /// The next period begins, after so long a pause.
    fn begin_period(&mut self, rest_ns: u64) -> Period {
        let length_ns = self.limit.period_ns();
        self.until = Instant::now() + Duration::from_nanos(length_ns);
        self.period_began_at_ns = monotonic_ns();
        self.period = Period { number: self.period.number + 1, pause_ns: rest_ns };
        self.period
    }

    fn change_shift(&mut self, collector: &mut Collector) -> Result<()> {
        let level = self.limit.sampling_shift();
        collector.set_sampling_shift(level)?;
        self.shift_range = (self.shift_range.0.min(level), self.shift_range.1.max(level));
        Ok(())
    }
}

/// How things stand.
fn reading(collector: &Collector) -> Result<LimitReading> {
    let RunCounts { measured, stopped } = collector.run_counts()?;
    Ok(LimitReading { at_ns: monotonic_ns(), measured, stopped, tool_ns: cpu_ns() })
}

/// A number from 0 to 1 that nobody could have known: from the seed of the library's hash maps.
fn random() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
