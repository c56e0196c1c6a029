//! `record`: everything that happens, to a file.

use std::io::{self, Write};

use anyhow::{Result, bail};
use rustix::fs::Mode;

use super::{run, style, why::timeline};
use crate::{
    aggregate::key::Names,
    collect::TimelineSettings,
    config::Config,
    recording::{CollectedEvents, Header, Recorder},
    report::Report,
    session::{StopReason, View},
    sink::{self, Style},
    timeline::event::Event,
};

/// `record`: everything that happens, to a file.
///
/// # Errors
/// Those of [`crate::session::run`], and where the reader of a pipe goes before the end.
pub fn record(config: &Config, parts: CollectedEvents) -> Result<StopReason> {
    let header = Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        from: config.from,
        merged: config.merged,
        collected: parts,
    };
    // A recording holds the names of all users' tasks: as with perf's, only its owner reads it.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let aside = (!config.output.quiet).then(|| style(&config.output).0);
    let mut view = RecordView {
        header: Some(header),
        timeline: timeline(parts),
        recorder: Recorder::default(),
        stderr_style: aside,
    };
    match run(config, &mut view)? {
        StopReason::NoReader => bail!("the recording cannot be read: what was reading it has closed it before its end"),
        stop => Ok(stop),
    }
}

struct RecordView {
    /// Until it is written.
    header: Option<Header>,
    timeline: TimelineSettings,
    recorder: Recorder,
    /// How the coverage is to look on standard error, for whoever recorded.
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
            sink::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
