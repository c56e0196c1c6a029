//! Everything that answers are made from.

use std::time::Instant;

use bytes::Bytes;
use wakelat_core::{
    render::Style,
    report::Report,
    service::{
        export_counts::ExportCounts,
        metrics_text::{self, MetricsFormat, MetricsSnapshot},
        recent::RecentTotals,
        series::SeriesTable,
    },
    why::{
        counted::summary::{CountedCause, CountedSummary},
        render,
    },
};

/// How often vanished cgroups are looked for: seconds.
const VANISHED_EVERY_S: u64 = 60;

/// The totals of a service since it began.
pub struct Totals {
    began: Instant,
    series: SeriesTable,
    recent: RecentTotals,
    /// Covers the same time as `series`; `None` before the first second has passed.
    report: Option<Report>,
    not_separated: Vec<CountedCause>,
    looked_for_vanished_at_s: u64,
    exports: Option<ExportCounts>,
    /// The metrics of these totals in each format, once they have been requested.
    metrics: [Option<Bytes>; MetricsFormat::ALL.len()],
    /// As `metrics`, the causes since the start as JSON.
    document: Option<Bytes>,
}

impl Totals {
    /// Nothing has been measured yet.
    pub fn new(max_series: usize) -> Self {
        Self {
            began: Instant::now(),
            series: SeriesTable::new(max_series),
            recent: RecentTotals::new(max_series),
            report: None,
            not_separated: Vec::new(),
            looked_for_vanished_at_s: 0,
            exports: None,
            metrics: Default::default(),
            document: None,
        }
    }

    /// Sets the causes that this kernel does not count.
    pub fn set_not_separated(&mut self, causes: Vec<CountedCause>) {
        self.not_separated = causes;
    }

    /// Adds waits; [`Self::covered`] follows.
    pub fn add(&mut self, summary: &CountedSummary) {
        let now_s = self.now_s();
        self.series.add(summary, now_s);
        self.recent.add(summary, now_s);
    }

    /// `report` covers everything since the start. Ends the series of cgroups that do not exist any more.
    pub fn covered(&mut self, report: &Report, exists: impl Fn(&str) -> bool) {
        let now_s = self.now_s();
        if now_s - self.looked_for_vanished_at_s >= VANISHED_EVERY_S {
            self.looked_for_vanished_at_s = now_s;
            self.series.end_vanished(now_s, exists);
        }
        self.recent.covered(report);
        self.report = Some(report.clone());
        (self.metrics, self.document) = Default::default();
    }

    /// How long ago measuring began and was last read: seconds; `None` before the first second has passed.
    pub fn age_s(&self) -> Option<f64> {
        let report = self.report.as_ref()?;
        Some(self.began.elapsed().as_secs_f64() - report.duration_ns as f64 / 1e9)
    }

    /// Sets what became of the exports to an OTLP receiver.
    pub fn set_exports(&mut self, exports: ExportCounts) {
        self.exports = Some(exports);
    }

    /// All totals; `None` before the first second has passed.
    pub fn snapshot(&self) -> Option<MetricsSnapshot<'_>> {
        let version = env!("CARGO_PKG_VERSION");
        let (report, now_s) = (self.report.as_ref()?, self.now_s());
        Some(MetricsSnapshot { series: &self.series, report, now_s, version, exports: self.exports })
    }

    /// The metrics; `None` before the first second has passed.
    pub fn metrics(&mut self, format: MetricsFormat) -> Option<Bytes> {
        let (report, now_s) = (self.report.as_ref()?, self.now_s());
        let version = env!("CARGO_PKG_VERSION");
        let render = || {
            let snapshot = MetricsSnapshot { series: &self.series, report, now_s, version, exports: self.exports };
            metrics_text::render(&snapshot, format).into()
        };
        let at = MetricsFormat::ALL.iter().position(|each| *each == format)?;
        Some(self.metrics[at].get_or_insert_with(render).clone())
    }

    /// The causes since the start as JSON (`wakelat.why-causes/1`); `None` before the first second has passed.
    pub fn document(&mut self) -> Option<Bytes> {
        let report = self.report.as_ref()?;
        let render = || json(&self.series.summary(&self.not_separated), report);
        Some(self.document.get_or_insert_with(render).clone())
    }

    /// The causes of the last `last_ns` as text or JSON; `None` before the first second has passed.
    pub fn recent(&self, last_ns: u64, as_json: bool) -> Option<Bytes> {
        let (summary, report) = self.recent.last(last_ns, self.report.as_ref()?, &self.not_separated);
        let text = || render::counted_text(&summary, &report, &Style::default()).into();
        Some(if as_json { json(&summary, &report) } else { text() })
    }

    fn now_s(&self) -> u64 {
        self.began.elapsed().as_secs()
    }
}

/// A line of JSON. Writing to memory does not fail.
fn json(summary: &CountedSummary, report: &Report) -> Bytes {
    let mut out = Vec::new();
    _ = render::counted_json(summary, report, &mut out);
    out.into()
}
