//! `hist`: shows the distribution of latency.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;

use super::{beside_output::BesideOutput, html_report::HtmlReportOutput, measurement::Source, terminal_style::style};
use crate::{
    collect::TimelineSettings,
    config::{Config, HistConfig},
    session::{StopReason, View},
};
use wakelat_core::{
    aggregate::key::{Key, Names},
    recording::CollectedEvents,
    render::{self, ReportRenderer},
    report::Report,
    svg,
    timeline::event::Event,
};

/// `hist`: shows the distribution, once or per interval.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn hist(config: &Config, hist: &HistConfig) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    let (style, _) = style(&config.output);
    let reports = config.output.format.reports(render::ReportView::Chart, &config.key_names(), style);
    let page = |path: &PathBuf| HtmlReportOutput::create(path, &config, hist.collect, &source.headers());
    let page = hist.report.as_ref().map(page).transpose()?;
    let headers = source.headers();
    let collected = headers.iter().map(|header| header.collected).reduce(CollectedEvents::both).unwrap_or(hist.collect);
    let of_page = page.is_some().then(|| TimelineSettings::of(collected));
    let timeline = of_page.or_else(|| timeline_for_grouping(&config));
    let svg = hist.svg.as_deref().map(BesideOutput::open).transpose()?;
    let mut view = HistView { reports, timeline, page, svg };
    let stop = source.show(&config, &mut view)?;
    view.svg.map_or(Ok(()), BesideOutput::finish)?;
    view.page.map_or(Ok(()), HtmlReportOutput::finish)?;
    Ok(stop)
}

/// The events that are needed if waits are grouped by component.
pub(super) fn timeline_for_grouping(config: &Config) -> Option<TimelineSettings> {
    config.by.contains(&Key::Component).then_some(TimelineSettings::OF_WAITS)
}

struct HistView {
    reports: Box<dyn ReportRenderer>,
    timeline: Option<TimelineSettings>,
    /// The waits and their causes as HTML, if they are requested.
    page: Option<HtmlReportOutput>,
    /// The chart as a picture, if it is requested.
    svg: Option<BesideOutput>,
}

impl View for HistView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        self.timeline
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.reports.head(out)
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.page.as_mut().map_or(Ok(()), |page| page.event(event, unix_offset_ns, names))
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.page.as_mut().map_or(Ok(()), HtmlReportOutput::warmed_up)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.page.as_mut().map_or(Ok(()), |page| page.report(report))?;
        if let Some(file) = &mut self.svg {
            file.bytes = svg::distribution(report)?.into_bytes();
        }
        self.reports.report(report, out)
    }
}
