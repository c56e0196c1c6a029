//! The frames of a recording as waits, events and reports of a view.

use std::io::{self, Write};

use super::{
    super::{InputAction, View},
    recorded_groups::RecordedGroups,
};
use crate::config::{Config, RecordedInput};
use wakelat_core::{
    aggregate::key::{Key, Names as _},
    hash::HashMap,
    recording::{Exclusion, Frame, Header, Kept, Position, RecordedNames, RecordedWindow, WindowOptions},
    report::{LatencyFrom, Mode, Report},
    terminal_input::TerminalInput,
    timeline::{
        Timeline,
        event::{Event, EventKind, MigrationEvent, SwitchEvent, WakeupEvent},
    },
    wait::{Comm, Wait},
};

/// Shows the frames of a recording through a view.
pub struct Replay<'a> {
    config: &'a Config,
    input: &'a RecordedInput,
    /// The recorded latency includes the delivery, and the shown one does not.
    excludes_delivery: bool,
    /// The processes that recorded, whose threads are not shown.
    own_pids: Vec<u32>,
    names: RecordedNames,
    window: RecordedWindow,
    /// The groups of recorded histograms.
    groups: RecordedGroups,
    has_histograms: bool,
    /// Splits waits into components, if they are grouped by component.
    timeline: Option<Timeline>,
    /// Whether the filter accepts a thread, as it was at its last switch; only of threads for which that differs from
    /// [`Self::wants_unknown`].
    wanted: HashMap<u32, bool>,
    /// Number of events of each CPU that the filter has left out.
    left_out: HashMap<u32, u32>,
    unix_offset_ns: i64,
    /// Length of the recording (ns) from which on the next reading ends an interval; `None` without intervals.
    next_report_ns: Option<u64>,
    /// Where what is shown begins, from which intervals count: length of the recording until then, ns.
    begun_ns: u64,
    /// When the current window has begun, if there are several recordings and it is not the first: ns since 1970-01-01
    /// UTC.
    window_start_unix_ns: Option<u64>,
    /// Number of reports of intervals so far.
    reports: u64,
    view: &'a mut dyn View,
    /// All requested reports are shown.
    is_over: bool,
}

impl<'a> Replay<'a> {
    /// Shows recordings with these headers as `config`, which is that of [`super::config_of`].
    pub fn new(config: &'a Config, input: &'a RecordedInput, headers: &[&Header], view: &'a mut dyn View) -> Self {
        Self {
            config,
            input,
            excludes_delivery: headers.iter().any(|header| header.from == LatencyFrom::Waking)
                && config.from == LatencyFrom::Wakeup,
            own_pids: super::own_pids(headers),
            names: RecordedNames::of(config.output.files.clone()),
            window: RecordedWindow::new(WindowOptions {
                by: config.by.clone(),
                merged: config.merged,
                max_groups: config.max_groups,
                from: config.from,
                classes: config.classes,
                threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
                has_filter: config.filter.parts != 0 || !input.cgroups.is_empty(),
                with_run_times: view.shows_run_times() && headers.iter().all(|header| header.kept == Kept::Events),
            }),
            groups: RecordedGroups::default(),
            has_histograms: headers.iter().any(|header| matches!(header.kept, Kept::Histograms { .. })),
            timeline: config.by.contains(&Key::Component).then(|| Timeline::new(config.from)),
            wanted: HashMap::default(),
            left_out: HashMap::default(),
            unix_offset_ns: 0,
            next_report_ns: config.window.interval_ns,
            begun_ns: 0,
            window_start_unix_ns: None,
            reports: 0,
            view,
            is_over: false,
        }
    }

    /// Shows what comes before the first frame.
    ///
    /// # Errors
    /// If `out` cannot be written, as of all methods.
    pub fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.view.begin(out)
    }

    /// The view.
    pub fn view(&mut self) -> &mut dyn View {
        self.view
    }

    /// Whether all requested reports are shown: further frames change nothing.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Handles input from the terminal. Returns what the run has to do.
    pub fn input(&mut self, input: TerminalInput) -> InputAction {
        let action = self.view.input(input);
        if action == InputAction::Report {
            // The next reading, which comes at once.
            self.next_report_ns = self.next_report_ns.map(|_| 0);
        }
        action
    }

    /// Shows a frame. Returns whether that was a report. `position`: that of several recordings.
    pub fn take(&mut self, frame: Frame<'_>, position: Option<Position>, out: &mut dyn Write) -> io::Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        self.names.learn(&frame);
        match frame {
            Frame::UnixOffset(ns) => self.unix_offset_ns = ns,
            Frame::WarmedUp => {
                self.window.warmed_up();
                self.view.warmed_up(out)?;
            }
            Frame::Event(event) => self.take_event(event.into_owned(), out)?,
            Frame::Wait(wait) => {
                let mut wait = wait.into_owned();
                let is_wanted = self.wants_task_of(&wait);
                self.take_wait(&mut wait, is_wanted, out)?;
            }
            Frame::Group { number, key } => self.groups.learn(number, key),
            Frame::Histograms(histograms) => {
                let (config, input) = (self.config, self.input);
                for (key, waits) in self.groups.with_keys(&histograms) {
                    match RecordedGroups::exclusion(key, config, input, &self.names) {
                        Some(why) => self.window.exclude(RecordedGroups::class(key), waits.count(), why),
                        None => self.window.record_group(*key, waits, &self.names),
                    }
                }
            }
            Frame::Stack { .. } | Frame::StackCounts(_) => self.view.recorded_stacks(&frame),
            Frame::Start(before) => self.start(before.report),
            Frame::Reading(report) => return self.end_interval(*report, position, out),
            Frame::End(report) => {
                self.view.ended();
                let report = self.window_report(&report);
                self.view.report(&report, out)?;
                return Ok(true);
            }
            Frame::Header(_)
            | Frame::Cgroup { .. }
            | Frame::Task { .. }
            | Frame::Namespace { .. }
            | Frame::Function { .. } => {}
        }
        Ok(false)
    }

    /// Begins with the report of the run until the first frame.
    fn start(&mut self, report: Report) {
        self.begun_ns = report.duration_ns;
        self.next_report_ns = self.config.window.interval_ns.map(|ns| report.duration_ns.saturating_add(ns));
        self.window.begin(report);
    }

    fn take_event(&mut self, mut event: Event, out: &mut dyn Write) -> io::Result<()> {
        match &mut event.kind {
            EventKind::Switch(switch) => self.take_switch(event.cpu, switch, out)?,
            // Like the programs, only for tasks that the filter accepts: no event is missing.
            EventKind::Migration(MigrationEvent { tid, comm, .. })
            | EventKind::Wakeup(WakeupEvent { tid, comm, .. })
                if !self.wants(*tid, comm) =>
            {
                *self.left_out.entry(event.cpu).or_default() += 1;
                return Ok(());
            }
            _ => {}
        }
        event.seq = event.seq.wrapping_sub(self.left_out.get(&event.cpu).copied().unwrap_or(0));
        self.window.follow(&event);
        if let Some(breakdown) = self.timeline.as_mut().and_then(|timeline| timeline.push(&event)) {
            self.window.record_breakdown(breakdown);
        }
        if self.view.shows_events().is_some() {
            self.view.event(&event, self.unix_offset_ns, &self.names, out)?;
        }
        Ok(())
    }

    /// Judges the tasks of a switch by the filter, and takes the wait that it ends.
    fn take_switch(&mut self, cpu: u32, switch: &mut SwitchEvent, out: &mut dyn Write) -> io::Result<()> {
        for task in [&mut switch.prev, &mut switch.next] {
            task.wanted = self.wants_task((task.tid, task.pid), &task.comm, (task.prio, task.policy), task.cgroup_id);
            if task.wanted != self.wants_unknown(task.tid, &task.comm) {
                self.wanted.insert(task.tid, task.wanted);
            } else if !self.wanted.is_empty() {
                self.wanted.remove(&task.tid);
            }
        }
        if let Some(ended) = &mut switch.ended_wait
            && !self.take_wait(&mut ended.wait, switch.next.wanted, out)?
        {
            switch.ended_wait = None;
        }
        // As the programs do: see `emit()` in `wakelat-ebpf/src/switch_events.rs`.
        if !self.config.filter.wants_cpu(cpu) {
            (switch.prev.wanted, switch.next.wanted) = (false, false);
        }
        Ok(())
    }

    /// Takes a wait; `is_wanted`: the filter accepts its task. Returns whether it is shown.
    fn take_wait(&mut self, wait: &mut Wait, is_wanted: bool, out: &mut dyn Write) -> io::Result<bool> {
        if let (true, Some(delivery_ns)) = (self.excludes_delivery, wait.delivery_ns) {
            wait.latency_ns = wait.latency_ns.saturating_sub(delivery_ns);
        }
        if let Some(why) = self.exclusion(wait, is_wanted) {
            self.window.exclude(wait.class, 1, why);
            return Ok(false);
        }
        self.window.record(wait);
        if self.view.shows_waits() {
            self.view.wait(wait, self.unix_offset_ns, &self.names, out)?;
        }
        Ok(true)
    }

    /// Why a wait is not shown, if so; `is_wanted`: the filter accepts its task.
    fn exclusion(&self, wait: &Wait, is_wanted: bool) -> Option<Exclusion> {
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

    fn wants_task_of(&self, wait: &Wait) -> bool {
        self.wants_task((wait.tid, wait.pid), &wait.comm, (wait.prio, wait.policy), wait.cgroup_id)
    }

    fn wants_task(
        &self,
        (tid, pid): (u32, u32),
        comm: &Comm,
        (prio, policy): (i32, u32),
        cgroup_id: Option<u64>,
    ) -> bool {
        let wants_cgroup = || cgroup_id.is_some_and(|id| self.input.wants_cgroup(&self.names.cgroup(id)));
        !self.own_pids.contains(&pid)
            && self.config.filter.wants_recorded(tid, pid, comm, prio, policy)
            && (self.input.cgroups.is_empty() || wants_cgroup())
    }

    /// Whether the filter accepts a thread at an event that has only its ID and name.
    fn wants(&self, tid: u32, comm: &Comm) -> bool {
        self.wanted.get(&tid).copied().unwrap_or_else(|| self.wants_unknown(tid, comm))
    }

    /// Whether a thread is accepted that no switch has shown: if its ID and name decide it.
    fn wants_unknown(&self, tid: u32, comm: &Comm) -> bool {
        self.input.cgroups.is_empty() && self.config.filter.wants_by_name(tid, comm)
    }

    /// Reports an interval if one ends with this reading. Returns whether one does.
    fn end_interval(&mut self, reading: Report, position: Option<Position>, out: &mut dyn Write) -> io::Result<bool> {
        let Some(interval_ns) = self.config.window.interval_ns else { return Ok(false) };
        let elapsed_ns = position.map_or(reading.duration_ns, |position| position.elapsed_ns);
        if self.next_report_ns.is_none_or(|at_ns| elapsed_ns < at_ns) {
            return Ok(false);
        }
        // Several recordings have one clock, which begins with the first.
        let begun_ns = if position.is_some() { 0 } else { self.begun_ns };
        self.next_report_ns = Some(next_end_ns(begun_ns, elapsed_ns, interval_ns));
        let mut report = self.window_report(&reading);
        // Of several recordings, the length is a sum.
        if !self.view.is_cumulative() && position.is_none() {
            report.requested_ns = Some(interval_ns);
        }
        self.view.report(&report, out)?;
        drop(report);
        self.reports += 1;
        self.is_over = self.config.window.count == Some(self.reports);
        if !self.view.is_cumulative() {
            self.window.begin(reading);
            self.window_start_unix_ns = position.map(|position| position.unix_ns);
        }
        Ok(true)
    }

    /// The report of the window that ends at `reading`.
    fn window_report(&mut self, reading: &Report) -> Report {
        let mut report = self.window.report(reading, &self.names);
        if self.has_histograms {
            // Whatever the readings are of: the single waits are not known.
            report.mode = Mode::Aggregate;
        }
        report.start_unix_ns = self.window_start_unix_ns.unwrap_or(report.start_unix_ns);
        report
    }
}

/// When the interval ends that begins at `elapsed_ns`, if intervals count from `begun_ns`: after a late reading, the next
/// one is shorter.
fn next_end_ns(begun_ns: u64, elapsed_ns: u64, interval_ns: u64) -> u64 {
    let passed = elapsed_ns.saturating_sub(begun_ns) / interval_ns;
    passed.saturating_add(1).saturating_mul(interval_ns).saturating_add(begun_ns)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::{collect::TimelineSettings, config::Command, session::replay::config_of};
    use wakelat_common::Class;
    use wakelat_core::{aggregate::key::Names, timeline::event::MigrationEvent};

    /// Keeps the threads and the numbers of the events that it gets.
    #[derive(Default)]
    struct Shown(Vec<(u32, u32)>);

    impl View for Shown {
        fn shows_events(&self) -> Option<TimelineSettings> {
            Some(TimelineSettings::OF_WAITS)
        }

        fn event(&mut self, event: &Event, _: i64, _: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
            let EventKind::Migration(migration) = &event.kind else { panic!("{event:?}") };
            self.0.push((migration.tid, event.seq));
            Ok(())
        }

        fn report(&mut self, _: &Report, _: &mut dyn Write) -> io::Result<()> {
            Ok(())
        }
    }

    /// A view, and the configuration that `line` gives for a recording with this header.
    fn config(line: &str, header: &Header) -> (Config, RecordedInput) {
        let parsed = crate::cli::parse(line.split(' ').map(Into::into)).unwrap();
        let Command::Why(config, _) = parsed.command else { panic!("{line}") };
        let input = config.input.clone().unwrap();
        (config_of(&[header], &config, &input).unwrap(), input)
    }

    /// The migrations of these threads that `wakelat why -i file` with these flags shows, with their numbers, if only
    /// that of TID 7 was seen at a switch.
    fn shown(flags: &str, migrations: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let header = Header { classes: Class::ALL.into(), ..Header::default() };
        let (config, input) = config(&format!("wakelat why -i file {flags}"), &header);
        let mut shown = Shown::default();
        let mut replay = Replay::new(&config, &input, &[&header], &mut shown);
        replay.wanted.insert(7, true);
        for (tid, seq) in migrations.iter().copied() {
            let (at_ns, comm) = (u64::from(seq), Comm::new(format!("task-{tid}").as_bytes()));
            let migration = MigrationEvent { at_ns, tid, comm, waiting: true, from_cpu: 0, to_cpu: 1 };
            let event = Event { cpu: 0, seq, kind: EventKind::Migration(migration) };
            replay.take(Frame::Event(Cow::Owned(event)), None, &mut Vec::new()).unwrap();
        }
        shown.0
    }

    #[test]
    fn an_event_that_the_filter_leaves_out_is_not_a_lost_one() {
        // The fourth event was lost when the recording was made.
        assert_eq!(shown("--tid 7", &[(7, 1), (8, 2), (7, 3), (7, 5)]), [(7, 1), (7, 2), (7, 4)]);
    }

    #[test]
    fn a_thread_without_a_switch_so_far_is_judged_by_its_id_and_name() {
        let both = [(8, 1), (9, 2)];
        for (flags, expected) in [
            ("-q", &both[..]),
            ("--cpus 0", &both[..]),
            ("--tid 8", &[(8, 1)]),
            ("--comm task-8", &[(8, 1)]),
            ("--comm task-8 --tid 9", &[]),
            // Unknown until a switch.
            ("--pid 8", &[]),
            ("--comm task-8 --prio 120", &[]),
        ] {
            assert_eq!(shown(flags, &both), expected, "{flags}");
        }
    }

    #[test]
    fn intervals_count_from_the_beginning_of_what_is_shown() {
        const MS: u64 = 1_000_000;
        let of = |begun, elapsed| next_end_ns(begun * MS, elapsed * MS, 1_000 * MS) / MS;
        assert_eq!([of(0, 1_000), of(12_500, 13_500), of(12_500, 14_700)], [2_000, 14_500, 15_500]);
        assert_eq!(next_end_ns(1, u64::MAX, 7), u64::MAX);
    }
}
