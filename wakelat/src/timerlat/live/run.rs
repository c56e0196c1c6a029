//! One run of a live tracer: set up, started, read as long as asked, stopped, and put back.

use std::{
    io::{self, Write},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    placement::{self, DmaLatency},
    source::{self, RecordSource},
    stop::{StopThresholds, ThresholdCutoff},
    trace_text,
    tracer::TracerSession,
    user::MeasuringProcesses,
};
use crate::{
    config::{OutputConfig, SourceChoice, TracerConfig, WindowConfig},
    kernel::{Features, Roots, btf::KernelBtf, cpus::Cpus, privilege},
    say::status,
    session::{
        StopReason,
        action::ActionRunner,
        clock,
        output::{Output, WriteResult},
        schedule::{Schedule, WindowBoundary as Due},
        stop::Signals,
    },
    timerlat::{
        record::{LostByCpu, TimerlatEvent, TimerlatRecord},
        summary::TimerlatCoverage,
    },
    tracefs::TracefsMount,
};

/// Who hears what a run has to say.
pub trait Listener {
    /// Before anything else.
    ///
    /// # Errors
    /// Those of `out`.
    fn begin(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// One record; they come in the order of time.
    ///
    /// # Errors
    /// Those of `out`.
    fn record(&mut self, record: TimerlatRecord, out: &mut dyn Write) -> io::Result<()>;

    /// Records of a CPU were lost, before those that come next.
    fn lost(&mut self, cpu: u32, events: u64);

    /// An interval is over: what is known so far takes the place of what was shown before.
    ///
    /// # Errors
    /// Those of `out`.
    fn interval(&mut self, out: &mut dyn Write) -> io::Result<()>;

    /// The run is over.
    ///
    /// # Errors
    /// Those of `out`.
    fn end(&mut self, account: &TracerRunInfo, out: &mut dyn Write) -> io::Result<()>;
}

/// What is known of a run beside its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracerRunInfo {
    /// How long it has measured: ns.
    pub duration_ns: u64,
    /// Events for which the kernel skipped a program; none where no programs read them.
    pub missed: Option<u64>,
    /// Something was shown before, whose place the end takes.
    pub redrawn: bool,
}

impl TracerRunInfo {
    /// Adds what only the run knows to the coverage of its records.
    pub fn add_to(&self, coverage: &mut TimerlatCoverage) {
        coverage.duration_ns = self.duration_ns;
        coverage.missed = self.missed;
    }
}

/// Runs until something ends it. Blocks.
///
/// # Errors
/// Where this kernel or this user cannot run the tracer, or the output cannot be written. Everything is as it was before.
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
    let saved = config.trace.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let roots = Roots::default();
    let tracefs = TracefsMount::mounted()?;
    let features = Features::detect(None);
    privilege::raise_memory_limit(&features.release)?;
    let ring_buffer = features.ring_buffer();
    let btf = matches!(features.btf, KernelBtf::Present { .. }).then_some(features.btf_path);
    let choice = source::choose(config, &tracefs, btf.as_deref(), ring_buffer)?;
    if let Some(cpus) = &config.house_keeping {
        placement::pin_housekeeping(cpus)?;
    }
    let _dma_latency = config.dma_latency_us.map(DmaLatency::request).transpose()?;
    let mut signals = Signals::catch()?;

    let mut session = TracerSession::set_up(config, &tracefs, &roots)?;
    if choice == SourceChoice::Buffer {
        session.enable_events(config.events)?;
    }
    session.start()?;
    // Not before: the kernel changes no tracer while somebody reads its raw buffer (`tracing_set_tracer`, trace.c).
    let source = RecordSource::open(choice, config, &session.directory(&tracefs), btf.as_ref())?;
    let cgroup_v2 = features.cgroup_v2.as_deref();
    let cpus: Vec<u32> = match &config.cpus {
        Some(cpus) => cpus.iter().collect(),
        None => Cpus::read(&roots.sys, "online")?.iter().collect(),
    };
    let users = match &config.user {
        Some(user) => {
            let load = user.load.as_deref();
            let mut users =
                MeasuringProcesses::start(config, load, cpus.iter().copied(), &tracefs, &roots.proc, cgroup_v2)?;
            users.wait_until_ready()?;
            Some(users)
        }
        None => {
            placement::place_kernel_threads(config, &roots.proc, cgroup_v2)?;
            None
        }
    };
    let mut run = Run {
        source,
        cutoff: ThresholdCutoff::at(StopThresholds::of(config)),
        threshold: StopThresholds::of(config),
        trigger: (!config.stops_in_kernel()).then(|| ActionRunner::new(config.action.clone())),
        users,
        info: TracerRunInfo { redrawn: window.interval_ns.is_some(), ..TracerRunInfo::default() },
        lost: LostByCpu::new(),
        ended_threads: Vec::new(),
        saved,
        listener,
        stop: None,
        window_start: None,
    };
    run.source.attach()?;
    if window.warm_up_ns == 0 {
        run.begin(&session)?;
    }
    if !shown.quiet {
        status("measuring");
    }
    if output.write(|out| run.listener.begin(out))? == WriteResult::NoReader {
        run.stop = Some(StopReason::NoReader);
    }
    let mut schedule = Schedule::new(window, clock::monotonic_ns());
    let mut tick = interval(Duration::from_nanos(config.drain_interval_ns()));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while run.stop.is_none() {
        let mut due = None;
        tokio::select! {
            biased;
            () = signals.first() => run.stop = Some(StopReason::Signalled),
            () = schedule.next_is_due() => due = schedule.take_due(clock::monotonic_ns()),
            _ = tick.tick() => {}
        }
        let records = run.source.take()?;
        match due {
            Some(Due::End) => run.stop = Some(StopReason::Done),
            Some(Due::WarmUp) => {
                schedule.begin(clock::monotonic_ns());
                run.begin(&session)?;
            }
            Some(Due::Interval { .. }) | None => {}
        }
        run.handle_records(records, u64::MAX, &mut output)?;
        if matches!(due, Some(Due::Interval { .. })) {
            run.interval(&mut output)?;
        }
        run.check_user_threads()?;
        // The kernel may have judged by a nanosecond that the records do not tell.
        if run.stop.is_none() && run.window_start.is_some() && !session.is_recording()? {
            run.stop = Some(StopReason::Threshold);
        }
        if output.reader_is_gone() {
            run.stop = Some(StopReason::NoReader);
        }
    }
    if run.stop == Some(StopReason::Threshold) && !run.cutoff.is_reached() && config.stops_unrecorded() && !shown.quiet
    {
        status("a single noise stopped the run; `osnoise hist`, `--auto` and `--trace` record which");
    }
    run.end(&session, &mut output)?;
    let Run { source, users, ended_threads, mut trigger, stop, .. } = run;
    // Threads of user space first, which would be killed; then the files of the instance, which keep it.
    drop((users, source));
    session.close()?;
    if let Some(trigger) = &mut trigger {
        trigger.finish()?;
    }
    if !ended_threads.is_empty() {
        bail!("{}", ended_threads.join("; "));
    }
    Ok(stop.unwrap_or(StopReason::Done))
}

/// A run under way. Its parts are dropped in this order, before the session: see the end of [`measure`].
struct Run<'a> {
    users: Option<MeasuringProcesses>,
    source: RecordSource,
    cutoff: ThresholdCutoff,
    threshold: StopThresholds,
    /// Where the run goes on after a threshold.
    trigger: Option<ActionRunner>,
    info: TracerRunInfo,
    /// Of each CPU, what the listener was told.
    lost: LostByCpu,
    /// Measuring threads that ended before the run did, each with why.
    ended_threads: Vec<String>,
    /// Where the records go as the tracer's own text.
    saved: Option<Output>,
    listener: &'a mut dyn Listener,
    stop: Option<StopReason>,
    /// None in the warm-up.
    window_start: Option<WindowStart>,
}

/// What was so when the window began.
#[derive(Clone, Copy, Debug)]
struct WindowStart {
    at_ns: u64,
    /// Events for which the kernel had skipped a program before.
    missed: u64,
}

impl Run<'_> {
    /// The window begins: what was lost and missed until now is nobody's. Not before has the kernel anything to record, so
    /// that no latency of the warm-up makes it stop.
    fn begin(&mut self, session: &TracerSession) -> Result<()> {
        self.lost = self.source.lost()?;
        let missed = self.source.missed()?.unwrap_or(0);
        self.window_start = Some(WindowStart { at_ns: clock::monotonic_ns(), missed });
        session.record()
    }

    /// Hears what was said between the beginning and `end_ns`; nothing in the warm-up.
    fn handle_records(&mut self, mut records: Vec<TimerlatRecord>, end_ns: u64, output: &mut Output) -> Result<()> {
        let Some(begun) = self.window_start else { return Ok(()) };
        self.report_losses()?;
        records.retain(|record| (begun.at_ns..=end_ns).contains(&record.at_ns));
        let records = if self.trigger.is_none() { self.cutoff.truncate(records) } else { records };
        if let Some(trigger) = &mut self.trigger {
            for record in &records {
                if let Some((_, latency_ns)) = self.threshold.reached(&record.event) {
                    trigger.fire_with(|| environment(record, latency_ns))?;
                }
            }
        }
        if let Some(saved) = &mut self.saved {
            saved.write(|out| records.iter().try_for_each(|record| trace_text::write(record, out)))?;
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

    fn interval(&mut self, output: &mut Output) -> Result<()> {
        if output.write(|out| self.listener.interval(out))? == WriteResult::NoReader {
            self.stop = Some(StopReason::NoReader);
        }
        Ok(())
    }

    fn report_losses(&mut self) -> Result<()> {
        for (cpu, lost) in self.source.lost()? {
            let told = self.lost.insert(cpu, lost).unwrap_or(0);
            if lost > told {
                self.listener.lost(cpu, lost - told);
            }
        }
        Ok(())
    }

    fn check_user_threads(&mut self) -> Result<()> {
        let Some(users) = &mut self.users else { return Ok(()) };
        for why in users.ended()? {
            status(&why);
            self.ended_threads.push(why);
        }
        if users.all_ended() && self.stop.is_none() {
            self.stop = Some(StopReason::Done);
        }
        Ok(())
    }

    /// Nothing is recorded any more, and what there is is read.
    fn end(&mut self, session: &TracerSession, output: &mut Output) -> Result<()> {
        // Before the kernel has stopped its threads, which takes as long as many activations.
        let end_ns = clock::monotonic_ns();
        session.pause()?;
        self.info.duration_ns = self.window_start.map_or(0, |begun| end_ns.saturating_sub(begun.at_ns));
        // To detach programs may take a while, in which they go on.
        self.source.detach()?;
        let records = self.source.take_remaining()?;
        self.handle_records(records, end_ns, output)?;
        let since = |missed: u64| self.window_start.map_or(0, |begun| missed.saturating_sub(begun.missed));
        self.info.missed = self.source.missed()?.map(since);
        if self.stop != Some(StopReason::NoReader) {
            output.write(|out| self.listener.end(&self.info, out))?;
        }
        Ok(())
    }
}

/// What a command is told of the latency that reached the threshold.
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
