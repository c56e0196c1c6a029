//! One run of a live tracer: sets it up, starts it, reads it for the requested time, stops it, and restores
//! everything.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{
    held_records::HeldRecords,
    run_listener::{Listener, TracerRunInfo},
    source::{self, RecordSource},
    trace_file::TraceFile,
    user_threads::MeasuringProcesses,
};
use crate::{
    config::{OutputConfig, SourceChoice, TracerConfig, WindowConfig},
    session::{
        StopReason, clock,
        output::{Output, WriteResult},
        stop_reason::Signals,
        threshold_action::ActionRunner,
        window_schedule::{Schedule, WindowBoundary as Due},
    },
    status::status,
};
use wakelat_core::osnoise_tracers::record::{LostByCpu, TimerlatEvent, TimerlatRecord};
use wakelat_kernel::{Features, Roots, btf::KernelBtf, cpus::Cpus, privilege};
use wakelat_tracefs::TracefsMount;
use wakelat_tracefs::osnoise_tracers::{
    stop::{StopThresholds, ThresholdCutoff},
    thread_placement::{self, DmaLatency},
    tracer_instance::{TracerSession, clean_up},
};

/// Runs until a signal, the end of the window, a threshold or a closed output ends the run. Blocks.
///
/// # Errors
///
/// Fails if the kernel or the privileges of the user do not allow the tracer to run, or if the output
/// cannot be written. All settings are restored then, too.
pub fn run(
    config: &TracerConfig,
    window: &WindowConfig,
    output: &OutputConfig,
    listener: &mut dyn Listener,
) -> Result<StopReason> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    runtime.block_on(measure(config, window, output, listener))
}

async fn measure(
    config: &TracerConfig,
    window: &WindowConfig,
    shown: &OutputConfig,
    listener: &mut dyn Listener,
) -> Result<StopReason> {
    let mut output = Output::open(shown.path.as_deref())?;
    let saved = config.trace.as_deref().map(TraceFile::open).transpose()?;
    let roots = Roots::default();
    let tracefs = TracefsMount::mounted()?;
    let features = Features::detect(None);
    privilege::raise_memory_limit(&features.release)?;
    let ring_buffer = features.ring_buffer();
    let btf = matches!(features.btf, KernelBtf::Present { .. }).then_some(features.btf_path);
    let choice = source::choose(config, &tracefs, btf.as_deref(), ring_buffer)?;
    if let Some(cpus) = &config.house_keeping {
        thread_placement::pin_housekeeping(cpus)?;
    }
    let _dma_latency = config.dma_latency_us.map(DmaLatency::request).transpose()?;
    let mut signals = Signals::catch(None)?;

    clean_up(&tracefs, &roots.proc).into_iter().for_each(status);
    let mut session = TracerSession::set_up(&config.setup, &tracefs, &roots)?;
    if choice == SourceChoice::Buffer {
        session.enable_events(config.events)?;
    }
    session.start()?;
    // Opened only after the tracer has started: the kernel does not change the tracer while its raw buffer
    // is open (`tracing_set_tracer`, trace.c).
    let source = RecordSource::open(choice, config, &session.directory(&tracefs), btf.as_ref())?;
    let cgroup_v2 = features.cgroup_v2.as_deref();
    let cpus: Vec<u32> = match &config.setup.cpus {
        Some(cpus) => cpus.iter().collect(),
        None => Cpus::read(&roots.sys, "online")?.iter().collect(),
    };
    let users = match &config.setup.user {
        Some(user) => {
            let load = user.load.as_deref();
            let mut users =
                MeasuringProcesses::start(&config.setup, load, cpus.iter().copied(), &tracefs, &roots.proc, cgroup_v2)?;
            users.wait_until_ready()?;
            Some(users)
        }
        None => {
            thread_placement::place_kernel_threads(&config.setup, &roots.proc, cgroup_v2)?;
            None
        }
    };
    let threshold = StopThresholds::of(&config.setup);
    let mut run = Run {
        source,
        cutoff: ThresholdCutoff::at(threshold),
        threshold,
        trigger: (!config.stops_in_kernel()).then(|| ActionRunner::new(config.action.clone())),
        users,
        info: TracerRunInfo { redrawn: window.interval_ns.is_some(), ..TracerRunInfo::default() },
        lost: LostByCpu::new(),
        is_lossy: false,
        failures: Vec::new(),
        saved,
        listener,
        stop: None,
        window_start: None,
        held: HeldRecords::new(if config.records_what_stops() { cpus } else { Vec::new() }, threshold),
    };
    run.source.attach()?;
    let mut schedule = Schedule::new(window, clock::monotonic_ns());
    if window.warm_up_ns == 0 {
        schedule.begin(run.begin(&session)?);
    }
    if !shown.quiet {
        status("measuring");
    }
    if output.write(|out| run.listener.begin(out))? == WriteResult::NoReader {
        run.stop = Some(StopReason::NoReader);
    }
    let drain_interval = Duration::from_nanos(config.drain_interval_ns());
    // Not at once: the tracer's threads get the CPU first, so that a stop from before the window shows.
    let mut tick = interval_at(Instant::now() + drain_interval, drain_interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while run.stop.is_none() {
        let mut due = None;
        tokio::select! {
            biased;
            () = signals.first() => run.stop = Some(StopReason::Signalled),
            () = schedule.next_is_due() => due = schedule.take_due(clock::monotonic_ns()),
            _ = tick.tick() => {}
        }
        let mut records = run.source.take()?;
        let stopped = run.window_start.is_some() && !session.is_recording()?;
        if stopped {
            records.append(&mut run.source.take_remaining()?);
        }
        let is_over = due == Some(Due::End);
        let from_before = stopped && run.may_be_stopped_from_before(&records)?;
        let begins_anew = from_before && run.held.can_begin_anew() && !is_over && run.stop.is_none();
        if due == Some(Due::WarmUp) || begins_anew {
            schedule.begin(run.begin(&session)?);
            tick.reset();
            continue;
        }
        run.handle_records(records, schedule.end_at_ns(), &mut output)?;
        if matches!(due, Some(Due::Interval { .. })) {
            run.interval(&mut output)?;
        }
        run.check_user_threads()?;
        // A record after the end of the window may have reached the threshold: then the end is due next.
        let continues = schedule.end_at_ns().is_none_or(|end_ns| clock::monotonic_ns() < end_ns);
        if run.stop.is_none() && stopped && !is_over && continues {
            run.stop = Some(run.stopped_without_a_record(config, from_before)?);
        }
        if output.reader_is_gone() {
            run.stop = Some(StopReason::NoReader);
        }
        // Without a reason to stop: the last records may still have a latency at the threshold.
        if is_over {
            break;
        }
    }
    if run.stop == Some(StopReason::Threshold) && !run.cutoff.is_reached() && !shown.quiet {
        if config.stops_unrecorded() {
            status("a single noise stopped the run; use `osnoise hist`, `--auto` or `--trace` to record it");
        } else if config.records_what_stops() {
            status(
                "the recording has stopped; records were lost, probably including the one that reached the stop limit",
            );
        }
    }
    run.end(&session, schedule.end_at_ns(), &mut output)?;
    let Run { source, users, mut failures, mut trigger, stop, saved, info, .. } = run;
    if let Some(lacking) = saved.and_then(|saved| saved.lacking(info.missed.unwrap_or(0)))
        && !shown.quiet
    {
        status(lacking);
    }
    // Drop the user-space processes first, because the kernel kills them if the tracer stops. Then drop the
    // open files, because they keep the instance busy.
    drop((users, source));
    for ended in [session.close(), trigger.as_mut().map_or(Ok(()), ActionRunner::finish)] {
        failures.extend(ended.err().map(|error| format!("{error:#}")));
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    Ok(stop.unwrap_or(StopReason::Done))
}

/// A run in progress. Its fields are dropped in this order, before the session: see the end of [`measure`].
struct Run<'a> {
    users: Option<MeasuringProcesses>,
    source: RecordSource,
    cutoff: ThresholdCutoff,
    threshold: StopThresholds,
    /// The action to run at a threshold, if the run goes on after it.
    trigger: Option<ActionRunner>,
    info: TracerRunInfo,
    /// The losses of the source that were reported to the listener, by CPU.
    lost: LostByCpu,
    /// Whether the source lost records of the window.
    is_lossy: bool,
    /// What failed, although the run has a result: measuring threads ended before it did, or another process stopped
    /// the recording.
    failures: Vec<String>,
    /// Where to write the records as the text of the tracer.
    saved: Option<TraceFile>,
    listener: &'a mut dyn Listener,
    stop: Option<StopReason>,
    /// `None` during the warm-up.
    window_start: Option<WindowStart>,
    /// Records of the window that are not shown yet, because the window may have to begin anew.
    held: HeldRecords,
}

/// The state at the beginning of the window.
#[derive(Clone, Copy, Debug)]
struct WindowStart {
    at_ns: u64,
    /// Events for which the kernel had skipped a BPF program before the window.
    missed: u64,
}

impl Run<'_> {
    /// Begins the window, and ignores what was lost and missed before. Starts recording in the kernel only
    /// now, so that no latency in the warm-up can stop it. Returns when the window begins: ns of CLOCK_MONOTONIC.
    fn begin(&mut self, session: &TracerSession) -> Result<u64> {
        self.lost = self.source.lost()?;
        self.is_lossy = false;
        let missed = self.source.missed()?.unwrap_or(0);
        let at_ns = clock::monotonic_ns();
        self.window_start = Some(WindowStart { at_ns, missed });
        self.held.begin();
        session.record()?;
        Ok(at_ns)
    }

    /// Whether the kernel may have stopped the window for a latency from before it ([`HeldRecords`]), if `latest` are
    /// the records that were read last. Their samples show nothing about their CPUs: BPF programs also record after the
    /// stop. If records were lost, the one that reached the threshold may be among them, and the run ends.
    fn may_be_stopped_from_before(&self, latest: &[TimerlatRecord]) -> Result<bool> {
        let Some(start) = self.window_start else { return Ok(false) };
        let is_reached =
            |record: &TimerlatRecord| record.at_ns >= start.at_ns && self.threshold.reached(&record.event).is_some();
        Ok(self.held.may_stop_from_before() && !latest.iter().any(is_reached) && !self.has_losses()?)
    }

    /// Whether the window lacks records: the source has lost them, or the kernel has skipped a BPF program.
    fn has_losses(&self) -> Result<bool> {
        let reported = |cpu: &u32| self.lost.get(cpu).copied().unwrap_or(0);
        let is_lossy = self.is_lossy || self.source.lost()?.iter().any(|(cpu, lost)| *lost > reported(cpu));
        Ok(is_lossy || self.missed()?.unwrap_or(0) > 0)
    }

    /// Takes over the records from the beginning of the window to `end_ns`, if it has an end, and passes them to the
    /// listener as soon as the window cannot begin anew any more. Does nothing during the warm-up.
    fn handle_records(
        &mut self,
        mut records: Vec<TimerlatRecord>,
        end_ns: Option<u64>,
        output: &mut Output,
    ) -> Result<()> {
        let Some(start) = self.window_start else { return Ok(()) };
        records.retain(|record| (start.at_ns..=end_ns.unwrap_or(u64::MAX)).contains(&record.at_ns));
        if self.held.push(records, clock::monotonic_ns()) { self.show(output) } else { Ok(()) }
    }

    /// Passes all losses and records to the listener.
    fn show(&mut self, output: &mut Output) -> Result<()> {
        self.report_losses()?;
        let records = self.held.take();
        let records = if self.trigger.is_none() { self.cutoff.truncate(records) } else { records };
        if let Some(trigger) = &mut self.trigger {
            for record in &records {
                if let Some((_, latency_ns)) = self.threshold.reached(&record.event)
                    && trigger.fire_with(|| environment(record, latency_ns))
                    && self.stop.is_none()
                {
                    self.stop = Some(StopReason::Threshold);
                }
            }
        }
        if let Some(saved) = &mut self.saved {
            saved.write(&records)?;
        }
        let written =
            output.write(|out| records.into_iter().try_for_each(|record| self.listener.record(record, out)))?;
        if written == WriteResult::NoReader {
            self.stop = Some(StopReason::NoReader);
        }
        if self.cutoff.is_reached() && self.stop.is_none() {
            self.stop = Some(StopReason::Threshold);
        }
        Ok(())
    }

    /// Redraws the view. Leaves held records where they are: the window may still begin anew.
    fn interval(&mut self, output: &mut Output) -> Result<()> {
        if output.write(|out| self.listener.interval(out))? == WriteResult::NoReader {
            self.stop = Some(StopReason::NoReader);
        }
        Ok(())
    }

    fn report_losses(&mut self) -> Result<()> {
        let mut losses = self.held.take_dropped();
        for (cpu, lost) in self.source.lost()? {
            let reported = self.lost.insert(cpu, lost).unwrap_or(0);
            if lost > reported {
                self.is_lossy = true;
                *losses.entry(cpu).or_default() += lost - reported;
            }
        }
        for (cpu, events) in losses {
            self.listener.lost(cpu, events);
            if let Some(saved) = &mut self.saved {
                saved.lost(cpu, events)?;
            }
        }
        Ok(())
    }

    /// Events of the window for which the kernel skipped a BPF program, as [`TracerRunInfo::missed`].
    fn missed(&self) -> Result<Option<u64>> {
        let since = |missed: u64| self.window_start.map_or(0, |start| missed.saturating_sub(start.missed));
        Ok(self.source.missed()?.map(since))
    }

    /// Why recording has stopped, if no record of the window reached a threshold: the kernel stopped it for one that
    /// was not recorded or was lost, or for one from before the window if `from_before`, or another process did.
    fn stopped_without_a_record(&mut self, config: &TracerConfig, from_before: bool) -> Result<StopReason> {
        self.report_losses()?;
        if config.may_stop_without_a_record(!self.has_losses()?) {
            return Ok(StopReason::Threshold);
        }
        let why = if from_before {
            "a latency from before the window or another process stopped the recording (`tracing_on` is 0); the result \
             ends there"
        } else {
            "another process stopped the recording (`tracing_on` is 0) before a threshold or the end of the run; the \
             result ends there"
        };
        self.failures.push(why.to_owned());
        Ok(StopReason::Done)
    }

    fn check_user_threads(&mut self) -> Result<()> {
        let Some(users) = &mut self.users else { return Ok(()) };
        for why in users.ended()? {
            status(&why);
            self.failures.push(why);
        }
        if users.all_ended() && self.stop.is_none() {
            self.stop = Some(StopReason::Done);
        }
        Ok(())
    }

    /// Stops recording and handles the remaining records. The window ends at `due_ns` at the latest, also if this process
    /// gets no CPU for seconds then.
    fn end(&mut self, session: &TracerSession, due_ns: Option<u64>, output: &mut Output) -> Result<()> {
        // Taken before the kernel stops its threads, which takes as long as many activations.
        let end_ns = clock::monotonic_ns().min(due_ns.unwrap_or(u64::MAX));
        session.pause()?;
        self.info.duration_ns = self.window_start.map_or(0, |start| end_ns.saturating_sub(start.at_ns));
        // Detaching programs may take a while, in which they still run.
        self.source.detach()?;
        let records = self.source.take_remaining()?;
        self.handle_records(records, Some(end_ns), output)?;
        self.show(output)?;
        self.info.missed = self.missed()?;
        if self.stop != Some(StopReason::NoReader) {
            output.write(|out| self.listener.end(&self.info, out))?;
        }
        Ok(())
    }
}

/// The environment of the command that is run for a latency at the threshold.
fn environment(record: &TimerlatRecord, latency_ns: u64) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("WAKELAT_CPU", record.cpu.to_string()),
        ("WAKELAT_LATENCY_NS", latency_ns.to_string()),
        ("WAKELAT_AT_UNIX_NS", (i128::from(record.at_ns) + i128::from(clock::unix_offset_ns())).to_string()),
    ];
    if let TimerlatEvent::Timerlat { seq, context, .. } = record.event {
        environment.extend([("WAKELAT_ACTIVATION", seq.to_string()), ("WAKELAT_CONTEXT", context.name().to_owned())]);
    }
    environment
}

#[cfg(test)]
mod tests;
