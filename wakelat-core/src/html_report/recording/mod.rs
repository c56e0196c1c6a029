//! The page of a recording: findings, distribution, latency and causes over time, groups, the longest waits with their
//! timelines, and whether all of this can be trusted.

mod listed_waits;
mod name_table;
mod over_time;
mod stacks;
mod time_lines;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;
use wakelat_common::Class;

use self::{
    listed_waits::{ListedWaits, WaitKey, WaitRow},
    name_table::NameTable,
    over_time::OverTime,
    stacks::StackRow,
    time_lines::TimeLine,
};
use super::{HtmlSource, page::HtmlPage};
use crate::{
    aggregate::{Groups, key::Names},
    hash::HashMap,
    render::{ReportRenderer as _, ReportView, Style, coverage, json::JsonReports, timestamps},
    report::Report,
    timeline::Breakdown,
    why::{self, Summary, worst::Exemplar},
};

/// Number of the longest waits that have a timeline.
pub const TIME_LINES: usize = 50;

const PAGE: HtmlPage = HtmlPage {
    title: "wakelat report",
    heading: "How long tasks waited for a CPU",
    sections: &[
        ("findings", "Findings"),
        ("distribution", "Distribution of latency"),
        ("over-time", "Latency over time"),
        ("causes", "Causes over time"),
        ("groups", "Groups"),
        ("culprits", "Who made others wait"),
        ("waits", "Waits"),
        ("trust", "Can this be trusted?"),
    ],
    script: concat!(include_str!("flame_graph.js"), include_str!("recording.js")),
};

/// What the page shows of each wait.
#[derive(Debug)]
pub struct HtmlReport {
    merged: bool,
    /// The waits by class, however the report groups them.
    distributions: Groups,
    over_time: OverTime,
    listed: ListedWaits,
    /// The waiting time of each folded stack: ns. Empty without stacks.
    stacks: BTreeMap<String, u128>,
}

/// The figures of the page that are in no JSON document of `hist` or `why`.
#[derive(Serialize)]
struct PageDocument<'a> {
    version: &'static str,
    start_unix_ns: u64,
    interval_ns: u64,
    /// Number of intervals, from the start on.
    intervals: u64,
    /// For each interval and each power of two that latencies lie above: interval, exponent and number of waits.
    cells: Vec<(usize, u32, u64)>,
    /// The waiting time of each component, per interval.
    components: Vec<ComponentDocument>,
    class_names: Vec<&'static str>,
    names: Vec<String>,
    /// The longest waits, and the longest of each group.
    waits: Vec<WaitRow>,
    waits_left_out: u64,
    time_lines: Vec<TimeLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<StackRow>,
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

impl HtmlReport {
    /// No waits yet. `merged` puts all classes into one.
    pub fn new(merged: bool) -> Self {
        let distributions = Groups::new(Vec::new(), merged, Class::ALL.len());
        Self {
            merged,
            distributions,
            over_time: OverTime::default(),
            listed: ListedWaits::default(),
            stacks: BTreeMap::new(),
        }
    }

    /// Adds a wait. `unix_offset_ns`: from its clock to 1970-01-01 UTC.
    pub fn add(&mut self, breakdown: &Breakdown, unix_offset_ns: i64) {
        let ended_unix_ns = timestamps::unix_ns(breakdown.ended_wait.wait.at_ns, unix_offset_ns);
        self.distributions.record(&breakdown.ended_wait.wait);
        self.over_time.add(breakdown, ended_unix_ns);
        self.listed.add(breakdown, ended_unix_ns);
    }

    /// Sets the waiting time of each folded stack: ns.
    pub fn set_stacks(&mut self, folded: BTreeMap<String, u128>) {
        self.stacks = folded;
    }

    /// Forgets all waits so far: the warm-up has ended.
    pub fn start_window(&mut self) {
        *self = Self::new(self.merged);
    }

    /// Writes the page of the waits that were added. `summary` and `report`, whose groups do not matter, are of the same
    /// window; `names` has the cgroups.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(
        &mut self,
        mut summary: Summary,
        report: &Report,
        sources: &[HtmlSource],
        names: &dyn Names,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (mut hist, mut causes, mut below) = (Vec::new(), Vec::new(), Vec::new());
        let report = &Report { groups: self.distributions.report(names, None), ..report.clone() };
        JsonReports { view: ReportView::Chart }.report(report, &mut hist)?;
        let (listed, exemplars) = self.with_exemplars(&mut summary, report);
        let rows: HashMap<&WaitKey, usize> = listed.keys().enumerate().map(|(row, key)| (key, row)).collect();
        let mut table = NameTable::default();
        let mut time_lines = Vec::new();
        for Exemplar { breakdown, .. } in &exemplars {
            let row = rows.get(&listed_waits::key(breakdown));
            time_lines.extend(row.map(|row| TimeLine::new(*row, breakdown, &summary.own_pids, names, &mut table)));
        }
        let waits = listed.rows(report.start_unix_ns, &summary.own_pids, names, &mut table);
        why::render::json(&summary, report, &mut causes)?;
        let style = Style { unicode: true, ..Style::default() };
        coverage::write(report, &style, &mut below)?;
        let start_unix_ns = report.start_unix_ns;
        // The length of several recordings is the sum of theirs, which can be at any time.
        let length_ns = if sources.len() > 1 { 0 } else { report.duration_ns };
        let intervals = self.over_time.cover(start_unix_ns, start_unix_ns.saturating_add(length_ns));
        let page = PageDocument {
            version: env!("CARGO_PKG_VERSION"),
            start_unix_ns,
            interval_ns: self.over_time.interval_ns(),
            intervals,
            cells: self.over_time.cells(start_unix_ns),
            components: self.over_time.components(start_unix_ns),
            class_names: Class::ALL.map(Class::name).to_vec(),
            waits,
            waits_left_out: listed.left_out(),
            time_lines,
            stacks: stacks::rows(&self.stacks, &mut table),
            names: table.into_names(),
            coverage: String::from_utf8_lossy(&below).lines().map(|line| line.trim().to_owned()).collect(),
            sources,
        };
        let page = serde_json::to_string(&page)?;
        let [hist, causes] = [hist, causes].map(|json| String::from_utf8_lossy(&json).trim().to_owned());
        let data = format!("{{\"page\":{page},\"hist\":{hist},\"why\":{causes}}}");
        PAGE.write(&data, out)
    }

    /// The waits that the page lists, and the ones with timelines, taken out of `summary`: the longest of all, and the
    /// longest of each group.
    fn with_exemplars(&self, summary: &mut Summary, report: &Report) -> (ListedWaits, Vec<Exemplar>) {
        let mut exemplars = std::mem::take(&mut summary.worst);
        for group in &mut summary.groups {
            let longest = std::mem::take(&mut group.worst).into_iter().next();
            let is_new = |one: &Exemplar| {
                exemplars.iter().all(|other| listed_waits::key(&other.breakdown) != listed_waits::key(&one.breakdown))
            };
            if let Some(longest) = longest.filter(is_new) {
                exemplars.push(longest);
            }
        }
        let mut listed = self.listed.clone();
        for Exemplar { breakdown, .. } in &exemplars {
            let at_ns = breakdown.ended_wait.wait.at_ns;
            listed.include(breakdown, timestamps::unix_ns(at_ns, report.unix_offset_ns));
        }
        (listed, exemplars)
    }
}
