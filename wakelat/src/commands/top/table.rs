//! The table of groups, shown repeatedly.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;

use super::super::{
    hist::timeline_for_grouping,
    measurement::Source,
    terminal_style::{style, terminal},
};
use crate::{
    collect::TimelineSettings,
    config::{Config, TableConfig},
    session::{StopReason, View},
    status::status,
};
use wakelat_core::{
    aggregate::key::Key,
    recording::Kept,
    render::{self, ReportRenderer, Style, screen},
    report::{Group, KeyValue, Report},
};
use wakelat_kernel::run_times::RunTimes;

/// Shows the table of the waits of `source`, since the start or for the last interval.
///
/// # Errors
/// Errors of [`Source::show`].
pub fn show(source: Source, config: &Config, table: TableConfig) -> Result<StopReason> {
    let (is_live, has_tasks) = (source.is_live(), source.headers().is_empty());
    if !config.output.quiet && source.headers().iter().any(|header| header.kept != Kept::Events) {
        status("no run times: the recording does not keep every switch (`record --keep events` does)");
    }
    let (style, _) = style(&config.output);
    let keys = config.key_names();
    let view = render::ReportView::Table { sort: table.sort, limit: table.limit };
    let mut top = TopView {
        reports: config.output.format.reports(view, &keys, style.clone()),
        redrawn: is_live && style.cursor && config.output.format == render::OutputFormat::Human,
        timeline: timeline_for_grouping(config),
        run_times: (has_tasks && one_thread_each(&config.by)).then(|| RunTimes::new(Path::new("/proc"))),
        table,
        keys,
        style,
    };
    source.show(config, &mut top)
}

struct TopView {
    /// Renders tables one below the other.
    reports: Box<dyn ReportRenderer>,
    /// Each table replaces the previous one on the screen.
    redrawn: bool,
    timeline: Option<TimelineSettings>,
    /// Run times of threads, if each group is one thread of this machine.
    run_times: Option<RunTimes>,
    table: TableConfig,
    keys: Vec<&'static str>,
    style: Style,
}

/// Whether each group is exactly one thread: with other keys, a thread may have several groups.
fn one_thread_each(by: &[Key]) -> bool {
    by.contains(&Key::Tid) && by.iter().all(|key| matches!(key, Key::Tid | Key::Pid | Key::Comm))
}

/// The TID of a group; `None` for `(other)`.
fn tid(group: &Group) -> Option<u32> {
    let part = group.key.iter().find(|part| part.name == Key::Tid.name())?;
    if let KeyValue::Number(tid) = part.value { u32::try_from(tid).ok() } else { None }
}

impl TopView {
    /// Number of groups whose run time is read with each report, in the order of the sort column: those on
    /// the screen, or those that may be in the next interval.
    fn read_with_each_report(&self) -> usize {
        /// Takes some 5 ms.
        const MOST: usize = 1_000;
        let shown = self.table.limit.unwrap_or(MOST).min(MOST);
        match terminal(false) {
            _ if self.table.last_only => MOST,
            (_, Some(rows)) if self.redrawn => rows.min(shown),
            _ => shown,
        }
    }

    /// Renders the table for the current size of the terminal.
    fn screen(&mut self, report: &Report) -> String {
        const DEFAULT_ROWS: usize = 24;
        let (now, rows) = terminal(false);
        self.style.width = now.width;
        let TableConfig { sort, limit, last_only, .. } = self.table;
        let head = screen::head(report, last_only, &self.style);
        let render = |limit| {
            let view = render::ReportView::Table { sort, limit: Some(limit) };
            let mut out = head.clone().into_bytes();
            let mut reports = render::OutputFormat::Human.reports(view, &self.keys, self.style.clone());
            // Writing to memory does not fail.
            _ = reports.report(report, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        // The last row is left for the cursor.
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

    fn shows_run_times(&self) -> bool {
        // Those of a measurement are the kernel's.
        self.run_times.is_none()
    }

    fn is_cumulative(&self) -> bool {
        !self.table.last_only
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
        let first = render::ReportView::Table { sort: self.table.sort, limit }.groups(report, &self.style);
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
        // Cursor home, and clear below it: no flicker, and the scrollback is preserved.
        write!(out, "\x1b[H\x1b[J{}", self.screen(report))
    }
}
