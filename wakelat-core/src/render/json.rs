//! Renders `--json`: one document on each line. docs/schema describes the documents.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    BreakdownRenderer, EventRenderer, RenderContext, ReportRenderer, ReportView, Style, WaitRenderer,
    event_document::EventDocument, report_document::ReportDocument, wait_document::WaitDocument,
};
use crate::{
    report::Report,
    timeline::{Breakdown, timehist::SchedLine as Event},
    wait::Wait,
};

/// Renders reports as NDJSON.
pub struct JsonReports {
    /// Selects the groups of a report.
    pub view: ReportView,
}

/// Renders waits, with or without their components, or scheduling events as NDJSON, followed by the report.
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
    fn breakdown(&mut self, breakdown: &Breakdown, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        line(&WaitDocument::with_breakdown(breakdown, context), out)
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

/// Writes a document with a single call of `write_all`, so that a signal cannot leave half a line to the
/// reader.
fn line(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    out.write_all(&line)
}
