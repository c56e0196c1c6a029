//! `export`: converts a recording for another tool.

use std::io::{self, Write};

use anyhow::{Context as _, Result, bail};

use super::{measurement::Source, terminal_style::style};
use crate::{
    collect::TimelineSettings,
    config::{Config, ExportConfig, ExportFormat},
    session::{StopReason, View},
    status::status,
};
use wakelat_core::{
    aggregate::key::Names,
    perfetto::PerfettoWriter,
    recording::Header,
    render::{self, Style, units::counted},
    report::Report,
    timeline::event::Event,
};

/// `export`: converts a recording for another tool.
///
/// # Errors
/// If the recording cannot be read or does not have what `config` requests, or if the output cannot be written or its
/// reader closes it before the end.
pub fn export(config: &Config, export: ExportConfig) -> Result<StopReason> {
    let ExportFormat::Perfetto = export.format;
    let (source, config) = Source::open(config)?;
    let header = source.header().context("only a recording can be exported")?;
    let header = Header { from: config.from, ..header.clone() };
    let mut view = PerfettoView {
        writer: PerfettoWriter::new(&header, export.threshold_ns),
        header,
        stderr_style: (!config.output.quiet).then(|| style(&config.output).0),
    };
    match source.show(&config, &mut view)? {
        StopReason::NoReader => bail!("the trace is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
    }
}

struct PerfettoView {
    writer: PerfettoWriter,
    header: Header,
    /// The style of the coverage on standard error, without `--quiet`.
    stderr_style: Option<Style>,
}

impl View for PerfettoView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(TimelineSettings::OF_WAITS)
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.writer.begin(&self.header, out)
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.writer.event(event, unix_offset_ns, names, out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let waits = self.writer.end(out)?;
        if let Some(style) = &self.stderr_style {
            status(format_args!("the trace has {} with components", counted(waits, "wait")));
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
