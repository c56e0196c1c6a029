//! `trace --breakdown`: prints a line per wait, with its components.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;

use super::{
    beside_output::BesideOutput,
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
    report::{LatencyFrom, Report},
    svg,
    timeline::{Timeline, event::Event},
};

/// `trace --breakdown`: prints a line per wait, with its components, and writes the timeline of the longest one to the
/// file at `svg`.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn trace_breakdown(config: &Config, svg: Option<&Path>) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    let (style, _) = style(&config.output);
    let mut view = TraceBreakdownView {
        timeline: Timeline::new(config.from),
        stderr_style: stderr_style(&config.output, &style),
        renderer: config.output.format.breakdowns(config.from, style),
        from: config.from,
        own_pids: source.own_pids(),
        longest_ns: None,
        svg: svg.map(BesideOutput::open).transpose()?,
    };
    if let Some(file) = &mut view.svg {
        file.bytes = svg::no_time_line()?.into_bytes();
    }
    let stop = source.show(&config, &mut view)?;
    view.svg.map_or(Ok(()), BesideOutput::finish)?;
    Ok(stop)
}

/// Prints breakdowns of waits as lines.
struct TraceBreakdownView {
    timeline: Timeline,
    renderer: Box<dyn BreakdownRenderer>,
    /// Where latency begins.
    from: LatencyFrom,
    /// The processes of wakelat itself.
    own_pids: Vec<u32>,
    /// The longest wait so far: ns.
    longest_ns: Option<u64>,
    /// Its timeline, if it is requested.
    svg: Option<BesideOutput>,
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
        if let Some(file) = &mut self.svg
            && self.longest_ns < Some(breakdown.latency_ns)
        {
            self.longest_ns = Some(breakdown.latency_ns);
            file.bytes = svg::time_line(breakdown, self.from, &self.own_pids, names)?.into_bytes();
        }
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
