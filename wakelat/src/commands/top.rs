//! `top`: the table of groups, again and again.

use std::io::{self, Write};

use anyhow::Result;

use super::{keys, of_parts, run, style, terminal};
use crate::{
    collect::Timeline,
    config::{Config, Table},
    report::Report,
    session::{Answer, Input, Stop, View},
    sink::{self, Reports, Style, screen},
};

/// `top`: the table of groups since the start, or of the last interval, again and again.
///
/// # Errors
/// Those of [`crate::session::run`].
pub fn top(config: &Config, table: Table) -> Result<Stop> {
    let (style, _) = style(&config.output);
    let keys = keys(config);
    let view = sink::View::Table { sort: table.sort, limit: table.limit };
    let mut top = Top {
        reports: config.output.format.reports(view, &keys, style.clone()),
        redrawn: style.cursor && config.output.format == sink::Format::Human,
        timeline: of_parts(config),
        table,
        keys,
        style,
    };
    run(config, &mut top)
}

struct Top {
    /// Tables one below the other.
    reports: Box<dyn Reports>,
    /// Each table takes the place of the one before.
    redrawn: bool,
    timeline: Option<Timeline>,
    table: Table,
    keys: Vec<&'static str>,
    style: Style,
}

impl Top {
    /// The table on a terminal as it is now.
    fn screen(&mut self, report: &Report) -> String {
        const USUAL: usize = 24;
        let (now, rows) = terminal(false);
        self.style.width = now.width;
        let Table { sort, limit, last_only } = self.table;
        let head = screen::head(report, last_only, sort.name(), &self.style);
        let render = |limit| {
            let view = sink::View::Table { sort, limit: Some(limit) };
            let mut out = head.clone().into_bytes();
            let mut reports = sink::Format::Human.reports(view, &self.keys, self.style.clone());
            // A writer in memory does not fail.
            _ = reports.report(report, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        // The last row is the cursor's.
        screen::fitting(rows.unwrap_or(USUAL).saturating_sub(1), limit.unwrap_or(usize::MAX), &self.style, render)
    }
}

impl View for Top {
    fn shows_events(&self) -> Option<Timeline> {
        self.timeline
    }

    fn is_cumulative(&self) -> bool {
        !self.table.last_only
    }

    fn takes_input(&self) -> bool {
        self.redrawn
    }

    fn input(&mut self, input: Input) -> Answer {
        match input {
            Input::Key(b'q' | b'Q') => return Answer::Quit,
            Input::Key(b'i') => self.table.last_only ^= true,
            Input::Key(b's') => self.table.sort = self.table.sort.next(),
            Input::Resized => {}
            Input::Key(_) => return Answer::Nothing,
        }
        Answer::Report
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.reports.head(out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if !self.redrawn {
            return self.reports.report(report, out);
        }
        // Home, and clear what is below: no flicker, and the scrollback stays.
        write!(out, "\x1b[H\x1b[J{}", self.screen(report))
    }
}
