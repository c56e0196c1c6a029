//! Renders reports, waits and scheduling events for people and for programs.
//!
//! A renderer takes a [`Report`], or one [`Wait`] after another, and writes to the given output. It reads
//! no clock and does no other I/O, so that the same report always looks the same. It writes each report and
//! each line with a single call. Every renderer shows the coverage, because figures must not be shown
//! without it. Only waits in CSV cannot include it; there the caller writes it elsewhere
//! ([`coverage::write`]).
//!
//! To add a renderer, add a file to this directory with an `impl` of [`ReportRenderer`], [`WaitRenderer`],
//! [`BreakdownRenderer`] or [`EventRenderer`], and return it from the methods of [`OutputFormat`].

use std::io::{self, Write};

use crate::{
    aggregate::{key::Names, percentile_rank::Percentile},
    report::{Group, LatencyFrom, Report},
    timeline::{Breakdown, timehist::SchedLine as Event},
    wait::Wait,
};

pub mod breakdown_table;
pub mod chart;
pub mod columns;
pub mod coverage;
pub mod csv;
pub mod json;
pub mod octave_bins;
pub mod screen;
pub mod share_table;
pub mod style;
pub mod timehist_table;
pub mod timeline;
pub mod top_table;
pub mod trace_table;
pub mod units;

mod chart_rows;
pub(crate) mod coverage_document;
mod event_document;
pub(crate) mod key_document;
pub mod labels;
mod measured_time;
mod no_waits;
pub(crate) mod queued_coverage;
pub(crate) mod queued_coverage_document;
pub(crate) mod report_document;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
pub(crate) mod schema_values;
pub mod text_line;
pub(crate) mod timestamps;
mod wait_document;

#[cfg(test)]
mod documentation_tests;
#[cfg(any(test, feature = "testing"))]
pub mod output_md;
#[cfg(test)]
mod property_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use style::Style;

use style::TextStyle;
use text_line::TextLine;

/// The percentiles that every renderer shows, and their names for people.
pub const PERCENTILES: [(Percentile, &str); 4] =
    [(Percentile::P50, "p50"), (Percentile::P90, "p90"), (Percentile::P99, "p99"), (Percentile::P99_9, "p99.9")];

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people: charts, tables, columns.
    #[default]
    Human,
    /// NDJSON: one JSON document on each line.
    Json,
    /// Comma-separated values, after a line with the names of the columns.
    Csv,
}

/// What to show of a report. JSON and CSV have all fields of a group in either view.
#[derive(Clone, Copy, Debug)]
pub enum ReportView {
    /// `hist`: a chart for each group.
    Chart,
    /// `top`: a line for each group, up to a limit.
    Table {
        /// The column to sort by.
        sort: top_table::Sort,
        /// Maximum number of groups to show, or `None` for all.
        limit: Option<usize>,
    },
}

impl ReportView {
    /// The groups of a report to show, in display order.
    pub fn groups<'a>(&self, report: &'a Report, style: &Style) -> Vec<&'a Group> {
        let mut groups: Vec<&Group> = report.groups.iter().collect();
        if let Self::Table { sort, limit } = self {
            top_table::order(&mut groups, *sort, style);
            groups.truncate(limit.unwrap_or(usize::MAX));
        }
        groups
    }
}

/// Renders reports, one after another.
pub trait ReportRenderer {
    /// Writes the headings above the first report.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a report.
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// Renders waits, one after another, and the report at the end.
pub trait WaitRenderer {
    /// Writes the headings above the first wait.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a wait.
    fn wait(&mut self, wait: &Wait, context: &RenderContext, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the coverage of the whole run. CSV cannot include it and writes nothing.
    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// Renders waits with the components of their latencies, one after another, and the report at the end.
pub trait BreakdownRenderer {
    /// Writes the headings above the first wait.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes a wait and the components of its latency.
    fn breakdown(&mut self, breakdown: &Breakdown, context: &RenderContext, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the coverage of the whole run. CSV cannot include it and writes nothing.
    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// Renders the scheduling events of all CPUs, one after another, and the report at the end.
pub trait EventRenderer {
    /// Writes the headings above the first event.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes an event.
    fn event(&mut self, event: &Event, context: &RenderContext, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the coverage of the whole run. CSV cannot include it and writes nothing.
    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// What a renderer has to know besides the wait or event itself.
pub struct RenderContext<'a> {
    /// Offset to add to CLOCK_MONOTONIC to get ns since 1970-01-01 UTC.
    pub unix_offset_ns: i64,
    /// The names of threads. A wait has only the TID of its waker.
    pub names: &'a dyn Names,
}

impl OutputFormat {
    /// Creates a renderer for reports. `keys` are the names of the parts of a group's key, as in `--by`.
    pub fn reports(self, view: ReportView, keys: &[&'static str], style: Style) -> Box<dyn ReportRenderer> {
        match (self, view) {
            (Self::Human, ReportView::Chart) => Box::new(chart::Chart { style }),
            (Self::Human, ReportView::Table { sort, limit }) => Box::new(top_table::Table { style, sort, limit }),
            (Self::Json, view) => Box::new(json::JsonReports { view }),
            (Self::Csv, view) => Box::new(csv::CsvReports::new(keys, view, style.files.are_several())),
        }
    }

    /// Creates a renderer for waits.
    pub fn waits(self, style: Style) -> Box<dyn WaitRenderer> {
        match self {
            Self::Human => Box::new(trace_table::TraceTable::new(style)),
            Self::Json => Box::new(json::JsonLines),
            Self::Csv => Box::new(csv::CsvWaits { has_file: style.files.are_several() }),
        }
    }

    /// Creates a renderer for waits with their components. `from` is the event at which the latency of a
    /// wakeup begins.
    pub fn breakdowns(self, from: LatencyFrom, style: Style) -> Box<dyn BreakdownRenderer> {
        match self {
            Self::Human => Box::new(breakdown_table::BreakdownTable::new(from, style)),
            Self::Json => Box::new(json::JsonLines),
            Self::Csv => Box::new(csv::CsvBreakdowns { has_file: style.files.are_several() }),
        }
    }

    /// Creates a renderer for scheduling events. For people, it shows a column for each of the CPUs in
    /// `map`.
    pub fn events(self, map: &[u32], style: Style) -> Box<dyn EventRenderer> {
        match self {
            Self::Human => Box::new(timehist_table::SliceTable::new(map, style)),
            Self::Json => Box::new(json::JsonLines),
            Self::Csv => Box::new(csv::CsvEvents { has_file: style.files.are_several() }),
        }
    }
}

/// Appends the line above a report with its start time and duration, if timestamps were requested.
pub(crate) fn window(report: &Report, style: &Style, out: &mut String) {
    if style.timestamps {
        let start = timestamps::date(report.start_unix_ns, &style.zone);
        let duration = units::duration(report.duration_ns, style.unicode);
        TextLine::of(TextStyle::Title, start).and(TextStyle::Dim, format!("  for {duration}")).finish(style, out);
    }
}
