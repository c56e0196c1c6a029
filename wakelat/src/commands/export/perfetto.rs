//! A recording as a trace for Perfetto.

use std::io::{self, Write};

use anyhow::{Context as _, Result};

use crate::{collect::TimelineSettings, config::Config, session::View, status::status};
use wakelat_core::{
    aggregate::key::Names,
    perfetto::PerfettoWriter,
    recording::Header,
    render::{self, Style, units::counted},
    report::Report,
    timeline::event::Event,
};

/// Writes a trace for Perfetto.
pub struct PerfettoView {
    writer: PerfettoWriter,
    header: Header,
    /// The style of the coverage on standard error, without `--quiet`.
    stderr_style: Option<Style>,
}

impl PerfettoView {
    /// A trace of recordings with these headers as `config`, in which waits of at least `threshold_ns` have slices.
    ///
    /// # Errors
    /// If there is no recording.
    pub fn new(headers: &[&Header], config: &Config, threshold_ns: u64, stderr_style: Option<Style>) -> Result<Self> {
        let first = *headers.first().context("only a recording can be exported")?;
        let writer = PerfettoWriter::new(config.from, headers, &config.output.files, threshold_ns);
        Ok(Self { writer, header: first.clone(), stderr_style })
    }
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
            for (name, from, to) in self.writer.cpus() {
                status(format_args!("CPUs {from} to {to} of the trace are the CPUs of {}", name.file));
            }
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
