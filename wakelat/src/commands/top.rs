//! `top`: the table of groups, again and again.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;

use super::{keys, run, style, terminal, timeline_for_grouping};
use crate::{
    aggregate::key::Key,
    collect::TimelineSettings,
    config::{Config, TableConfig},
    kernel::run_time::RunTimes,
    report::{Group, KeyValue, Report},
    session::{Input, InputAction, StopReason, View},
    sink::{self, ReportRenderer, Style, screen},
};

/// `top`: the table of groups since the start, or of the last interval, again and again.
///
/// # Errors
/// Those of [`crate::session::run`].
pub fn top(config: &Config, table: TableConfig) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    let keys = keys(config);
    let view = sink::ReportView::Table { sort: table.sort, limit: table.limit };
    let mut top = TopView {
        reports: config.output.format.reports(view, &keys, style.clone()),
        redrawn: style.cursor && config.output.format == sink::OutputFormat::Human,
        timeline: timeline_for_grouping(config),
        run_times: one_thread_each(&config.by).then(|| RunTimes::new(Path::new("/proc"))),
        table,
        keys,
        style,
    };
    run(config, &mut top)
}

struct TopView {
    /// Tables one below the other.
    reports: Box<dyn ReportRenderer>,
    /// Each table takes the place of the one before.
    redrawn: bool,
    timeline: Option<TimelineSettings>,
    /// Where each group is one thread.
    run_times: Option<RunTimes>,
    table: TableConfig,
    keys: Vec<&'static str>,
    style: Style,
}

/// Whether a group is all that one thread does: with other keys than these, a thread may have several groups.
fn one_thread_each(by: &[Key]) -> bool {
    by.contains(&Key::Tid) && by.iter().all(|key| matches!(key, Key::Tid | Key::Pid | Key::Comm))
}

/// The thread of a group; none of `(other)`.
fn tid(group: &Group) -> Option<u32> {
    let part = group.key.iter().find(|part| part.name == Key::Tid.name())?;
    if let KeyValue::Number(tid) = part.value { u32::try_from(tid).ok() } else { None }
}

impl TopView {
    /// Groups whose run time is read with each report, first to last by the column: those on the screen, or in the next interval.
    fn read_with_each_report(&self) -> usize {
        /// Some 5 ms of reading.
        const MOST: usize = 1_000;
        let shown = self.table.limit.unwrap_or(MOST).min(MOST);
        match terminal(false) {
            _ if self.table.last_only => MOST,
            (_, Some(rows)) if self.redrawn => rows.min(shown),
            _ => shown,
        }
    }

    /// The table on a terminal as it is now.
    fn screen(&mut self, report: &Report) -> String {
        const DEFAULT_ROWS: usize = 24;
        let (now, rows) = terminal(false);
        self.style.width = now.width;
        let TableConfig { sort, limit, last_only } = self.table;
        let head = screen::head(report, last_only, sort.name(), &self.style);
        let render = |limit| {
            let view = sink::ReportView::Table { sort, limit: Some(limit) };
            let mut out = head.clone().into_bytes();
            let mut reports = sink::OutputFormat::Human.reports(view, &self.keys, self.style.clone());
            // A writer in memory does not fail.
            _ = reports.report(report, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        // The last row is the cursor's.
        screen::fitting(
            rows.unwrap_or(DEFAULT_ROWS).saturating_sub(1),
            limit.unwrap_or(usize::MAX),
            &self.style,
            render,
        )
    }
}

impl View for TopView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        self.timeline
    }

    fn is_cumulative(&self) -> bool {
        !self.table.last_only
    }

    fn takes_input(&self) -> bool {
        self.redrawn
    }

    fn input(&mut self, input: Input) -> InputAction {
        match input {
            Input::Key(b'q' | b'Q') => return InputAction::Quit,
            Input::Key(b'i') => self.table.last_only ^= true,
            Input::Key(b's') => self.table.sort = self.table.sort.next(),
            Input::Resized => {}
            Input::Key(_) => return InputAction::Nothing,
        }
        InputAction::Report
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.run_times.iter_mut().for_each(RunTimes::begin);
        self.reports.head(out)
    }

    fn warmed_up(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        self.run_times.iter_mut().for_each(RunTimes::begin);
        Ok(())
    }

    fn ended(&mut self) {
        self.run_times.iter_mut().for_each(RunTimes::end);
    }

    fn complete(&mut self, report: &mut Report) {
        let limit = Some(self.read_with_each_report());
        let Some(run_times) = &mut self.run_times else { return };
        let first = sink::ReportView::Table { sort: self.table.sort, limit }.groups(report, &self.style);
        let now = run_times.now(first.into_iter().filter_map(tid));
        for group in &mut report.groups {
            group.run_ns = tid(group).and_then(|tid| run_times.since(&now, tid));
        }
        if self.table.last_only {
            run_times.begin_at(now);
        }
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if !self.redrawn {
            return self.reports.report(report, out);
        }
        // Home, and clear what is below: no flicker, and the scrollback stays.
        write!(out, "\x1b[H\x1b[J{}", self.screen(report))
    }
}
