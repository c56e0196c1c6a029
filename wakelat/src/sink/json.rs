//! `--json`: a document a line, for programs. The schema is in docs/output.md.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    BreakdownRenderer, EventRenderer, RenderContext, ReportRenderer, ReportView, Style, WaitRenderer,
    document::{ReportDocument, WaitDocument},
    event::EventDocument,
};
use crate::{
    report::Report,
    timeline::{Breakdown, stay::SchedLine as Event},
    wait::Wait,
};

/// Reports as NDJSON.
pub struct JsonReports {
    /// Which groups of them.
    pub view: ReportView,
}

/// Waits with or without their parts, and events as NDJSON, and the report that closes them.
pub struct JsonLines;

impl ReportRenderer for JsonReports {
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        line(&ReportDocument::new(report, &self.view.groups(report, &Style::default())), out)
    }
}

impl WaitRenderer for JsonLines {
    fn wait(&mut self, wait: &Wait, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        line(&WaitDocument::new(wait, context), out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        JsonReports { view: ReportView::Chart }.report(report, out)
    }
}

impl BreakdownRenderer for JsonLines {
    fn breakdown(&mut self, account: &Breakdown, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        line(&WaitDocument::with_breakdown(account, context), out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        JsonReports { view: ReportView::Chart }.report(report, out)
    }
}

impl EventRenderer for JsonLines {
    fn event(&mut self, event: &Event, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        line(&EventDocument::new(event, context), out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        JsonReports { view: ReportView::Chart }.report(report, out)
    }
}

/// Writes a document in one piece, so that a reader never sees half of one that a signal cut.
fn line(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    out.write_all(&line)
}
