//! `trace`: prints a line per wait.

use std::io::{self, Write};

use anyhow::Result;

use super::{
    measurement::Source,
    terminal_style::{stderr_style, style},
};
use crate::{
    config::Config,
    session::{StopReason, View},
};
use wakelat_core::{
    aggregate::key::Names,
    render::{self, Style, WaitRenderer},
    report::Report,
    wait::Wait,
};

/// `trace`: prints a line per wait.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn trace(config: &Config) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    let (style, _) = style(&config.output);
    let stderr_style = stderr_style(&config.output, &style);
    source.show(&config, &mut TraceView { stderr_style, waits: config.output.format.waits(style) })
}

struct TraceView {
    waits: Box<dyn WaitRenderer>,
    /// The style of the coverage on standard error, if the output cannot contain it.
    stderr_style: Option<Style>,
}

impl View for TraceView {
    fn shows_waits(&self) -> bool {
        true
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.waits.head(out)
    }

    fn wait(&mut self, wait: &Wait, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.waits.wait(wait, &render::RenderContext { unix_offset_ns, names }, out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.waits.end(report, out)?;
        if let Some(style) = &self.stderr_style {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
