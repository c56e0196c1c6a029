//! The event loop of a run: drains the ring buffer into groups, and ends each window with a report.

mod aggregated_waits;
mod begin_period;
mod cgroup_tree;
pub(crate) mod clock;
mod drain;
mod end_window;
mod environment;
pub(crate) mod exec_failure;
pub mod ignored_signal;
mod limit_actions;
mod measured_command;
mod name_resolver;
pub(crate) mod open_input;
pub(crate) mod output;
mod overhead;
mod privileges;
pub(crate) mod program_settings;
mod progress;
pub(crate) mod replay;
mod screen;
mod stack_numbers;
pub(crate) mod stack_symbolizer;
pub(crate) mod stop_reason;
pub(crate) mod terminal;
pub(crate) mod threshold_action;
mod view;
mod window;
pub(crate) mod window_schedule;
pub(crate) mod writer;

use std::future::pending;

use anyhow::{Context as _, Result};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
    task::{LocalSet, yield_now},
    time::{MissedTickBehavior, interval, sleep_until},
};

pub use self::environment::Environment;
pub use self::measured_command::CommandNotStarted;
pub(crate) use self::privileges::is_writable_by_mode;
pub use self::stop_reason::StopReason;
pub use self::view::{InputAction, View};
use self::{
    begin_period::begin_period_now,
    clock::monotonic_ns,
    end_window::{end_now, warn_of_unfollowed},
    measured_command::MeasuredCommand,
    name_resolver::NameResolver,
    output::{Output, WriteResult},
    overhead::monitor::{OverheadAction, OverheadMonitor},
    progress::Progress,
    screen::Screen,
    stop_reason::{RequestSignal, Signals},
    threshold_action::ActionRunner,
    window::{WindowReading, Windows},
    window_schedule::{Schedule, WindowBoundary},
    writer::OutputWriter,
};
use crate::{
    collect::{Collector, CounterTotals},
    config::Config,
    status::status,
};
use wakelat_core::{
    aggregate::key::Key,
    timeline::{self, decode::Decoder},
    why::counted::CauseGroups,
};
use wakelat_kernel::Roots;

/// Measures until the run ends, and shows the results through `view`. Blocks. Fails if the kernel refuses to
/// measure, the output cannot be written, or the threshold's action fails; detaches the programs in any case.
pub fn run(config: &Config, environment: &Environment, view: &mut dyn View) -> Result<StopReason> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    // A view may spawn tasks of its own on this thread.
    LocalSet::new().block_on(&runtime, measure(config, environment, view))
}

async fn measure(config: &Config, environment: &Environment, view: &mut dyn View) -> Result<StopReason> {
    // Before it would inherit a priority, or fewer privileges.
    let command = (!config.command.is_empty())
        .then(|| MeasuredCommand::hold(&config.command, view.is_interactive()))
        .transpose()?;
    let mut names = NameResolver::new(environment.cgroup_mount.clone());
    names.prepare(&config.by);
    let (shows_events, shows_causes) = (view.shows_events(), view.shows_causes());
    if shows_events.is_some() {
        names.prepare_for_events(view.makes_recording());
    }
    // The tables of causes can be large.
    let is_light = program_settings::reader_is_light(config) && shows_causes.is_none();
    let priority = program_settings::raise_priority(config.resources.rt_priority, is_light)?;
    // Before signals are caught: it may wait for the reader of a FIFO.
    let output = (if view.makes_recording() { Output::of_recording } else { Output::of })(&config.output)?;
    let request = view.request_signal();
    let (mut signals, mut requests) = (Signals::catch(request)?, RequestSignal::catch(request)?);
    let has_cgroups = shows_causes.is_some_and(|groups| groups != CauseGroups::Names);
    if has_cgroups {
        names.use_paths_at_once();
    }
    if has_cgroups || view.needs_cgroups() {
        names.prepare(&[Key::Cgroup]);
    }
    let command_id = command.as_ref().map(MeasuredCommand::id);
    let settings = program_settings::of(config, environment, command_id, &*view);
    let mut collector = Collector::load(&settings)?;
    view.loaded(&mut collector);
    let mut overhead = OverheadMonitor::open(view.unlimited_cpu_ns())?;
    overhead.attach(&mut collector, config.max_overhead_ppm, program_settings::samples_tasks(config))?;
    collector.follow_descendants(&Roots::default().proc)?;
    // Everything that needs a privilege is open. Threads inherit what is left.
    privileges::drop_unneeded(config, environment, shows_events, command_id, view)?;
    let output = OutputWriter::start(output, priority)?;
    let (cost, reader_waited_ns) = (overhead.cost(&collector, monotonic_ns())?, clock::run_delay_ns());
    let (totals, missed) = (collector.totals()?, collector.missed()?);
    // Events count from here on. A planned end of the window is exact even if wakelat is late, because the
    // programs know it.
    let at_ns = monotonic_ns();
    let begun = WindowReading { at_ns, reader_waited_ns, cost, totals, missed, ..WindowReading::default() };
    let schedule = Schedule::new(&config.window, begun.at_ns);
    if let Some(end_at_ns) = schedule.end_at_ns() {
        collector.end_at(end_at_ns)?;
    }
    begin_period_now(&mut collector, Collector::open)?;
    let mut run = Run {
        windows: Windows::new(config, &environment.kernel, overhead.cpus(), &begun, shows_events.is_some())
            .with_groups(view.shows_groups() || config.max_overhead_ppm.is_some()),
        schedule,
        overhead,
        decoder: shows_events.map(|_| Decoder::default()),
        timeline: config.by.contains(&Key::Component).then(|| timeline::Timeline::new(config.from)),
        trigger: config.threshold.as_ref().map(|threshold| ActionRunner::new(threshold.action.clone())),
        threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
        by: &config.by,
        rt_priority: config.resources.rt_priority,
        names,
        view,
        output,
        screen: None,
        stop: None,
    };
    if let Some(command) = &command {
        // Before anything is written: nothing is, if the command cannot begin.
        tokio::select! {
            biased;
            begun = command.begin() => begun?,
            () = signals.first() => run.stop = Some(StopReason::Signalled),
        }
    }
    let report = run.windows.interval_report(&begun, &run.names);
    let written = run.output.write(|out| {
        run.view.begin(out)?;
        run.view.started(&report, out)
    });
    run.check_written(written)?;
    // Whatever happens from here on, a recording can be read.
    run.output.wait_for_file();
    if !config.output.quiet {
        status("measuring");
    }
    let failed = "cannot wait for the ring buffer";
    let ring_fd = collector.ring_fd().context(failed)?;
    // SAFETY: an `OwnedFd` is the same open file descriptor for as long as it lives.
    let ring_fd = unsafe { AsyncFd::register_with_interest(ring_fd, Interest::READABLE) }.context(failed)?;
    let mut drain = interval(program_settings::drain_interval(config));
    let reads_groups = program_settings::takes_groups_between_reports(config);
    drain.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = Progress::new(config);
    run.open_screen()?;
    let report_requests = run.view.report_requests();
    // Records remain from the last drain.
    let mut has_more = false;
    while run.stop.is_none() {
        let mut due = None;
        tokio::select! {
            biased;
            () = signals.first() => run.stop = Some(StopReason::Signalled),
            () = MeasuredCommand::ended(command.as_ref()) => run.stop = Some(StopReason::CommandEnded(0)),
            () = requests.next() => {
                run.view.request();
                continue;
            }
            // Before the window boundaries: the overhead limit holds even if a boundary is always due.
            () = sleep_until(run.overhead.next_at()), if !run.schedule.is_over(monotonic_ns()) => {
                // Reading the records of a period is part of its cost. Nothing arrives during a pause.
                if !run.overhead.is_paused() {
                    run.drain(&mut collector)?;
                }
                match run.overhead.step(&mut collector)? {
                    OverheadAction::Nothing => continue,
                    step => run.apply(step, &mut collector)?,
                }
            }
            event = Screen::next(&mut run.screen) => match run.handle(event)? {
                InputAction::Quit => run.stop = Some(StopReason::Signalled),
                // No report of the warm-up.
                InputAction::Report if !run.schedule.is_warming_up() => due = Some(WindowBoundary::Interval { skipped: 0 }),
                InputAction::Report | InputAction::Redraw | InputAction::Nothing => {
                    run.draw()?;
                    continue;
                }
            },
            () = run.schedule.next_is_due() => {
                let is_interval = |due: &WindowBoundary| matches!(due, WindowBoundary::Interval { .. });
                due = run.schedule.take_due(monotonic_ns());
                due.take_if(|due| is_interval(due) && !run.view.is_report_due());
            }
            // No view that requests reports has a warm-up.
            () = requested(report_requests.as_deref()) => due = Some(WindowBoundary::Interval { skipped: 0 }),
            readable = ring_fd.readable() => {
                readable.context(failed)?.clear_ready();
            }
            _ = drain.tick(), if !run.overhead.is_paused() => {
                if reads_groups {
                    run.take_aggregated(&mut collector)?;
                }
                if has_cgroups {
                    run.names.follow_cgroups();
                }
            }
            // Lets the runtime notice signals, and the tasks of the view run.
            () = yield_now(), if has_more => {}
        }
        match due {
            Some(WindowBoundary::End) => run.stop = Some(StopReason::Done),
            Some(due) => run.end_interval(&mut collector, due)?,
            None => has_more = run.drain_some(&mut collector)?,
        }
        if !has_more {
            run.view.caught_up();
        }
        run.draw()?;
        progress.show(&run.schedule, run.windows.received());
        if run.output.reader_is_gone() {
            run.stop = Some(StopReason::NoReader);
        } else if run.stop.is_none() && run.view.is_satisfied() {
            run.stop = Some(StopReason::Signalled);
        }
    }
    progress.clear();
    run.end(&mut collector, config.output.quiet)?;
    run.close_screen()?;
    // No program is attached while the output is written, however long that takes.
    drop((ring_fd, collector));
    if run.output.finish()? == WriteResult::NoReader {
        run.stop = Some(StopReason::NoReader);
    }
    let acted = run.trigger.as_mut().map_or(Ok(()), ActionRunner::finish);
    let stop = run.stop.unwrap_or(StopReason::Done);
    // Also if the action has failed: the command would outlive the run.
    let ended = match command {
        Some(command) => command.end(stop),
        None => Ok(stop),
    };
    acted.and(ended)
}

/// Waits for a request for a report, if the view makes any.
async fn requested(report_requests: Option<&Notify>) {
    match report_requests {
        Some(requests) => requests.notified().await,
        None => pending().await,
    }
}

/// State of a run.
struct Run<'a> {
    windows: Windows,
    schedule: Schedule,
    overhead: OverheadMonitor,
    /// Decodes records to events, if the view shows events.
    decoder: Option<Decoder>,
    /// Splits waits into components, if they are grouped by component.
    timeline: Option<timeline::Timeline>,
    trigger: Option<ActionRunner>,
    threshold_ns: Option<u64>,
    /// The keys that waits are grouped by.
    by: &'a [Key],
    /// The requested real-time priority: 0 for none, `None` if not specified.
    rt_priority: Option<u8>,
    names: NameResolver,
    view: &'a mut dyn View,
    output: OutputWriter,
    screen: Option<Screen>,
    stop: Option<StopReason>,
}

impl Run<'_> {
    /// Ends the run if the reader of the output is gone.
    fn check_written(&mut self, written: Result<WriteResult>) -> Result<()> {
        if written? == WriteResult::NoReader {
            self.stop = Some(StopReason::NoReader);
        }
        Ok(())
    }

    /// Ends a window while the programs keep running.
    fn end_interval(&mut self, collector: &mut Collector, due: WindowBoundary) -> Result<()> {
        if let WindowBoundary::Interval { skipped } = due {
            self.skip(skipped);
            if self.output.is_full() {
                // The next report that can be written also covers this interval.
                self.skip(1);
                return self.drain(collector);
            }
        }
        let mut at_ns = 0;
        let totals = collector.totals_after(|collector| {
            // Everything was taken when the pause began.
            at_ns = monotonic_ns();
            if due == WindowBoundary::WarmUp {
                // The end of a short window can come before what is left of the warm-up is taken.
                self.schedule.begin(at_ns);
                self.schedule.end_at_ns().map_or(Ok(()), |end_at_ns| collector.end_at(end_at_ns))?;
            }
            if self.overhead.is_paused() { Ok(()) } else { self.take_all(at_ns, collector) }
        })?;
        let requested_ns = if self.view.is_cumulative() { None } else { self.schedule.requested_ns(due) };
        let reading = WindowReading { totals, ..self.read(collector, at_ns, requested_ns)? };
        if due == WindowBoundary::WarmUp {
            self.begin(&reading);
            let written = self.output.write(|out| self.view.warmed_up(out));
            return self.check_written(written);
        }
        self.follow_wall_clock();
        self.pass_groups()?;
        let mut report = self.windows.interval_report(&reading, &self.names);
        self.view.complete(&mut report);
        let written = self.output.write(|out| self.view.report(&report, out));
        self.check_written(written)?;
        self.screen.iter_mut().for_each(Screen::set_stale);
        if !self.view.is_cumulative() {
            self.begin(&reading);
            self.names.forget_threads();
        }
        Ok(())
    }

    /// Gives the next report and the events after it the time of the wall clock, if the view needs that.
    fn follow_wall_clock(&mut self) {
        if self.view.makes_recording() {
            self.windows.follow_wall_clock();
        }
    }

    /// Counts intervals that ended without a report and are part of the current window.
    fn skip(&mut self, intervals: u64) {
        if !self.view.is_cumulative() {
            self.windows.skip(intervals);
        }
    }

    /// Everything except the counters of a window that ends at `at_ns`.
    fn read(&mut self, collector: &Collector, at_ns: u64, requested_ns: Option<u64>) -> Result<WindowReading> {
        Ok(WindowReading {
            at_ns,
            reader_waited_ns: clock::run_delay_ns(),
            requested_ns,
            totals: CounterTotals::default(),
            missed: collector.missed()?,
            cost: self.overhead.cost(collector, at_ns)?,
            sampled_one_in: self.overhead.sampled_one_in(),
        })
    }

    fn begin(&mut self, reading: &WindowReading) {
        self.windows.begin(reading);
        self.overhead.begin_window();
    }

    /// Ends the last window: waits until the programs have ended, reads the rest of the ring buffer, writes the report.
    fn end(&mut self, collector: &mut Collector, quiet: bool) -> Result<()> {
        let is_done = self.stop == Some(StopReason::Done);
        let end_at_ns = match self.schedule.end_at_ns().filter(|_| is_done) {
            Some(end_at_ns) => end_at_ns,
            None => end_now(collector, self.schedule.end_at_ns())?,
        };
        collector.close()?;
        self.view.ended();
        // The window is closed: the output's priority can no longer delay a measured task.
        self.output.set_priority(self.raise_priority()?);
        self.skip(self.schedule.intervals_not_ended(end_at_ns));
        let requested_ns = if self.view.is_cumulative() {
            self.schedule.length_ns()
        } else {
            self.schedule.requested_ns(WindowBoundary::End)
        };
        let reading = self.read(collector, end_at_ns, requested_ns.filter(|_| is_done))?;
        let walked = collector.walk_waiting();
        collector.wait_for_programs()?;
        warn_of_unfollowed(collector)?;
        self.drain_remaining(collector, end_at_ns, quiet)?;
        let reading = WindowReading { totals: collector.totals()?, missed: collector.missed()?, ..reading };
        if self.schedule.is_warming_up() {
            // Nothing of the warm-up is in the report.
            self.begin(&reading);
            if !quiet {
                status("the run ended before its warm-up did");
            }
        }
        let pending = collector.take_pending()?;
        let waiting = if collector.keeps_pending() { Some(pending) } else { walked };
        self.follow_wall_clock();
        self.pass_groups()?;
        let mut report = self.windows.final_report(&reading, waiting.as_deref(), &self.names);
        self.view.complete(&mut report);
        if self.stop != Some(StopReason::NoReader) {
            let written = self.output.write(|out| self.view.report(&report, out));
            self.check_written(written)?;
        }
        Ok(())
    }
}
