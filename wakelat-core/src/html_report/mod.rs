//! A recording as one HTML file that needs nothing else: findings, distribution, latency and causes over time, groups,
//! the longest waits with their time lines, and whether all of this can be trusted. Pure.
//!
//! The page is a template with the figures as JSON, from which its script makes tables and SVG. Names of tasks are only
//! ever set as text.

mod listed_waits;
mod over_time;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use serde::Serialize;
use wakelat_common::Class;

use self::{listed_waits::ListedWaits, over_time::OverTime};
use crate::{
    aggregate::key::Names,
    recording::Header,
    render::{ReportRenderer as _, ReportView, Style, coverage, json::JsonReports},
    report::Report,
    timeline::Breakdown,
    why::{self, Summary},
};

/// Number of the longest waits that have a time line.
pub const TIME_LINES: usize = 50;

const PAGE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// What the page shows of each wait.
#[derive(Debug, Default)]
pub struct HtmlReport {
    over_time: OverTime,
    listed: ListedWaits,
}

/// Where the waits come from.
#[derive(Clone, Debug, Serialize)]
pub struct HtmlSource {
    /// The file of the recording; none for a measurement.
    file: Option<String>,
    machine: String,
    command_line: String,
    labels: String,
    /// Why the last part of a run was written, if it is one.
    trigger: Option<String>,
}

/// The figures of the page that are not those of a JSON document of `hist` or `why`.
#[derive(Serialize)]
struct PageDocument<'a> {
    version: &'static str,
    start_unix_ns: u64,
    interval_ns: u64,
    /// For each interval and each power of two that latencies lie above: interval, exponent and number of waits.
    cells: Vec<(usize, u32, u64)>,
    /// The waiting time of each component, per interval.
    components: Vec<ComponentDocument>,
    class_names: Vec<&'static str>,
    #[serde(flatten)]
    waits: listed_waits::WaitsDocument<'a>,
    coverage: Vec<String>,
    sources: &'a [HtmlSource],
}

#[derive(Serialize)]
struct ComponentDocument {
    /// As in `why --json`.
    id: &'static str,
    /// As the text views name it.
    name: &'static str,
    ns: Vec<u64>,
}

impl HtmlSource {
    /// The recording with this header, in `file`, or the measurement that has the header.
    pub fn new(file: Option<String>, header: &Header) -> Self {
        let labels: Vec<_> = header.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self {
            file,
            machine: header.machine.to_string(),
            command_line: header.command_line.join(" "),
            labels: labels.join(" "),
            trigger: header.trigger.clone(),
        }
    }
}

impl HtmlReport {
    /// Adds a wait. `unix_offset_ns`: from its clock to 1970-01-01 UTC.
    pub fn add(&mut self, breakdown: &Breakdown, unix_offset_ns: i64, names: &dyn Names) {
        let ended_unix_ns = breakdown.ended_wait.wait.at_ns.saturating_add_signed(unix_offset_ns);
        self.over_time.add(breakdown, ended_unix_ns);
        self.listed.add(breakdown, ended_unix_ns, names);
    }

    /// Forgets all waits: those of a warm-up.
    pub fn start_window(&mut self) {
        *self = Self::default();
    }

    /// Writes the page of the waits that were added: `summary` and `report` are those of the same window.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(
        &self,
        mut summary: Summary,
        report: &Report,
        sources: &[HtmlSource],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (mut hist, mut causes, mut below) = (Vec::new(), Vec::new(), Vec::new());
        JsonReports { view: ReportView::Chart }.report(report, &mut hist)?;
        // Of a group, the longest wait has a time line besides those that are among the longest of all.
        summary.groups.iter_mut().for_each(|group| group.worst.truncate(1));
        why::render::json(&summary, report, &mut causes)?;
        let style = Style { unicode: true, ..Style::default() };
        coverage::write(report, &style, &mut below)?;
        let start_unix_ns = report.start_unix_ns;
        let page = PageDocument {
            version: env!("CARGO_PKG_VERSION"),
            start_unix_ns,
            interval_ns: self.over_time.interval_ns(),
            cells: self.over_time.cells(start_unix_ns),
            components: self.over_time.components(start_unix_ns),
            class_names: Class::ALL.map(Class::name).to_vec(),
            waits: self.listed.document(start_unix_ns),
            coverage: String::from_utf8_lossy(&below).lines().map(|line| line.trim().to_owned()).collect(),
            sources,
        };
        let page = serde_json::to_string(&page)?;
        let [hist, causes] = [hist, causes].map(|json| String::from_utf8_lossy(&json).trim().to_owned());
        let data = format!("{{\"page\":{page},\"hist\":{hist},\"why\":{causes}}}");
        // No part of a string may end the element that contains it.
        let data = data.replace('<', "\\u003c");
        let mut rest = PAGE;
        for (place, text) in [("{style}", STYLE), ("{data}", &data), ("{script}", SCRIPT)] {
            let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
            out.write_all(before.as_bytes())?;
            out.write_all(text.as_bytes())?;
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }
}
