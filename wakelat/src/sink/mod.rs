//! What a person or a program sees of a report.
//!
//! A sink takes a [`Report`], or one [`Wait`] after another, and writes them to whatever it is given. It reads no
//! clock and does no other I/O, so that the same report always looks the same. It writes each report and each line
//! in one piece. Every sink shows the coverage: figures without it are not shown anywhere. The one that has no place for it,
//! a CSV of waits, leaves it to the caller ([`coverage::write`]).
//!
//! A new sink is a file beside these with an `impl` of [`ReportRenderer`], [`WaitRenderer`], [`BreakdownRenderer`] or [`EventRenderer`], and a line in [`OutputFormat`].

use std::io::{self, Write};

use crate::{
    aggregate::rank::Percentile,
    report::{Group, LatencyFrom, Report},
    timeline::{Breakdown, stay::SchedLine as Event},
    wait::{Comm, Wait},
};

pub mod chart;
pub mod columns;
pub mod coverage;
pub mod csv;
pub mod json;
pub mod parts;
pub mod screen;
pub mod shares;
pub mod stays;
pub mod style;
pub mod table;
pub mod timeline;
pub mod trace;
pub mod units;

pub(crate) mod clock;
pub(crate) mod document;
mod event;
mod rows;
pub(crate) mod text;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod documentation;
#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use style::Style;

use style::TextStyle;
use text::TextLine;

/// The percentiles every sink shows, and their names for people.
pub const PERCENTILES: [(Percentile, &str); 4] =
    [(Percentile::P50, "p50"), (Percentile::P90, "p90"), (Percentile::P99, "p99"), (Percentile::P99_9, "p99.9")];

/// A form of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people: charts, tables, columns.
    #[default]
    Human,
    /// A JSON document a line (NDJSON).
    Json,
    /// Comma-separated values with a line of titles.
    Csv,
}

/// What of a report is shown. Programs see each group whole in either case.
#[derive(Clone, Copy, Debug)]
pub enum ReportView {
    /// `hist`: a chart of each group.
    Chart,
    /// `top`: a line for each group, as many as are wanted.
    Table {
        /// The column it is sorted by.
        sort: table::Sort,
        /// Groups shown at most; all of them where there is no limit.
        limit: Option<usize>,
    },
}

impl ReportView {
    /// The groups of a report that are shown, in their order.
    pub(crate) fn groups<'a>(&self, report: &'a Report, style: &Style) -> Vec<&'a Group> {
        let mut groups: Vec<&Group> = report.groups.iter().collect();
        if let Self::Table { sort, limit } = self {
            table::order(&mut groups, *sort, style);
            groups.truncate(limit.unwrap_or(usize::MAX));
        }
        groups
    }
}

/// Shows reports, one after another.
pub trait ReportRenderer {
    /// Writes what stands once above the first report.
    ///
    /// # Errors
    /// Those of `out`.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a report.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// Shows waits, one after another, and the report that closes them.
pub trait WaitRenderer {
    /// Writes what stands once above the first wait.
    ///
    /// # Errors
    /// Those of `out`.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a wait.
    ///
    /// # Errors
    /// Those of `out`.
    fn wait(&mut self, wait: &Wait, context: &RenderContext, out: &mut dyn Write) -> io::Result<()>;

    /// Writes what is to be known about the whole run: its coverage. CSV has no place for it and writes nothing.
    ///
    /// # Errors
    /// Those of `out`.
    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// Shows waits and where the time of each went, one after another, and the report that closes them.
pub trait BreakdownRenderer {
    /// Writes what stands once above the first wait.
    ///
    /// # Errors
    /// Those of `out`.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a wait and its parts.
    ///
    /// # Errors
    /// Those of `out`.
    fn breakdown(&mut self, account: &Breakdown, context: &RenderContext, out: &mut dyn Write) -> io::Result<()>;

    /// As [`WaitRenderer::end`].
    ///
    /// # Errors
    /// Those of `out`.
    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// Shows the course of events on every CPU, one after another, and the report that closes them.
pub trait EventRenderer {
    /// Writes what stands once above the first event.
    ///
    /// # Errors
    /// Those of `out`.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes an event.
    ///
    /// # Errors
    /// Those of `out`.
    fn event(&mut self, event: &Event, context: &RenderContext, out: &mut dyn Write) -> io::Result<()>;

    /// As [`WaitRenderer::end`].
    ///
    /// # Errors
    /// Those of `out`.
    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// What a wait alone does not say.
pub struct RenderContext<'a> {
    /// What to add to CLOCK_MONOTONIC to have ns since 1970-01-01 UTC.
    pub unix_offset_ns: i64,
    /// The name of a thread, where it is known: a wait carries only the id of its waker.
    pub name_of: &'a dyn Fn(u32) -> Option<Comm>,
}

impl OutputFormat {
    /// What shows reports in this form. `keys` are the parts of the groups' keys, as `--by` takes them.
    pub fn reports(self, view: ReportView, keys: &[&'static str], style: Style) -> Box<dyn ReportRenderer> {
        match (self, view) {
            (Self::Human, ReportView::Chart) => Box::new(chart::Chart { style }),
            (Self::Human, ReportView::Table { sort, limit }) => Box::new(table::Table { style, sort, limit }),
            (Self::Json, view) => Box::new(json::JsonReports { view }),
            (Self::Csv, view) => Box::new(csv::CsvReports::new(keys, view)),
        }
    }

    /// What shows waits in this form.
    pub fn waits(self, style: Style) -> Box<dyn WaitRenderer> {
        match self {
            Self::Human => Box::new(trace::TraceTable::new(style)),
            Self::Json => Box::new(json::JsonLines),
            Self::Csv => Box::new(csv::CsvWaits),
        }
    }

    /// What shows waits and their parts in this form; `from` is where the latency of a wakeup begins.
    pub fn breakdowns(self, from: LatencyFrom, style: Style) -> Box<dyn BreakdownRenderer> {
        match self {
            Self::Human => Box::new(parts::BreakdownTable::new(from, style)),
            Self::Json => Box::new(json::JsonLines),
            Self::Csv => Box::new(csv::CsvBreakdowns),
        }
    }

    /// What shows the course of events in this form; people see a column for each of the CPUs in `map`.
    pub fn events(self, map: &[u32], style: Style) -> Box<dyn EventRenderer> {
        match self {
            Self::Human => Box::new(stays::SliceTable::new(map, style)),
            Self::Json => Box::new(json::JsonLines),
            Self::Csv => Box::new(csv::CsvEvents),
        }
    }
}

/// The line above a report that says when it was, where timestamps are asked for.
fn window(report: &Report, style: &Style, out: &mut String) {
    if style.timestamps {
        let start = clock::date(report.start_unix_ns, &style.zone);
        let duration = units::duration(report.duration_ns, style.unicode);
        TextLine::of(TextStyle::Title, start).and(TextStyle::Dim, format!("  for {duration}")).finish(style, out);
    }
}
