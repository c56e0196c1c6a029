//! One run: the source is drained into groups for as long as asked, and each window ends in a report.

mod account;
pub(crate) mod action;
pub(crate) mod clock;
pub(crate) mod input;
mod limit;
mod meter;
mod names;
pub(crate) mod output;
mod progress;
pub(crate) mod schedule;
pub(crate) mod scheduling;
pub(crate) mod settings;
pub(crate) mod stop;
mod window;

use std::{io::Write, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

pub use self::stop::Stop;
use self::{
    account::{Account, Step},
    action::Trigger,
    names::Directory,
    output::{Output, Written},
    progress::Progress,
    schedule::{Cut, Schedule},
    stop::Signals,
    window::{Reading, Windows},
};
use crate::{
    aggregate::key::{Key, Names},
    collect::{Collector, Timeline},
    config::Config,
    decode::decode,
    report::{Mode, Report},
    say::say,
    timeline::{
        self,
        decode::Decoder,
        event::{Event, What},
    },
    wait::Wait,
};

/// What a command shows of a run.
pub trait View {
    /// Whether it shows single waits: then they are given as they come.
    fn shows_waits(&self) -> bool {
        false
    }

    /// What it shows of the course of events on each CPU, if anything: then that is given as it comes. Waits have to be
    /// counted in user space ([`Mode::Samples`]).
    fn shows_events(&self) -> Option<Timeline> {
        None
    }

    /// Whether each report covers all since the start, and not only what is new.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// The programs are loaded, and not attached yet.
    fn loaded(&mut self, _collector: &mut Collector) {}

    /// Before anything else.
    ///
    /// # Errors
    /// Those of `out`.
    fn begin(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// One wait.
    ///
    /// # Errors
    /// Those of `out`.
    fn wait(
        &mut self,
        _wait: &Wait,
        _unix_offset_ns: i64,
        _names: &dyn Names,
        _out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Ok(())
    }

    /// One event, in the order of its CPU. Those of the warm-up come, too, for what they tell of what comes after it, but
    /// without the waits that ended in it; [`View::warmed_up`] stands between. Where [`View::shows_waits`], a wait was given
    /// to [`View::wait`] before its event.
    ///
    /// # Errors
    /// Those of `out`.
    fn event(
        &mut self,
        _event: &Event,
        _unix_offset_ns: i64,
        _names: &dyn Names,
        _out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Ok(())
    }

    /// The warm-up has ended: what came so far is only the past of what comes.
    ///
    /// # Errors
    /// Those of `out`, and where what was counted so far cannot be read.
    fn warmed_up(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// A window has ended.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> std::io::Result<()>;
}

/// Where the run takes place.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The kernel's release, as `uname -r` says it.
    pub kernel: String,
    /// Where the v2 hierarchy of cgroups is mounted, if it is.
    pub cgroup_mount: Option<PathBuf>,
    /// The kernel's types, if there are any.
    pub btf: Option<PathBuf>,
    /// Where tracefs is mounted, if it is.
    pub tracefs: Option<PathBuf>,
}

/// Runs until something ends it; shows through `view` what it found. Blocks.
///
/// # Errors
/// Where the kernel refuses to measure, the output cannot be written, or the threshold's action fails. Nothing stays
/// attached.
pub fn run(config: &Config, place: &Place, view: &mut dyn View) -> Result<Stop> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    runtime.block_on(measure(config, place, view))
}

async fn measure(config: &Config, place: &Place, view: &mut dyn View) -> Result<Stop> {
    let mut output = Output::open(config.output.path.as_deref())?;
    let names = Directory::new(place.cgroup_mount.clone());
    if let Some(priority) = config.resources.rt_priority {
        settings::raise_priority(priority)?;
    }
    let mut signals = Signals::catch()?;
    let shows_events = view.shows_events();
    let mut collector = Collector::load(&settings::of(config, place, view.shows_waits(), shows_events))?;
    view.loaded(&mut collector);
    let mut account = Account::open(&mut collector, config.max_overhead_ppm)?;
    collector.attach()?;
    // The window begins at once: on a machine with too much to do, whatever came before it would take its time.
    let mut schedule = Schedule::new(&config.window, Instant::now());
    let mut run = Run {
        windows: Windows::new(config, &place.kernel, account.cpus(), account.so_far()?, shows_events.is_some()),
        account,
        decoder: shows_events.map(|_| Decoder::default()),
        reasons: config.by.contains(&Key::Part).then(|| timeline::Timeline::new(config.from)),
        trigger: config.threshold.as_ref().map(|threshold| Trigger::new(threshold.action.clone())),
        threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
        names,
        view,
        stop: None,
    };
    if !config.output.quiet {
        say("measuring");
    }
    if output.write(|out| run.view.begin(out))? == Written::NoReader {
        run.stop = Some(Stop::NoReader);
    }
    let waiting = "cannot wait for the ring buffer";
    let bell = collector.bell().context(waiting)?;
    // SAFETY: an OwnedFd is one descriptor, open as long as it lives.
    let bell = unsafe { AsyncFd::register_with_interest(bell, Interest::READABLE) }.context(waiting)?;
    let mut drain = interval(drain_interval(config));
    drain.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = Progress::new(config);
    while run.stop.is_none() {
        let mut cut = None;
        tokio::select! {
            biased;
            () = signals.first() => run.stop = Some(Stop::Signalled),
            () = sleep_until(schedule.next_at()), if schedule.has_next() => cut = Some(schedule.pass()),
            () = sleep_until(run.account.next_at()) => {
                match run.account.step(&mut collector)? {
                    Step::Go => continue,
                    step => run.follow(step, &mut collector, &mut output)?,
                }
            }
            rung = bell.readable() => {
                rung.context(waiting)?.clear_ready();
                run.account.wake(&collector)?;
            }
            // In a rest nothing comes.
            _ = drain.tick(), if !run.account.is_resting() => {}
        }
        match cut {
            Some(Cut::End) => run.stop = Some(Stop::Done),
            Some(cut) => run.cut(&mut collector, cut, &mut output)?,
            None => run.drain(&mut collector, &mut output)?,
        }
        progress.show(&schedule, run.windows.received());
        if output.reader_is_gone() {
            run.stop = Some(Stop::NoReader);
        }
    }
    progress.clear();
    run.end(&mut collector, &mut output)?;
    if let Some(trigger) = &mut run.trigger {
        trigger.finish()?;
    }
    Ok(run.stop.unwrap_or(Stop::Done))
}

/// How often to look for what has come. Where waits are counted in the kernel, only windows end.
fn drain_interval(config: &Config) -> Duration {
    const NOTHING_COMES: Duration = Duration::from_millis(250);
    match config.mode {
        Mode::Samples => Duration::from_nanos(config.resources.drain_interval_ns),
        Mode::Aggregate => NOTHING_COMES,
    }
}

/// A run under way.
struct Run<'a> {
    windows: Windows,
    account: Account,
    /// Where events are shown: what makes them of the records.
    decoder: Option<Decoder>,
    /// Where waits are grouped by part: what tells the parts.
    reasons: Option<timeline::Timeline>,
    trigger: Option<Trigger>,
    threshold_ns: Option<u64>,
    names: Directory,
    view: &'a mut dyn View,
    stop: Option<Stop>,
}

impl Run<'_> {
    /// Takes all that is in the ring buffer now; what comes meanwhile waits for the next time.
    fn drain(&mut self, collector: &mut Collector, output: &mut Output) -> Result<()> {
        let capacity = collector.ring_capacity();
        let mut failed = None;
        let written = output.write(|out| {
            let drained = collector.drain(capacity, |record| {
                let event = match &mut self.decoder {
                    Some(decoder) => decoder.decode(record)?,
                    None => return self.take(&decode(record)?, out).map(|_| ()),
                };
                self.take_event(event, out)
            });
            // Only an error of the writer is the writer's to judge.
            match drained.map_err(|error| error.downcast::<std::io::Error>()) {
                Ok(_) => Ok(()),
                Err(Ok(io)) => Err(io),
                Err(Err(other)) => {
                    failed = Some(other);
                    Ok(())
                }
            }
        })?;
        if written == Written::NoReader {
            self.stop = Some(Stop::NoReader);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns whether the wait is in the report: it is not where it belongs to the warm-up.
    fn take(&mut self, wait: &Wait, out: &mut dyn Write) -> Result<bool> {
        if !self.windows.record(wait) {
            return Ok(false);
        }
        if self.view.shows_waits() {
            self.names.learn(wait.tid, wait.comm);
            self.names.learn(wait.prev_tid, wait.prev_comm);
            self.view.wait(wait, self.windows.unix_offset_ns(), &self.names, out)?;
        }
        if self.threshold_ns.is_some_and(|threshold_ns| wait.latency_ns >= threshold_ns) {
            self.windows.count_over();
            if let Some(trigger) = &mut self.trigger
                && trigger.fire(wait, self.windows.unix_offset_ns())?
            {
                self.stop = Some(Stop::Threshold);
            }
        }
        Ok(true)
    }

    fn take_event(&mut self, mut event: Event, out: &mut dyn Write) -> Result<()> {
        if let What::Turn(turn) = &mut event.what {
            for task in [&turn.prev, &turn.next] {
                self.names.learn(task.tid, task.comm);
            }
            if let Some(waited) = &turn.waited
                && !self.take(&waited.wait, out)?
            {
                turn.waited = None;
            }
        }
        if let Some(account) = self.reasons.as_mut().and_then(|reasons| reasons.push(&event)) {
            self.windows.record_parts(account);
        }
        Ok(self.view.event(&event, self.windows.unix_offset_ns(), &self.names, out)?)
    }

    /// Takes all there is: what was counted, and what was delivered.
    fn take_all(&mut self, collector: &mut Collector, output: &mut Output) -> Result<()> {
        collector.take_counted(|class, histogram| self.windows.record_counted(class, histogram))?;
        self.drain(collector, output)
    }

    /// Ends a window while the programs go on.
    fn cut(&mut self, collector: &mut Collector, cut: Cut, output: &mut Output) -> Result<()> {
        let totals = collector.totals_around(|collector| self.take_all(collector, output))?;
        let reading = Reading {
            totals,
            missed: collector.missed()?,
            spent: self.account.spent(collector)?,
            watched_one_in: self.account.watched_one_in(),
        };
        if cut == Cut::WarmUp {
            self.begin(&reading);
            if output.write(|out| self.view.warmed_up(out))? == Written::NoReader {
                self.stop = Some(Stop::NoReader);
            }
            return Ok(());
        }
        let report = self.windows.cut(&reading, &self.names);
        if output.write(|out| self.view.report(&report, out))? == Written::NoReader {
            self.stop = Some(Stop::NoReader);
        }
        if !self.view.is_cumulative() {
            self.begin(&reading);
        }
        Ok(())
    }

    /// Does what the limit of the overhead asks for.
    fn follow(&mut self, step: Step, collector: &mut Collector, output: &mut Output) -> Result<()> {
        match step {
            Step::Go => {}
            Step::Period(period) => {
                // What came until now is of the period before.
                self.drain(collector, output)?;
                self.windows.begin_period(period);
            }
            Step::Rest(rest) => {
                collector.detach_and(|collector| self.account.leave(collector, rest))?;
                self.take_all(collector, output)?;
                self.windows.cut_off(&collector.take_waiting()?);
            }
            Step::Return => {
                collector.attach()?;
                if let Some(period) = self.account.come_back()? {
                    self.windows.begin_period(period);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, reading: &Reading) {
        self.windows.begin(reading);
        self.account.begin_window();
    }

    /// Ends the run: nothing runs in the kernel any more, so that the account is exact.
    fn end(&mut self, collector: &mut Collector, output: &mut Output) -> Result<()> {
        let duration_ns = self.windows.elapsed_ns();
        let spent = self.account.spent(collector)?;
        collector.detach()?;
        self.take_all(collector, output)?;
        let reading = Reading {
            totals: collector.totals()?,
            missed: collector.missed()?,
            spent,
            watched_one_in: self.account.watched_one_in(),
        };
        let report = self.windows.end(duration_ns, &reading, &collector.take_waiting()?, &self.names);
        if self.stop != Some(Stop::NoReader) {
            output.write(|out| self.view.report(&report, out))?;
        }
        Ok(())
    }
}
