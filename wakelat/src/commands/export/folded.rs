//! The waits of a recording as folded stacks.

use std::io::{self, Write};

use crate::{collect::TimelineSettings, config::Config, session::View};
use wakelat_core::{
    aggregate::key::Names,
    folded_waits::FoldedWaits,
    render::{self, Style},
    report::Report,
    timeline::{Timeline, event::Event},
};

/// Writes folded stacks.
pub struct FoldedView {
    timeline: Timeline,
    folded: FoldedWaits,
    stderr_style: Option<Style>,
}

impl FoldedView {
    /// Folded stacks of a recording, as `config` requests.
    pub fn new(config: &Config, stderr_style: Option<Style>) -> Self {
        Self { timeline: Timeline::new(config.from), folded: FoldedWaits::default(), stderr_style }
    }
}

impl View for FoldedView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(TimelineSettings::OF_WAITS)
    }

    fn event(&mut self, event: &Event, _: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        if let Some(breakdown) = self.timeline.push(event) {
            self.folded.add(breakdown, names);
        }
        Ok(())
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.folded.write(out)?;
        self.stderr_style.as_ref().map_or(Ok(()), |style| render::coverage::write(report, style, &mut io::stderr()))
    }
}
