//! `record`: writes all events to a file.

use std::io::{self, Write};

use anyhow::{Result, bail};
use rustix::fs::Mode;

use super::{measurement::measure, terminal_style::style, why::timeline};
use crate::{
    collect::TimelineSettings,
    config::Config,
    session::{StopReason, View},
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{CollectedEvents, Header, Recorder},
    render::{self, Style},
    report::Report,
    timeline::event::Event,
};

/// `record`: writes all events to a file.
///
/// # Errors
/// Errors of [`crate::session::run`], and if the reader of a pipe closes it before the end.
pub fn record(config: &Config, collected: CollectedEvents) -> Result<StopReason> {
    let header =
        Header { version: env!("CARGO_PKG_VERSION").to_owned(), from: config.from, merged: config.merged, collected };
    // A recording contains the names of all users' tasks: as with perf's, only its owner may read it.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let stderr_style = (!config.output.quiet).then(|| style(&config.output).0);
    let mut view =
        RecordView { header: Some(header), timeline: timeline(collected), recorder: Recorder::default(), stderr_style };
    match measure(config, &mut view)? {
        StopReason::NoReader => bail!("the recording is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
    }
}

struct RecordView {
    /// The header, until it is written.
    header: Option<Header>,
    timeline: TimelineSettings,
    recorder: Recorder,
    /// The style of the coverage on standard error, without `--quiet`.
    stderr_style: Option<Style>,
}

impl View for RecordView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(self.timeline)
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.header.take().map_or(Ok(()), |header| self.recorder.begin(header, out))
    }

    fn event(&mut self, event: &Event, _: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.recorder.event(event, names, out)
    }

    fn warmed_up(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.recorder.warmed_up(out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.recorder.end(report, out)?;
        if let Some(style) = &self.stderr_style {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
