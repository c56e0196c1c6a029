//! An HTML report of the waits that the screens show.

use std::io::{self, Write};

use anyhow::Result;

use crate::{
    commands::html_report::HtmlReportView,
    config::{Config, FilterConfig, OutputConfig, RecordedInput},
    session::{
        View,
        replay::{self, Replay},
    },
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{Header, LastPart, Recording},
    report::Report,
    timeline::event::Event,
};

/// Writes the page of the last seconds of a measurement.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_last(part: &LastPart, header: &Header, out: &mut dyn Write) -> Result<()> {
    let mut bytes = Vec::new();
    part.write(header, &mut bytes)?;
    let mut recording = Recording::open(&bytes[..])?;
    let (header, input) = (recording.header().clone(), RecordedInput::default());
    let config = Config::recorded(input.clone(), FilterConfig::new(false), OutputConfig::default());
    let config = replay::config_of(&[&header], &config, &input)?;
    let mut view = HtmlReportView::new(&config, Vec::new(), &[&header], None);
    let mut replay = Replay::new(&config, &input, &[&header], &mut view);
    while let Some(frame) = recording.frame()? {
        replay.take(frame, None, out)?;
    }
    Ok(())
}

/// The page of saved input, once it is read.
pub struct SavedPage {
    view: HtmlReportView,
    html: Option<Vec<u8>>,
}

impl SavedPage {
    /// The page of recordings with these headers, as `config` selects their waits.
    pub fn new(config: &Config, headers: &[&Header]) -> Self {
        Self { view: HtmlReportView::new(config, Vec::new(), headers, None), html: None }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names) -> io::Result<()> {
        self.view.event(event, unix_offset_ns, names, &mut io::sink())
    }

    /// The warm-up has ended.
    pub fn warmed_up(&mut self) -> io::Result<()> {
        self.view.warmed_up(&mut io::sink())
    }

    /// Everything has been read.
    pub fn end(&mut self, report: &Report) -> io::Result<()> {
        let mut html = Vec::new();
        self.view.report(report, &mut html)?;
        self.html = Some(html);
        Ok(())
    }

    /// The page; `None` while the input is still being read.
    pub fn html(&self) -> Option<&[u8]> {
        self.html.as_deref()
    }
}
