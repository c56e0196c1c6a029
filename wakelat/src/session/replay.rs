//! Shows a recording through a view, as [`super::run`] shows a measurement.

use std::io::BufRead;

use anyhow::{Context as _, Result};
use wakelat_common::Classes;

use super::{
    StopReason, View, open_input,
    output::{Output, WriteResult},
};
use crate::config::{Config, ConfigError, READING_INTERVAL_NS, RecordedInput, ThresholdAction, ThresholdConfig};
use wakelat_core::{
    aggregate::key::{Key, Names as _},
    hash::HashMap,
    recording::{Exclusion, Frame, Header, RecordedNames, RecordedWindow, Recording, WindowOptions},
    report::{LatencyFrom, Report},
    timeline::{
        Timeline,
        event::{DetailedWait, Event, EventKind, SwitchEvent, TaskInfo},
    },
};

/// What an error of the input concerns.
pub fn unreadable(input: &RecordedInput) -> String {
    format!("cannot read {}", open_input::name(&input.path))
}

/// `config` for a recording with this header: with the classes and the start of the latency that it has.
///
/// # Errors
/// If the recording does not have what `config` explicitly requests.
pub fn config_of(header: &Header, config: &Config, input: &RecordedInput) -> Result<Config, ConfigError> {
    let mut config = config.clone();
    let both = header.classes.iter().filter(|class| config.classes.contains(**class));
    let both = both.fold(Classes::NONE, |classes, class| classes.with(*class));
    if both == Classes::NONE || (input.has_given_classes && both != config.classes) {
        let names: Vec<_> = header.classes.iter().map(|class| class.name()).collect();
        let why = format!("the recording has only {}; select from these", names.join(", "));
        return Err(ConfigError::usage("--class", why));
    }
    config.classes = both;
    config.merged |= header.merged && !input.has_given_classes;
    config.from = match (header.from, config.from) {
        (recorded, requested) if recorded == requested => recorded,
        // The delivery of each wait is known, and can be left out.
        (LatencyFrom::Waking, LatencyFrom::Wakeup) => LatencyFrom::Wakeup,
        (recorded, _) if input.has_given_from => {
            let why = format!("the recording has waits from `{}`; leave out the flag", recorded.name());
            return Err(ConfigError::usage("--from", why));
        }
        (recorded, _) => recorded,
    };
    // Shorter waits are not recorded. Without the delivery, a recorded wait may be shorter, too.
    let shown_ns = config.threshold.as_ref().map(|threshold| threshold.threshold_ns);
    config.threshold = shown_ns
        .max(header.threshold_ns)
        .map(|threshold_ns| ThresholdConfig { threshold_ns, action: ThresholdAction::Continue });
    if config.window.interval_ns.is_some_and(|interval_ns| interval_ns < READING_INTERVAL_NS) {
        let why = "a recording has the coverage of whole seconds; expected an interval of at least `1s`";
        return Err(ConfigError::Usage(why.to_owned()));
    }
    if config.by.contains(&Key::Waker) {
        config.check_sees_wakeups("--by waker", "the waker")?;
    }
    Ok(config)
}

/// Shows a recording through `view`. `config` is that of [`config_of`].
///
/// # Errors
/// If the recording cannot be read, or has a missing end and must not; if the output cannot be written.
pub fn replay(mut recording: Recording<Box<dyn BufRead>>, config: &Config, view: &mut dyn View) -> Result<StopReason> {
    let input = config.input.as_ref().context("no recording is given")?;
    let header = recording.header();
    let mut replay = Replay {
        config,
        input,
        excludes_delivery: header.from == LatencyFrom::Waking && config.from == LatencyFrom::Wakeup,
        own_pid: header.own_pid,
        names: RecordedNames::default(),
        window: RecordedWindow::new(WindowOptions {
            by: config.by.clone(),
            merged: config.merged,
            max_groups: config.max_groups,
            from: config.from,
            classes: config.classes,
            threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
            has_filter: config.filter.parts != 0 || !input.cgroups.is_empty(),
        }),
        timeline: config.by.contains(&Key::Component).then(|| Timeline::new(config.from)),
        wanted: HashMap::default(),
        unix_offset_ns: 0,
        next_report_ns: config.window.interval_ns,
        reports: 0,
        view,
        text: Vec::new(),
        output: Output::open(config.output.path.as_deref())?,
        stop: None,
    };
    replay.view.begin(&mut replay.text)?;
    while replay.stop.is_none() {
        let Some(frame) = recording.frame().with_context(|| unreadable(input))? else { break };
        replay.take(frame)?;
    }
    replay.write()?;
    Ok(replay.stop.unwrap_or(StopReason::Done))
}

/// State of a replay.
struct Replay<'a> {
    config: &'a Config,
    input: &'a RecordedInput,
    /// The recorded latency includes the delivery, and the shown one does not.
    excludes_delivery: bool,
    /// The process that recorded, whose threads are not shown.
    own_pid: Option<u32>,
    names: RecordedNames,
    window: RecordedWindow,
    /// Splits waits into components, if they are grouped by component.
    timeline: Option<Timeline>,
    /// Whether the filter accepts a thread, as it was at its last switch.
    wanted: HashMap<u32, bool>,
    unix_offset_ns: i64,
    /// Length of the recording (ns) from which on the next reading ends an interval; `None` without intervals.
    next_report_ns: Option<u64>,
    /// Number of reports so far.
    reports: u64,
    view: &'a mut dyn View,
    /// Text that is not written yet.
    text: Vec<u8>,
    output: Output,
    stop: Option<StopReason>,
}

impl Replay<'_> {
    fn take(&mut self, frame: Frame<'static>) -> Result<()> {
        /// Text that is written at once: bytes.
        const MUCH: usize = 1 << 16;
        self.names.learn(&frame);
        match frame {
            Frame::UnixOffset(ns) => self.unix_offset_ns = ns,
            Frame::WarmedUp => self.view.warmed_up(&mut self.text)?,
            Frame::Event(event) => self.take_event(event.into_owned())?,
            Frame::Reading(report) => self.end_interval(*report)?,
            Frame::End(report) => {
                self.view.ended();
                let report = self.window.report(&report, &self.names);
                self.view.report(&report, &mut self.text)?;
            }
            Frame::Header(_)
            | Frame::Cgroup { .. }
            | Frame::Task { .. }
            | Frame::Namespace { .. }
            | Frame::Function { .. } => {}
        }
        if self.text.len() >= MUCH { self.write() } else { Ok(()) }
    }

    fn take_event(&mut self, mut event: Event) -> Result<()> {
        match &mut event.kind {
            EventKind::Switch(switch) => self.take_switch(switch)?,
            // Like the programs, only for tasks that the filter accepts.
            EventKind::Migration(migration) if !self.wants(migration.tid) => return Ok(()),
            EventKind::Wakeup(wakeup) if !self.wants(wakeup.tid) => return Ok(()),
            _ => {}
        }
        if let Some(breakdown) = self.timeline.as_mut().and_then(|timeline| timeline.push(&event)) {
            self.window.record_breakdown(breakdown);
        }
        if self.view.shows_events().is_some() {
            self.view.event(&event, self.unix_offset_ns, &self.names, &mut self.text)?;
        }
        Ok(())
    }

    /// Judges the tasks of a switch by the filter, and takes the wait that it ends.
    fn take_switch(&mut self, switch: &mut SwitchEvent) -> Result<()> {
        for task in [&mut switch.prev, &mut switch.next] {
            task.wanted = self.wants_task(task);
            self.wanted.insert(task.tid, task.wanted);
        }
        let Some(ended) = &mut switch.ended_wait else { return Ok(()) };
        if let (true, Some(delivery_ns)) = (self.excludes_delivery, ended.wait.delivery_ns) {
            ended.wait.latency_ns = ended.wait.latency_ns.saturating_sub(delivery_ns);
        }
        if let Some(why) = self.exclusion(ended, switch.next.wanted) {
            self.window.exclude(&ended.wait, why);
            switch.ended_wait = None;
            return Ok(());
        }
        self.window.record(&ended.wait);
        if self.view.shows_waits() {
            self.view.wait(&ended.wait, self.unix_offset_ns, &self.names, &mut self.text)?;
        }
        Ok(())
    }

    /// Why a wait is not shown, if so; `is_wanted`: the filter accepts its task.
    fn exclusion(&self, ended: &DetailedWait, is_wanted: bool) -> Option<Exclusion> {
        let wait = &ended.wait;
        let threshold = self.config.threshold.as_ref();
        if !self.config.classes.contains(wait.class) {
            Some(Exclusion::Class)
        } else if !is_wanted || !self.config.filter.wants_cpu(wait.cpu) {
            Some(Exclusion::Filter)
        } else if threshold.is_some_and(|threshold| wait.latency_ns < threshold.threshold_ns) {
            Some(Exclusion::BelowThreshold)
        } else {
            None
        }
    }

    fn wants_task(&self, task: &TaskInfo) -> bool {
        let TaskInfo { tid, pid, comm, prio, policy, cgroup_id, .. } = *task;
        let wants_cgroup = || cgroup_id.is_some_and(|id| self.input.wants_cgroup(&self.names.cgroup(id)));
        Some(pid) != self.own_pid
            && self.config.filter.wants_recorded(tid, pid, &comm, prio, policy)
            && (self.input.cgroups.is_empty() || wants_cgroup())
    }

    /// Whether the filter accepts a thread at an event that has only its ID. Without a filter, it also accepts a thread
    /// that was not seen at a switch yet.
    fn wants(&self, tid: u32) -> bool {
        let accepts_all = self.config.filter.wants_any_task() && self.input.cgroups.is_empty();
        self.wanted.get(&tid).copied().unwrap_or(accepts_all)
    }

    /// Reports an interval if one ends with this reading.
    fn end_interval(&mut self, reading: Report) -> Result<()> {
        let Some(interval_ns) = self.config.window.interval_ns else { return Ok(()) };
        if self.next_report_ns.is_none_or(|at_ns| reading.duration_ns < at_ns) {
            return Ok(());
        }
        self.next_report_ns = Some((reading.duration_ns / interval_ns).saturating_add(1).saturating_mul(interval_ns));
        let mut report = self.window.report(&reading, &self.names);
        if !self.view.is_cumulative() {
            report.requested_ns = Some(interval_ns);
        }
        self.view.report(&report, &mut self.text)?;
        drop(report);
        self.reports += 1;
        if self.config.window.count == Some(self.reports) {
            self.stop = Some(StopReason::Done);
        }
        if !self.view.is_cumulative() {
            self.window.begin(reading);
        }
        self.write()
    }

    /// Writes the text so far.
    fn write(&mut self) -> Result<()> {
        if !self.text.is_empty() && self.output.write(|out| out.write_all(&self.text))? == WriteResult::NoReader {
            self.stop = Some(StopReason::NoReader);
        }
        self.text.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wakelat_common::Class;

    use super::*;
    use crate::config::Command;

    /// The configuration of `hist` with these flags for a recording with these classes and this start of the latency.
    fn of(flags: &str, classes: &[Class], from: LatencyFrom) -> Result<Config, String> {
        let line = format!("wakelat hist -i file {flags}");
        let parsed = crate::cli::parse(line.split_whitespace().map(Into::into)).map_err(|error| error.to_string())?;
        let Command::Hist(config) = parsed.command else { panic!("{:?}", parsed.command) };
        let header = Header { classes: classes.to_vec(), from, ..Header::default() };
        config_of(&header, &config, config.input.as_ref().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_view_shows_the_classes_that_it_has_in_common_with_the_recording() {
        let of = |flags, classes: &[Class]| of(flags, classes, LatencyFrom::Wakeup).map(|config| config.classes);
        let [wakeup, preempted] = [Class::Wakeup, Class::Preempted].map(|class| Classes::NONE.with(class));
        assert_eq!(of("", &Class::ALL), Ok(wakeup));
        assert_eq!(of("--class preempted", &Class::ALL), Ok(preempted));
        assert!(of("", &[Class::Preempted]).unwrap_err().contains("the recording has only preempted"));
        let error = of("--class wakeup,preempted", &[Class::Wakeup, Class::New]).unwrap_err();
        assert!(error.contains("`--class`: the recording has only wakeup, new"), "{error}");
    }

    #[test]
    fn latency_starts_at_an_event_that_was_recorded() {
        use LatencyFrom::{Queued, Wakeup, Waking};
        let of = |flags, from| of(flags, &Class::ALL, from).map(|config| config.from);
        assert_eq!(of("", Waking), Ok(Wakeup));
        assert_eq!(of("--from waking", Waking), Ok(Waking));
        assert_eq!(of("", Queued), Ok(Queued));
        assert!(of("--from waking", Wakeup).unwrap_err().contains("the recording has waits from `wakeup`"));
        assert!(of("--from wakeup", Queued).unwrap_err().contains("the recording has waits from `queued`"));
        assert!(of("--by waker", Queued).unwrap_err().contains("`--by waker` needs the waker"));
    }

    #[test]
    fn waits_below_the_threshold_of_the_recording_are_not_shown() {
        let of = |flags: &str, recorded_ns| {
            let Command::Hist(config) =
                crate::cli::parse(format!("wakelat hist -i file {flags}").split_whitespace().map(Into::into))
                    .unwrap()
                    .command
            else {
                panic!("{flags}")
            };
            let header = Header { classes: Class::ALL.into(), threshold_ns: recorded_ns, ..Header::default() };
            let config = config_of(&header, &config, config.input.as_ref().unwrap()).unwrap();
            config.threshold.map(|threshold| threshold.threshold_ns)
        };
        assert_eq!(of("", None), None);
        assert_eq!(of("", Some(2_000_000)), Some(2_000_000));
        assert_eq!(of("--threshold 1ms", Some(2_000_000)), Some(2_000_000));
        assert_eq!(of("--threshold 3ms", Some(2_000_000)), Some(3_000_000));
    }

    #[test]
    fn an_interval_is_at_least_that_of_the_readings() {
        let of = |flags| of(flags, &Class::ALL, LatencyFrom::Wakeup).map(|config| config.window.interval_ns);
        assert_eq!(of("1"), Ok(Some(1_000_000_000)));
        assert!(of("500ms").unwrap_err().contains("expected an interval of at least `1s`"));
    }
}
