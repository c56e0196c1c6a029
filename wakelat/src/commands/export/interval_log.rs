//! The waits of a recording as histograms per interval.

use std::io::{self, Write};

use crate::session::View;
use wakelat_core::{
    aggregate::key::Names,
    interval_log::IntervalLog,
    render::{self, Style},
    report::Report,
    wait::Wait,
};

/// Writes histograms per interval.
pub struct IntervalLogView {
    log: IntervalLog,
    stderr_style: Option<Style>,
}

impl IntervalLogView {
    /// A log without intervals.
    pub fn new(stderr_style: Option<Style>) -> Self {
        Self { log: IntervalLog::default(), stderr_style }
    }
}

impl View for IntervalLogView {
    fn shows_waits(&self) -> bool {
        true
    }

    fn wait(&mut self, wait: &Wait, _: i64, _: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.log.record(wait.class, wait.latency_ns)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.log.end_interval(report.start_unix_ns, report.duration_ns, out)?;
        self.stderr_style.as_ref().map_or(Ok(()), |style| render::coverage::write(report, style, &mut io::stderr()))
    }
}
