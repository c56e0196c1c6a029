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
    limit::{Limit, Reading},
    meter::{Meter, Presence, Slice, Spent},
};
use crate::{
    aggregate::sampled::Period,
    collect::{Collector, RunCounts, Runs},
    kernel::{Roots, switches},
};

/// From the beginning of one slice to that of the next.
const EVERY: Duration = Duration::from_secs(2);
/// How long a slice is where much happens: 1 % of the time.
const SHORTEST: Duration = Duration::from_millis(20);
/// How long it is at most.
const LONGEST: Duration = Duration::from_millis(640);
/// Switches that tell what one takes to some percent.
const ENOUGH_SWITCHES: u64 = 500;

/// What measuring takes.
pub struct Account {
    limited: Option<Limited>,
    presence: Presence,
    proc: PathBuf,
    cpus: u32,
    meter: Meter,
    under_way: Option<UnderWay>,
    /// When to begin a slice, or to look at the one under way.
    slice_at: Instant,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Nothing: only the account was due.
    Go,
    /// A period has ended, and this one begins at once.
    Period(Period),
    /// The programs are to be detached: [`Account::leave`].
    Rest(Duration),
    /// They are to be attached again: [`Account::come_back`].
    Return,
}

/// A limit to hold.
struct Limited {
    limit: Limit,
    /// The lowest and the highest level in force since the window began.
    levels: (u8, u8),
    period: Period,
    period_began_at_ns: u64,
    /// When the period ends, or the pause.
    until: Instant,
}

/// A slice under way.
struct UnderWay {
    /// The kernel accounts as long as this is open.
    _stats: OwnedFd,
    began_at: Instant,
    began_at_ns: u64,
    before: Runs,
    stopped_before: u64,
    looked_at_after: Duration,
}

impl Account {
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
        let (presence, meter) = (Presence::new(switches), Meter::new(0));
        let mut account = Self { limited: None, presence, proc, cpus, meter, under_way: None, slice_at };
        account.begin(collector)?;
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
        if self.under_way.is_none() {
            bail!("`--max-overhead` needs CAP_SYS_ADMIN: the kernel accounts programs for no other user");
        }
        let now = reading(collector)?;
        let attaching_ns = now.tool_ns - before_ns;
        let mut limit = Limit::new(ppm, self.cpus, attaching_ns, now);
        let pause_ns = limit.first_pause();
        log::debug!("attached in {attaching_ns} ns, pause of {pause_ns:?} ns: {limit:?}");
        collector.allow_runs(limit.runs())?;
        let until = Instant::now() + Duration::from_nanos(limit.period_ns());
        let (period, period_began_at_ns) = (Period::FIRST, now.at_ns);
        self.limited = Some(Limited { limit, levels: (0, 0), period, period_began_at_ns, until });
        if let Some(pause_ns) = pause_ns {
            collector.detach_and(|collector| self.leave(collector, Duration::from_nanos(pause_ns)))?;
            // What that took is before measuring, as attaching is.
            let now = reading(collector)?;
            self.limited.iter_mut().for_each(|limited| limited.limit.skip_to(now));
        }
        Ok(())
    }

    /// One task of how many was watched since the window began, at least and at most; none where there is no limit.
    pub fn watched_one_in(&self) -> Option<(u32, u32)> {
        self.limited.as_ref().map(|Limited { levels: (least, most), .. }| (1 << least, 1 << most))
    }

    /// Another window begins.
    pub fn begin_window(&mut self) {
        if let Some(limited) = &mut self.limited {
            limited.levels = (limited.limit.level(), limited.limit.level());
        }
    }

    /// CPUs that are online.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether the programs are detached for now.
    pub fn is_resting(&self) -> bool {
        !self.presence.is_present()
    }

    /// When [`Self::step`] is due.
    pub fn next_at(&self) -> Instant {
        match &self.limited {
            Some(limited) if self.is_resting() => limited.until,
            Some(limited) => self.slice_at.min(limited.until),
            None => self.slice_at,
        }
    }

    /// The reader was woken. Where it was because the programs have used up what they may take, [`Self::step`] is due now.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn wake(&mut self, collector: &Collector) -> Result<()> {
        if let Some(limited) = self.limited.as_mut().filter(|_| self.presence.is_present())
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
    pub fn step(&mut self, collector: &mut Collector) -> Result<Step> {
        if self.is_resting() {
            return self.end_pause(collector);
        }
        // A period ends when it was to end, whatever the slice under way has shown by then: if it depended on what happens in
        // it, what it stands for would not be known.
        let is_over = match &self.limited {
            Some(limited) => limited.until <= Instant::now() || collector.stopped_at_ns()?.is_some(),
            None => false,
        };
        let Some(under_way) = &mut self.under_way else {
            if is_over {
                return self.end_period(collector);
            }
            self.begin(collector)?;
            return Ok(Step::Go);
        };
        let seen = collector.runs()?.switches - under_way.before.switches;
        if seen < ENOUGH_SWITCHES && under_way.looked_at_after < LONGEST && !is_over {
            under_way.looked_at_after *= 2;
            self.slice_at = under_way.began_at + under_way.looked_at_after;
            return Ok(Step::Go);
        }
        self.slice_at = under_way.began_at + EVERY;
        self.end(collector)?;
        if is_over {
            return self.end_period(collector);
        }
        if let Some(limited) = &self.limited {
            collector.allow_runs(limited.limit.runs())?;
        }
        Ok(Step::Go)
    }

    /// A period has ended: what comes now?
    fn end_period(&mut self, collector: &mut Collector) -> Result<Step> {
        let Some(limited) = &mut self.limited else { return Ok(Step::Go) };
        let now = reading(collector)?;
        let stopped_at_ns = collector.stopped_at_ns()?;
        let measured_ns = stopped_at_ns.unwrap_or(now.at_ns).saturating_sub(limited.period_began_at_ns);
        let level = limited.limit.level();
        let pause_ns = limited.limit.end_period(now, measured_ns, stopped_at_ns.is_some(), random());
        log::debug!("measured for {measured_ns} ns, pause of {pause_ns:?} ns: {:?}", limited.limit);
        if limited.limit.level() != level {
            limited.change_level(collector)?;
            // Whether it is the right one is to be known soon.
            self.slice_at = Instant::now();
        }
        if let Some(pause_ns) = pause_ns {
            return Ok(Step::Rest(Duration::from_nanos(pause_ns)));
        }
        collector.allow_runs(limited.limit.runs())?;
        Ok(Step::Period(limited.begin_period(0)))
    }

    /// A pause was to end now: does it?
    fn end_pause(&mut self, collector: &mut Collector) -> Result<Step> {
        if let Some(limited) = &mut self.limited {
            if let Some(more_ns) = limited.limit.end_pause(reading(collector)?) {
                limited.until = Instant::now() + Duration::from_nanos(more_ns);
                return Ok(Step::Go);
            }
            collector.clear_stop()?;
            collector.allow_runs(limited.limit.runs())?;
        }
        // The whole of a period that begins: its first runs take longer than the others.
        if self.slice_at <= Instant::now() {
            self.begin(collector)?;
        }
        Ok(Step::Return)
    }

    /// The programs are detached from now on, for so long. Returns since when they do not measure: ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn leave(&mut self, collector: &Collector, rest: Duration) -> Result<u64> {
        let left_at_ns = collector.stopped_at_ns()?.unwrap_or_else(monotonic_ns);
        self.presence.leave(switches::count(&self.proc)?, left_at_ns);
        if let Some(limited) = &mut self.limited {
            limited.until = Instant::now() + rest;
        }
        Ok(left_at_ns)
    }

    /// They are attached again. Returns the period that begins; none where there is no limit to rest for.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn come_back(&mut self, collector: &Collector) -> Result<Option<Period>> {
        let rest_ns = self.presence.come_back(switches::count(&self.proc)?, monotonic_ns());
        let Some(limited) = &mut self.limited else { return Ok(None) };
        limited.limit.begin_period(reading(collector)?);
        Ok(Some(limited.begin_period(rest_ns)))
    }

    /// What it has come to, as far as the slices that have ended tell.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn so_far(&mut self) -> Result<Spent> {
        let switches = self.presence.switches(switches::count(&self.proc)?);
        Ok(self.meter.spent(switches, self.presence.rested_ns(monotonic_ns()), cpu_ns()))
    }

    /// What it has come to by now. Ends the slice under way, if it is the first: nothing else is known yet.
    ///
    /// # Errors
    /// Where procfs or the kernel does not tell.
    pub fn spent(&mut self, collector: &Collector) -> Result<Spent> {
        let spent = self.so_far()?;
        if spent.programs_ns.is_some() || self.under_way.is_none() {
            return Ok(spent);
        }
        self.end(collector)?;
        self.slice_at = Instant::now();
        self.so_far()
    }

    fn begin(&mut self, collector: &Collector) -> Result<()> {
        let began_at = Instant::now();
        self.slice_at = began_at + EVERY;
        match enable_stats(Stats::RunTime) {
            Ok(stats) => {
                self.slice_at = began_at + SHORTEST;
                let (before, began_at_ns) = (collector.runs()?, monotonic_ns());
                let stopped_before = collector.run_counts()?.stopped;
                let looked_at_after = SHORTEST;
                self.under_way =
                    Some(UnderWay { _stats: stats, began_at, began_at_ns, before, stopped_before, looked_at_after });
            }
            Err(error) => log::info!("the kernel does not account programs for this user: {error}"),
        }
        Ok(())
    }

    fn end(&mut self, collector: &Collector) -> Result<()> {
        let Some(under_way) = self.under_way.take() else { return Ok(()) };
        let runs = collector.runs()?;
        let slice = Slice {
            programs_ns: runs.ns - under_way.before.ns,
            switches: runs.switches - under_way.before.switches,
            length_ns: monotonic_ns() - under_way.began_at_ns,
        };
        self.meter.add(&slice, self.presence.switches(switches::count(&self.proc)?));
        if let Some(limited) = &mut self.limited {
            let now = reading(collector)?;
            let count = runs.count - under_way.before.count;
            let stopped = (now.stopped - under_way.stopped_before).min(count);
            limited.limit.charge(now);
            limited.limit.reprice(slice.programs_ns, count - stopped, stopped);
        }
        Ok(())
    }
}

impl Limited {
    /// The next period begins, after so long a pause.
    fn begin_period(&mut self, rest_ns: u64) -> Period {
        let length_ns = self.limit.period_ns();
        self.until = Instant::now() + Duration::from_nanos(length_ns);
        self.period_began_at_ns = monotonic_ns();
        self.period = Period { number: self.period.number + 1, rest_ns };
        self.period
    }

    fn change_level(&mut self, collector: &mut Collector) -> Result<()> {
        let level = self.limit.level();
        collector.sample_one_in_two_to_the(level)?;
        self.levels = (self.levels.0.min(level), self.levels.1.max(level));
        Ok(())
    }
}

/// How things stand.
fn reading(collector: &Collector) -> Result<Reading> {
    let RunCounts { measured, stopped } = collector.run_counts()?;
    Ok(Reading { at_ns: monotonic_ns(), measured, stopped, tool_ns: cpu_ns() })
}

/// A number from 0 to 1 that nobody could have known: from the seed of the library's hash maps.
fn random() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
