//! `hist`: shows the distribution of latency.

use std::io::{self, Write};

use anyhow::Result;

use super::{measurement::Source, terminal_style::style};
use crate::{
    collect::TimelineSettings,
    config::Config,
    session::{StopReason, View},
};
use wakelat_core::{
    aggregate::key::Key,
    render::{self, ReportRenderer},
    report::Report,
};

/// `hist`: shows the distribution, once or per interval.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn hist(config: &Config) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    let (style, _) = style(&config.output);
    let reports = config.output.format.reports(render::ReportView::Chart, &config.key_names(), style);
    source.show(&config, &mut HistView { reports, timeline: timeline_for_grouping(&config) })
}

/// The events that are needed if waits are grouped by component.
pub(super) fn timeline_for_grouping(config: &Config) -> Option<TimelineSettings> {
    config.by.contains(&Key::Component).then_some(TimelineSettings::OF_WAITS)
}

struct HistView {
    reports: Box<dyn ReportRenderer>,
    timeline: Option<TimelineSettings>,
}

impl View for HistView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        self.timeline
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.reports.head(out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.reports.report(report, out)
    }
}
