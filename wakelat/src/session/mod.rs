//! One run: the source is drained into groups for as long as asked, and each window ends in a report.

mod account;
pub(crate) mod action;
pub(crate) mod clock;
mod end;
pub(crate) mod input;
mod keyboard;
mod limit;
mod meter;
mod names;
pub(crate) mod output;
mod progress;
pub(crate) mod schedule;
pub(crate) mod scheduling;
pub(crate) mod settings;
pub(crate) mod stop;
mod view;
mod window;
mod writer;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{MissedTickBehavior, interval, sleep_until},
};

use self::{
    account::{Account, Step},
    action::Trigger,
    clock::monotonic_ns,
    end::end_now,
    keyboard::Console,
    names::Directory,
    output::{Output, Written},
    progress::Progress,
    schedule::{Cut, Schedule},
    stop::Signals,
    window::{Reading, Windows},
    writer::Writer,
};
pub use self::{
    stop::Stop,
    view::{Answer, Input, View},
};
use crate::{
    aggregate::key::Key,
    collect::{Collector, Totals},
    config::Config,
    decode::decode,
    say::say,
    timeline::{
        self,
        decode::Decoder,
        event::{Event, What},
    },
    wait::Wait,
};

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
    let names = Directory::new(place.cgroup_mount.clone());
    names.prepare(&config.by);
    let priority = settings::raise_priority(config.resources.rt_priority, settings::reader_is_light(config))?;
    let mut signals = Signals::catch()?;
    let shows_events = view.shows_events();
    let mut collector = Collector::load(&settings::of(config, place, view.shows_waits(), shows_events))?;
    view.loaded(&mut collector);
    let output = Writer::start(Output::open(config.output.path.as_deref())?, priority)?;
    let mut account = Account::open(&mut collector)?;
    account.attach(&mut collector, config.max_overhead_ppm)?;
    // Events count from here on, and wakelat may be slow from here on: where the programs know the end, it is exact.
    let (spent, reader_waited_ns) = (account.so_far()?, clock::run_delay_ns());
    let begun = Reading { at_ns: monotonic_ns(), reader_waited_ns, spent, ..Reading::default() };
    let mut schedule = Schedule::new(&config.window, begun.at_ns);
    if let Some(end_at_ns) = schedule.end_at_ns() {
        collector.end_at(end_at_ns)?;
    }
    collector.open()?;
    let mut run = Run {
        windows: Windows::new(config, &place.kernel, account.cpus(), &begun, shows_events.is_some()),
        account,
        decoder: shows_events.map(|_| Decoder::default()),
        reasons: config.by.contains(&Key::Part).then(|| timeline::Timeline::new(config.from)),
        trigger: config.threshold.as_ref().map(|threshold| Trigger::new(threshold.action.clone())),
        threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
        by: &config.by,
        rt_priority: config.resources.rt_priority,
        names,
        view,
        output,
        stop: None,
    };
    let begun = run.output.write(|out| run.view.begin(out));
    run.look(begun)?;
    if !config.output.quiet {
        say("measuring");
    }
    let waiting = "cannot wait for the ring buffer";
    let bell = collector.bell().context(waiting)?;
    // SAFETY: an OwnedFd is one descriptor, open as long as it lives.
    let bell = unsafe { AsyncFd::register_with_interest(bell, Interest::READABLE) }.context(waiting)?;
    let mut drain = interval(settings::drain_interval(config));
    drain.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = Progress::new(config);
    let mut console = run.view.takes_input().then(Console::open).transpose()?;
    while run.stop.is_none() {
        let mut cut = None;
        tokio::select! {
            biased;
            () = signals.first() => run.stop = Some(Stop::Signalled),
            // Before the cuts: where these are always due, the limit of the overhead is held nevertheless.
            () = sleep_until(run.account.next_at()), if !schedule.is_over(monotonic_ns()) => {
                match run.account.step(&mut collector)? {
                    Step::Go => continue,
                    step => run.follow(step, &mut collector)?,
                }
            }
            input = keyboard::input(&mut console) => match run.view.input(input) {
                Answer::Quit => run.stop = Some(Stop::Signalled),
                // No report of the warm-up.
                Answer::Report if !schedule.is_warming_up() => cut = Some(Cut::Interval { skipped: 0 }),
                Answer::Report | Answer::Nothing => continue,
            },
            () = schedule.next_is_due() => cut = schedule.pass(monotonic_ns()),
            rung = bell.readable() => {
                rung.context(waiting)?.clear_ready();
                run.account.wake(&collector)?;
            }
            // In a rest nothing comes.
            _ = drain.tick(), if !run.account.is_resting() => {}
        }
        match cut {
            Some(Cut::End) => run.stop = Some(Stop::Done),
            Some(cut) => run.cut(&mut collector, cut, &mut schedule)?,
            None => run.drain(&mut collector)?,
        }
        progress.show(&schedule, run.windows.received());
        if run.output.reader_is_gone() {
            run.stop = Some(Stop::NoReader);
        }
    }
    progress.clear();
    run.end(&mut collector, &schedule, config.output.quiet)?;
    // Nothing runs in the kernel any more, however long the output takes.
    drop((bell, collector));
    if run.output.finish()? == Written::NoReader {
        run.stop = Some(Stop::NoReader);
    }
    if let Some(trigger) = &mut run.trigger {
        trigger.finish()?;
    }
    Ok(run.stop.unwrap_or(Stop::Done))
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
    /// What waits are grouped by.
    by: &'a [Key],
    /// The real-time priority asked for, 0 for none; none where it was left open.
    rt_priority: Option<u8>,
    names: Directory,
    view: &'a mut dyn View,
    output: Writer,
    stop: Option<Stop>,
}

impl Run<'_> {
    /// Takes all that is in the ring buffer now; what comes meanwhile waits for the next time.
    fn drain(&mut self, collector: &mut Collector) -> Result<()> {
        self.drain_up_to(collector.ring_capacity(), collector).map(|_| ())
    }

    /// Takes up to `limit` records out of the ring buffer. Returns how many there were.
    fn drain_up_to(&mut self, limit: usize, collector: &mut Collector) -> Result<usize> {
        let drained = collector.drain(limit, |record| match &mut self.decoder {
            Some(decoder) => {
                let event = decoder.decode(record)?;
                self.take_event(event)
            }
            None => self.take(&decode(record)?).map(|_| ()),
        });
        // Only an error of the output is the output's to judge.
        let (records, written) = match drained.map_err(|error| error.downcast::<std::io::Error>()) {
            Ok(records) => (records, self.output.send()),
            Err(Ok(error)) => (0, self.output.judge(error)),
            Err(Err(other)) => return Err(other),
        };
        self.names.settle();
        self.look(written)?;
        Ok(records)
    }

    /// Ends the run where nobody reads the output any more.
    fn look(&mut self, written: Result<Written>) -> Result<()> {
        if written? == Written::NoReader {
            self.stop = Some(Stop::NoReader);
        }
        Ok(())
    }

    /// Returns whether the wait is in the report: it is not where it belongs to the warm-up.
    fn take(&mut self, wait: &Wait) -> Result<bool> {
        if !self.windows.record(wait) {
            return Ok(false);
        }
        self.names.see(wait, self.by);
        if self.view.shows_waits() {
            self.names.learn(wait.tid, wait.comm);
            self.names.learn(wait.prev_tid, wait.prev_comm);
            wait.waker_tid.into_iter().for_each(|tid| self.names.refresh(tid));
            if self.output.is_full() {
                self.windows.leave_unwritten();
            } else {
                self.view.wait(wait, self.windows.unix_offset_ns(), &self.names, &mut self.output)?;
            }
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

    fn take_event(&mut self, mut event: Event) -> Result<()> {
        if let What::Turn(turn) = &mut event.what {
            for task in [&turn.prev, &turn.next] {
                self.names.learn(task.tid, task.comm);
            }
            if let Some(waited) = &turn.waited
                && !self.take(&waited.wait)?
            {
                turn.waited = None;
            }
        }
        if let Some(account) = self.reasons.as_mut().and_then(|reasons| reasons.push(&event)) {
            self.windows.record_parts(account);
        }
        if self.output.is_full() {
            // To a view it is one that found no room in the ring buffer.
            self.windows.leave_unwritten();
            return Ok(());
        }
        Ok(self.view.event(&event, self.windows.unix_offset_ns(), &self.names, &mut self.output)?)
    }

    /// Takes all there is: what was counted, and what was delivered. Returns when it began to.
    fn take_all(&mut self, collector: &mut Collector) -> Result<u64> {
        let at_ns = monotonic_ns();
        collector.take_counted(|class, histogram| self.windows.record_counted(class, histogram))?;
        self.drain(collector)?;
        Ok(at_ns)
    }

    /// Ends a window while the programs go on.
    fn cut(&mut self, collector: &mut Collector, cut: Cut, schedule: &mut Schedule) -> Result<()> {
        if let Cut::Interval { skipped } = cut {
            self.skip(skipped);
            if self.output.is_full() {
                // The next report that can be written covers this interval, too.
                self.skip(1);
                return self.drain(collector);
            }
        }
        let mut at_ns = 0;
        let totals = collector.totals_around(|collector| self.take_all(collector).map(|now_ns| at_ns = now_ns))?;
        let requested_ns = if self.view.is_cumulative() { None } else { schedule.requested_ns(cut) };
        let reading = Reading { totals, ..self.read(collector, at_ns, requested_ns)? };
        if cut == Cut::WarmUp {
            self.begin(&reading);
            schedule.begin(at_ns);
            if let Some(end_at_ns) = schedule.end_at_ns() {
                collector.end_at(end_at_ns)?;
            }
            let written = self.output.write(|out| self.view.warmed_up(out));
            return self.look(written);
        }
        let mut report = self.windows.cut(&reading, &self.names);
        self.view.complete(&mut report);
        let written = self.output.write(|out| self.view.report(&report, out));
        self.look(written)?;
        if !self.view.is_cumulative() {
            self.begin(&reading);
            self.names.forget_threads();
        }
        Ok(())
    }

    /// Intervals ended that have no report: they are part of the window under way, where each window begins anew.
    fn skip(&mut self, intervals: u64) {
        if !self.view.is_cumulative() {
            self.windows.skip(intervals);
        }
    }

    /// All but the counters of a window that ends at `at_ns`.
    fn read(&mut self, collector: &Collector, at_ns: u64, requested_ns: Option<u64>) -> Result<Reading> {
        Ok(Reading {
            at_ns,
            reader_waited_ns: clock::run_delay_ns(),
            requested_ns,
            totals: Totals::default(),
            missed: collector.missed()?,
            spent: self.account.spent(collector)?,
            watched_one_in: self.account.watched_one_in(),
        })
    }

    /// Does what the limit of the overhead asks for.
    fn follow(&mut self, step: Step, collector: &mut Collector) -> Result<()> {
        match step {
            Step::Go => {}
            Step::Period(period) => {
                // What came until now is of the period before.
                let at_ns = monotonic_ns();
                self.drain(collector)?;
                self.windows.end_period(at_ns);
                self.windows.begin_period(period, at_ns);
            }
            Step::Rest(rest) => {
                let left_at_ns = collector.detach_and(|collector| self.account.leave(collector, rest))?;
                self.take_all(collector)?;
                self.windows.end_period(left_at_ns);
                self.windows.cut_off(&collector.take_waiting()?);
            }
            Step::Return => {
                collector.attach()?;
                let period = self.account.come_back(collector)?;
                period.into_iter().for_each(|period| self.windows.begin_period(period, monotonic_ns()));
            }
        }
        Ok(())
    }

    fn begin(&mut self, reading: &Reading) {
        self.windows.begin(reading);
        self.account.begin_window();
    }

    /// Ends the window, and works off what is left of it.
    fn end(&mut self, collector: &mut Collector, schedule: &Schedule, quiet: bool) -> Result<()> {
        let is_done = self.stop == Some(Stop::Done);
        let end_at_ns = match schedule.end_at_ns().filter(|_| is_done) {
            Some(end_at_ns) => end_at_ns,
            None => end_now(collector, schedule.end_at_ns())?,
        };
        collector.close()?;
        self.view.ended();
        // Nothing is measured any more that this could delay.
        self.output.hurry(settings::raise_priority(self.rt_priority, true)?);
        self.skip(schedule.uncut(end_at_ns));
        let requested_ns =
            if self.view.is_cumulative() { schedule.length_ns() } else { schedule.requested_ns(Cut::End) };
        let reading = self.read(collector, end_at_ns, requested_ns.filter(|_| is_done))?;
        collector.detach()?;
        self.take_all_that_is_left(collector, end_at_ns, quiet)?;
        let reading = Reading { totals: collector.totals()?, missed: collector.missed()?, ..reading };
        let mut report = self.windows.end(&reading, &collector.take_waiting()?, &self.names);
        self.view.complete(&mut report);
        if self.stop != Some(Stop::NoReader) {
            let written = self.output.write(|out| self.view.report(&report, out));
            self.look(written)?;
        }
        Ok(())
    }

    fn take_all_that_is_left(&mut self, collector: &mut Collector, end_at_ns: u64, quiet: bool) -> Result<()> {
        /// Records between two looks at the clock.
        const AT_ONCE: usize = 4_096;
        const NOTICEABLE_NS: u64 = 300_000_000;
        collector.take_counted(|class, histogram| self.windows.record_counted(class, histogram))?;
        let mut said = quiet;
        while self.drain_up_to(AT_ONCE, collector)? > 0 {
            if !said && monotonic_ns().saturating_sub(end_at_ns) > NOTICEABLE_NS {
                say("the window has ended; reading what is left in the ring buffer");
                said = true;
            }
        }
        Ok(())
    }
}
