//! The waits of a recording as histograms per interval.

use std::io::{self, Write};

use crate::session::View;
use wakelat_core::{
    aggregate::key::Names,
    interval_log::IntervalLog,
    render::{self, Style},
    report::{Group, Report},
    wait::Wait,
};

/// Writes histograms per interval.
pub struct IntervalLogView {
    log: IntervalLog,
    /// The recording has histograms instead of waits.
    has_histograms: bool,
    stderr_style: Option<Style>,
}

impl IntervalLogView {
    /// A log without intervals. `has_histograms`: of a recording of histograms.
    pub fn new(has_histograms: bool, stderr_style: Option<Style>) -> Self {
        Self { log: IntervalLog::default(), has_histograms, stderr_style }
    }

    /// Adds the waits of a group, each as long as the longest that its bucket can have.
    fn record(&mut self, group: &Group) -> io::Result<()> {
        let waits = &group.distribution;
        waits.buckets().into_iter().try_for_each(|bucket| {
            let longest_ns = bucket.to_ns.saturating_sub(1).clamp(waits.min_ns(), waits.max_ns());
            self.log.record_n(group.class.name(), longest_ns, bucket.count)
        })
    }
}

impl View for IntervalLogView {
    fn shows_waits(&self) -> bool {
        !self.has_histograms
    }

    fn wait(&mut self, wait: &Wait, _: i64, _: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.log.record(wait.class, wait.latency_ns)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if self.has_histograms {
            report.groups.iter().try_for_each(|group| self.record(group))?;
        }
        self.log.end_interval(report.start_unix_ns, report.duration_ns, out)?;
        self.stderr_style.as_ref().map_or(Ok(()), |style| render::coverage::write(report, style, &mut io::stderr()))
    }
}
