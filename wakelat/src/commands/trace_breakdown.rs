//! `trace --breakdown`: prints a line per wait, with its components.

use std::io::{self, Write};

use anyhow::Result;

use super::{
    measurement::Source,
    terminal_style::{stderr_style, style},
};
use crate::{
    collect,
    config::Config,
    session::{StopReason, View},
};
use wakelat_core::{
    aggregate::key::Names,
    render::{self, BreakdownRenderer, Style},
    report::Report,
    timeline::{Timeline, event::Event},
};

/// `trace --breakdown`: prints a line per wait, with its components.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn trace_breakdown(config: &Config) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    let (style, _) = style(&config.output);
    let mut view = TraceBreakdownView {
        timeline: Timeline::new(config.from),
        stderr_style: stderr_style(&config, &style),
        renderer: config.output.format.breakdowns(config.from, style),
    };
    source.show(&config, &mut view)
}

/// Prints breakdowns of waits as lines.
struct TraceBreakdownView {
    timeline: Timeline,
    renderer: Box<dyn BreakdownRenderer>,
    /// The style of the coverage on standard error, if the output cannot contain it.
    stderr_style: Option<Style>,
}

impl View for TraceBreakdownView {
    fn shows_events(&self) -> Option<collect::TimelineSettings> {
        Some(collect::TimelineSettings::OF_WAITS)
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.renderer.head(out)
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        let Some(breakdown) = self.timeline.push(event) else { return Ok(()) };
        self.renderer.breakdown(breakdown, &render::RenderContext { unix_offset_ns, names }, out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.renderer.end(report, out)?;
        if let Some(style) = &self.stderr_style {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
