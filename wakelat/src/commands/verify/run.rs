//! One verification on the running kernel: attaches programs and triggers, measures the window, and removes
//! everything.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use wakelat_common::{Counter, filter::part};

use super::{
    checks::{self, Check},
    document::VerificationDocument,
    evaluation::{Verdict, WindowMeasurement},
    not_compared::NotCompared,
    paired_waits::PairedWaits,
    placed_triggers::PlacedTriggers,
    queue_clock::TracepointLosses,
    queue_clock_side::{self, QueueClockSide},
    schedstat_reading::read_tasks,
    schedstat_sums::TaskSchedstats,
    setup::{clock_tolerance_ns, recipe, settings_of, tracefs, without_triggers},
    side::ExactCounts,
    switch_counts::SwitchCounts,
    text,
    window::{TimeBracket, VerifyWindow},
};
use crate::{
    collect::{Collector, CounterTotals, DrainExtent},
    config::{OutputFormat, VerifyConfig},
    session::{Environment, clock::monotonic_ns, output::Output, program_settings, stop_reason::Signals},
    status::status,
};
use wakelat_core::{decode::decode, render::Style, report::LatencyFrom};
use wakelat_kernel::{cpus::Cpus, privilege, release::Release, roots::Roots};
use wakelat_tracefs::{
    Owner, TracefsMount,
    hist_trigger::wakeup_latency::{Buckets, TriggerRecipe},
};

/// Measures one window, evaluates it and writes the result. Blocks until the window ends.
///
/// # Errors
/// If the kernel refuses to measure, the output cannot be written, or triggers are required and cannot be
/// placed. Even then nothing stays attached or in tracefs.
pub fn run(config: &VerifyConfig, environment: &Environment, release: &Release, style: &Style) -> Result<Verdict> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    let mut output = Output::open(config.output.path.as_deref())?;
    let verification = runtime.block_on(measure(config, environment, release))?.evaluate();
    output.write(|out| match config.output.format {
        OutputFormat::Json => {
            writeln!(out, "{}", serde_json::to_string(&VerificationDocument::new(&verification))?)
        }
        OutputFormat::Human | OutputFormat::Csv => out.write_all(text::text(&verification, style).as_bytes()),
    })?;
    Ok(verification.verdict())
}

async fn measure(config: &VerifyConfig, environment: &Environment, release: &Release) -> Result<WindowMeasurement> {
    // Not by default: a reader that preempts tasks while it reads their schedstat adds waits to them.
    if config.resources.rt_priority.is_some() {
        program_settings::raise_priority(config.resources.rt_priority, false)?;
    }
    let mut signals = Signals::catch(None)?;
    let roots = Roots::default();
    let tracefs = tracefs(config, &roots.proc)?;
    let recipe = recipe(config, &Owner::this(&roots.proc)?);
    if tracefs.is_ok() {
        recipe.check(release).map_err(|error| anyhow!(error))?;
        PlacedTriggers::check(&recipe)?;
    }
    let mut run = Run::attach(config, environment, &roots.proc, tracefs, &recipe)?;
    run.open()?;
    if !config.output.quiet {
        status("measuring");
    }
    let end = Instant::now() + Duration::from_nanos(config.duration_ns);
    let mut drain = interval(Duration::from_nanos(config.resources.drain_interval_ns));
    drain.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = signals.first() => break,
            () = sleep_until(end) => break,
            _ = drain.tick() => run.drain()?,
        }
    }
    run.close(&environment.kernel)
}

/// A verification in progress.
struct Run<'a> {
    config: &'a VerifyConfig,
    proc: &'a Path,
    /// The trigger's rules, measured with BPF and with triggers; or why they are not measured.
    trigger_side: Result<(Collector, PlacedTriggers), NotCompared>,
    /// wakelat's own rules, measured with BPF.
    own_side: Collector,
    /// The same waits by the run queue's own clock; or why this machine has none.
    queue_clock: Result<QueueClockSide, String>,
    waits: PairedWaits,
    accounts: Option<TaskSchedstats>,
    round: u64,
    window_start: WindowStartCounts,
}

/// The counters at the start of the window.
#[derive(Default)]
struct WindowStartCounts {
    trigger_side: CounterTotals,
    own_side: CounterTotals,
    switches: SwitchCounts,
    /// Waits that wakelat's own side had lost before the first reading of schedstat.
    lost: u64,
    /// Events for which the kernel had skipped a program of wakelat's own side before that reading, if it counts them.
    missed: Option<u64>,
    /// The same of the trigger's rules, before the window.
    missed_by_trigger_rules: Option<u64>,
}

impl<'a> Run<'a> {
    fn attach(
        config: &'a VerifyConfig,
        environment: &Environment,
        proc: &'a Path,
        tracefs: Result<TracefsMount, NotCompared>,
        recipe: &TriggerRecipe,
    ) -> Result<Self> {
        let mut own_side = Collector::load(&settings_of(config, environment, false))?;
        let loaded = tracefs.map(|tracefs| {
            Ok::<_, anyhow::Error>((Collector::load(&settings_of(config, environment, true))?, tracefs))
        });
        own_side.attach()?;
        own_side.open()?;
        let queue_clock = QueueClockSide::attach(config, environment)?;
        // Attach the programs before the triggers, so that they see every event that the triggers see; and
        // the two right after each other, so that little time passes between their clock readings.
        let attached = loaded.map(|loaded| {
            let (mut collector, tracefs) = loaded?;
            collector.attach()?;
            collector.open()?;
            let triggers = PlacedTriggers::place(&tracefs, &Owner::this(proc)?, recipe)?;
            Ok::<_, anyhow::Error>((collector, triggers))
        });
        let trigger_side = match attached {
            Ok(Ok(attached)) => Ok(attached),
            // tracefs may permit reading but not writing.
            Ok(Err(error)) => Err(without_triggers(config.require_triggers, error)?),
            Err(why) => Err(why),
        };
        let never = TimeBracket { before_ns: u64::MAX, after_ns: u64::MAX };
        let clock_ns = clock_tolerance_ns();
        let (starts_on, ends_on) = match &trigger_side {
            Ok((_, triggers)) => (triggers.starts_on, triggers.ends_on),
            Err(_) => Default::default(),
        };
        let window = VerifyWindow { starts_on, ends_on, counting_on: never, counting_off: None, clock_ns };
        Ok(Self {
            config,
            proc,
            trigger_side,
            own_side,
            queue_clock,
            waits: PairedWaits::new(window, ExactCounts::new(Buckets::Log2, clock_ns), config.plant),
            accounts: None,
            round: 0,
            window_start: WindowStartCounts::default(),
        })
    }

    /// Begins the window.
    fn open(&mut self) -> Result<()> {
        // Placing the triggers may have taken so long that the ring buffer is full. From here on, a wait
        // that finds no room is counted as lost and missing from the sums of its task.
        self.drain()?;
        self.window_start.lost = lost(&self.own_side.totals()?);
        self.window_start.missed = self.own_side.missed()?;
        let filter = &self.config.filter;
        // The kernel counts all waits of a task, so tasks with only some of their waits measured cannot be
        // compared.
        if filter.parts & (part::CPU | part::PRIO) == 0 && privilege::first_pid_namespace(&Roots::default()) {
            let wanted_tid = |tid| filter.pids.is_empty() || filter.pids.contains(&tid);
            let wanted = |tid, comm: &_| wanted_tid(tid) && filter.wants_comm(comm);
            let clock_ns = self.waits.window.clock_ns;
            let readings = read_tasks(self.proc, monotonic_ns, wanted);
            self.accounts = Some(TaskSchedstats::open(readings, clock_ns));
        }
        self.window_start.switches = self.read_switches()?;
        self.drain()?;
        self.window_start.own_side = self.own_side.totals()?;
        if let Ok(queue_clock) = &mut self.queue_clock {
            queue_clock.open(self.proc)?;
        }
        self.waits.window.counting_on = match &mut self.trigger_side {
            Ok((collector, triggers)) => {
                self.window_start.trigger_side = collector.totals()?;
                self.window_start.missed_by_trigger_rules = collector.missed()?;
                triggers.begin()?
            }
            Err(_) => now(),
        };
        Ok(())
    }

    /// Takes the waits that have settled, while the programs run.
    fn drain(&mut self) -> Result<()> {
        self.drain_to(|| DrainExtent::Settled { now_ns: monotonic_ns(), limit: usize::MAX })
    }

    /// Drains both sides: that of the trigger's rules first, so that the partner of each wait is in the other one.
    fn drain_to(&mut self, extent: impl Fn() -> DrainExtent) -> Result<()> {
        let Self { waits, accounts, queue_clock, round, config, .. } = self;
        if let Ok((collector, _)) = &mut self.trigger_side {
            collector.drain(extent(), |record| {
                let wait = decode(record)?;
                // The last trigger filters by the state of the task when the wait ends, so filter the same
                // way here.
                if config.filter.wants_at_end(&wait) {
                    waits.by_trigger_rules(&wait, *round);
                }
                Ok(())
            })?;
        }
        self.own_side.drain(extent(), |record| {
            let wait = decode(record)?;
            waits.by_own_rules(&wait, *round);
            if let Ok(queue_clock) = queue_clock {
                queue_clock.add(&wait);
            }
            if let Some(accounts) = accounts {
                let delivery_ns = if config.from == LatencyFrom::Waking { wait.delivery_ns.unwrap_or(0) } else { 0 };
                accounts.add(&wait, wait.latency_ns.saturating_sub(delivery_ns));
            }
            Ok(())
        })?;
        waits.pair(*round);
        *round += 1;
        Ok(())
    }

    /// Ends the window and removes everything.
    fn close(mut self, kernel: &str) -> Result<WindowMeasurement> {
        let off = match &self.trigger_side {
            Ok((_, triggers)) => triggers.end()?,
            Err(_) => now(),
        };
        self.waits.window.counting_off = Some(off);
        // Before the switches are read, so that they include all of its window.
        if let Ok(queue_clock) = &mut self.queue_clock {
            queue_clock.close(self.proc)?;
        }
        let switches = self.read_switches()?;
        self.drain()?;
        if let Some(accounts) = &mut self.accounts {
            let compared = |tid, comm: &_| accounts.compares(tid, comm);
            let readings: Vec<_> = read_tasks(self.proc, monotonic_ns, compared).collect();
            accounts.close(readings);
        }
        self.own_side.detach_and_wait()?;
        if let Ok((collector, _)) = &mut self.trigger_side {
            collector.detach_and_wait()?;
        }
        self.drain_to(|| DrainExtent::Rest { limit: usize::MAX })?;
        self.waits.finish();
        let totals = self.own_side.totals()?;
        let missed = checks::missed_since(self.own_side.missed()?, self.window_start.missed);
        let checks = self.checks(switches, &totals, missed)?;
        let classes = self.queue_clock.as_ref().ok().map(QueueClockSide::classes);
        let lost_by_bpf = match &self.trigger_side {
            Ok((collector, _)) => {
                let Self { window_start: WindowStartCounts { trigger_side, missed_by_trigger_rules, .. }, .. } = &self;
                let missed = checks::missed_since(collector.missed()?, *missed_by_trigger_rules);
                lost(&collector.totals()?) - lost(trigger_side) + missed.unwrap_or(0)
            }
            Err(_) => 0,
        };
        let Self { config, trigger_side, mut waits, window_start, .. } = self;
        let counted = match trigger_side {
            Ok((_, triggers)) => {
                let counted = triggers.counted()?;
                triggers.close()?;
                Ok(counted)
            }
            Err(why) => Err(why),
        };
        waits.exact.side.totals.dropped = lost_by_bpf;
        let since = |counter| totals.wakeups[counter] - window_start.own_side.wakeups[counter];
        Ok(WindowMeasurement {
            kernel: kernel.to_owned(),
            from: config.from,
            switching_ns: waits.window.counting_on.length_ns() + off.length_ns(),
            waits,
            counted,
            already_running: since(Counter::AlreadyRunning),
            already_queued: since(Counter::AlreadyQueued),
            checks,
            classes,
        })
    }

    fn checks(&self, switches: SwitchCounts, totals: &CounterTotals, missed: Option<u64>) -> Result<Vec<Check>> {
        let lost = lost(totals) - self.window_start.lost + missed.unwrap_or(0);
        // Not those of this process's affinity mask: a switch may be in progress on any.
        let cpus = Cpus::read(&Roots::default().sys, "online")?.count() as u64;
        let (ctxt, untraced) = checks::ctxt(self.window_start.switches, switches, missed, cpus);
        let schedstat = match &self.accounts {
            None => checks::unknown(
                "schedstat",
                "the kernel counts whole tasks, by their IDs in the initial PID namespace; leave out `--cpus` and `--prio`; if this is a container, start it with `--pid=host`",
            ),
            Some(accounts) => checks::schedstat(&accounts.sums(), untraced, lost, self.waits.window.clock_ns),
        };
        let [queue_clock, distributions, run_queues] = match &self.queue_clock {
            Err(why) => queue_clock_side::unavailable(why),
            Ok(queue_clock) => {
                let waiting = self.accounts.as_ref().map_or(0, |accounts| accounts.sums().waiting);
                let lacks = TracepointLosses { lost, untraced, waiting };
                let clock_ns = self.waits.window.clock_ns;
                [
                    queue_clock.check(lacks, cpus),
                    queue_clock.check_distributions(lacks, cpus, clock_ns),
                    queue_clock.check_run_queues(untraced),
                ]
            }
        };
        Ok(vec![schedstat, ctxt, queue_clock, distributions, run_queues])
    }

    fn read_switches(&self) -> Result<SwitchCounts> {
        SwitchCounts::read(self.proc, || Ok(self.own_side.switches_seen()))
    }
}

fn now() -> TimeBracket {
    let now_ns = monotonic_ns();
    TimeBracket { before_ns: now_ns, after_ns: now_ns }
}

/// Waits lost so far: no room in the task table or the ring buffer, invalid, or a missed switch.
fn lost(totals: &CounterTotals) -> u64 {
    const LOST: [Counter; 4] =
        [Counter::TaskTableFull, Counter::RingBufferFull, Counter::Invalid, Counter::MissedSwitch];
    [totals.wakeups, totals.preemptions].iter().flat_map(|counters| LOST.map(|counter| counters[counter])).sum()
}
