//! The account of what measuring takes: the kernel's of the programs, in slices, and this process's own.
//!
//! The kernel accounts a program's runs by reading the clock before and after each (`bpf_prog_run()`,
//! include/linux/filter.h), which takes about as long as the run. So it is asked to for a small part of the run only.

use std::{os::fd::OwnedFd, path::PathBuf, time::Duration};

use anyhow::{Result, anyhow, bail};
use aya::sys::{Stats, enable_stats};
use tokio::time::Instant;

use super::{
    clock::{cpu_ns, monotonic_ns},
    limit::Limit,
    meter::{Meter, Slice, Spent},
};
use crate::{
    collect::{Collector, Runs},
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

/// The same where a limit is to be held by what the slices show.
const OFTEN: Duration = Duration::from_millis(500);

/// What measuring takes.
pub struct Account {
    limit: Option<Limit>,
    /// The lowest and the highest level in force since the window began.
    levels: (u8, u8),
    /// When the last slice ended, and this process's CPU time then: ns.
    last: (u64, u64),
    proc: PathBuf,
    cpus: u32,
    meter: Meter,
    under_way: Option<UnderWay>,
    next_at: Instant,
}

/// A slice under way.
struct UnderWay {
    /// The kernel accounts as long as this is open.
    _stats: OwnedFd,
    began_at: Instant,
    began_at_ns: u64,
    before: Runs,
    looked_at_after: Duration,
}

impl Account {
    /// Begins with a slice, of which nothing shows where the kernel does not let this user have one (`CAP_SYS_ADMIN`).
    /// `limit_ppm`: the limit to hold, in millionths of the time of all CPUs.
    ///
    /// # Errors
    /// Where procfs or the kernel does not tell, or there is a limit and the kernel accounts nothing.
    pub fn open(collector: &Collector, limit_ppm: Option<u32>) -> Result<Self> {
        let proc = Roots::default().proc;
        let meter = Meter::new(switches::count(&proc)?);
        let online = aya::util::online_cpus()
            .map_err(|(path, error)| anyhow!(error).context(format!("cannot read `{path}`")))?;
        let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
        let limit = limit_ppm.map(Limit::new);
        let last = (monotonic_ns(), cpu_ns());
        let mut account =
            Self { limit, levels: (0, 0), last, proc, cpus, meter, under_way: None, next_at: Instant::now() };
        account.begin(collector)?;
        if account.limit.is_some() && account.under_way.is_none() {
            bail!("`--max-overhead` cannot be held: the kernel accounts programs for those with CAP_SYS_ADMIN alone");
        }
        Ok(account)
    }

    /// One task of how many was watched since the window began, at least and at most; none where there is no limit.
    pub fn watched_one_in(&self) -> Option<(u32, u32)> {
        let (least, most) = self.levels;
        self.limit.map(|_| (1 << least, 1 << most))
    }

    /// Another window begins.
    pub fn begin_window(&mut self) {
        let level = self.limit.map_or(0, |limit| limit.level());
        self.levels = (level, level);
    }

    /// CPUs that are online.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// When [`Self::step`] is due.
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Begins a slice, or ends the one under way if it has shown enough.
    ///
    /// # Errors
    /// Where procfs or the kernel does not tell.
    pub fn step(&mut self, collector: &mut Collector) -> Result<()> {
        let Some(under_way) = &mut self.under_way else { return self.begin(collector) };
        let seen = collector.runs()?.switches - under_way.before.switches;
        if seen < ENOUGH_SWITCHES && under_way.looked_at_after < LONGEST {
            under_way.looked_at_after *= 2;
            self.next_at = under_way.began_at + under_way.looked_at_after;
            return Ok(());
        }
        self.next_at = under_way.began_at + if self.limit.is_some() { OFTEN } else { EVERY };
        if let Some(slice) = self.end(collector)? {
            self.hold_limit(&slice, collector)?;
        }
        Ok(())
    }

    /// Watches fewer tasks, or more, after what `slice` has shown.
    fn hold_limit(&mut self, slice: &Slice, collector: &mut Collector) -> Result<()> {
        let Some(limit) = &mut self.limit else { return Ok(()) };
        let (now_ns, tool_ns) = (monotonic_ns(), cpu_ns());
        let (last_ns, last_tool_ns) = std::mem::replace(&mut self.last, (now_ns, tool_ns));
        let of_tool = (tool_ns - last_tool_ns) as f64 / (now_ns - last_ns).max(1) as f64;
        let of_programs = slice.programs_ns as f64 / slice.length_ns.max(1) as f64;
        if limit.step((of_tool + of_programs) / f64::from(self.cpus)) {
            let level = limit.level();
            collector.watch_one_in_two_to_the(level)?;
            self.levels = (self.levels.0.min(level), self.levels.1.max(level));
            // Whether it was the right one is to be known soon.
            self.next_at = Instant::now();
        }
        Ok(())
    }

    /// What it has come to, as far as the slices that have ended tell.
    ///
    /// # Errors
    /// Where procfs does not tell.
    pub fn so_far(&self) -> Result<Spent> {
        Ok(self.meter.spent(switches::count(&self.proc)?, cpu_ns()))
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
        self.next_at = Instant::now();
        self.so_far()
    }

    fn begin(&mut self, collector: &Collector) -> Result<()> {
        let began_at = Instant::now();
        self.next_at = began_at + EVERY;
        match enable_stats(Stats::RunTime) {
            Ok(stats) => {
                self.next_at = began_at + SHORTEST;
                let (before, began_at_ns) = (collector.runs()?, monotonic_ns());
                let looked_at_after = SHORTEST;
                self.under_way = Some(UnderWay { _stats: stats, began_at, began_at_ns, before, looked_at_after });
            }
            Err(error) => log::info!("the kernel does not account programs for this user: {error}"),
        }
        Ok(())
    }

    fn end(&mut self, collector: &Collector) -> Result<Option<Slice>> {
        let Some(under_way) = self.under_way.take() else { return Ok(None) };
        let runs = collector.runs()?;
        let slice = Slice {
            programs_ns: runs.ns - under_way.before.ns,
            switches: runs.switches - under_way.before.switches,
            length_ns: monotonic_ns() - under_way.began_at_ns,
        };
        self.meter.add(&slice, switches::count(&self.proc)?);
        Ok(Some(slice))
    }
}
