//! Everything that answers are made from.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{config::ServeSettings, session::clock::unix_offset_ns};
use bytes::Bytes;
use wakelat_core::{
    render::Style,
    report::Report,
    service::{
        capture_counts::CaptureCounts,
        export_counts::ExportCounts,
        metric_families::MetricsSnapshot,
        metrics_format::MetricsFormat,
        neighbours::NeighbourTable,
        node_pods::NodePods,
        pod_labels::{KubeletResult, PodLabelTable},
        recent::{RecentTotals, whole_slots},
        series::SeriesTable,
    },
    why::{
        counted::summary::{CountedCause, CountedSummary},
        render,
    },
};

/// Answers to `/why` that are kept until the next reading, for clients that ask for different times.
const KEPT_ANSWERS: usize = 4;

/// A smaller difference of two clocks is that of their readings: ns.
const LEAST_STEP_NS: i64 = 1_000_000;

/// How often vanished cgroups are looked for: seconds.
const VANISHED_EVERY_S: u64 = 60;

/// The totals of a service, for the thread that reads the kernel's tables and the one that answers requests.
#[derive(Clone)]
pub struct SharedTotals(Arc<Mutex<Totals>>);

impl SharedTotals {
    /// Nothing has been measured yet.
    pub fn new(settings: ServeSettings) -> Self {
        Self(Arc::new(Mutex::new(Totals::new(settings))))
    }

    /// Waits until the other thread does not use them.
    pub fn lock(&self) -> MutexGuard<'_, Totals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The totals of a service since it began.
pub struct Totals {
    began: Instant,
    settings: ServeSettings,
    series: SeriesTable,
    neighbours: NeighbourTable,
    recent: RecentTotals,
    /// Covers the same time as `series`; `None` before the first reading.
    report: Option<Report>,
    /// When the kernel's tables were last read: together with `report`.
    read_at: Option<Instant>,
    /// How far the wall clock was set, and the machine suspended, between the start and that reading: ns.
    clock_step_ns: i64,
    not_separated: Vec<CountedCause>,
    looked_for_vanished_at_s: u64,
    exports: Option<ExportCounts>,
    /// The captures, if there are conditions.
    captures: Option<CaptureCounts>,
    /// The names of pods, if the kubelet is asked for them.
    pods: Option<PodLabelTable>,
    /// The metrics of these totals in each format, once they have been requested.
    metrics: [Option<Bytes>; MetricsFormat::ALL.len()],
    /// As `metrics`, the causes since the start as JSON.
    document: Option<Bytes>,
    /// As `metrics`, answers to `/why` by their time (ns) and whether they are JSON, newest first.
    recent_answers: VecDeque<((u64, bool), Bytes)>,
}

impl Totals {
    fn new(settings: ServeSettings) -> Self {
        Self {
            began: Instant::now(),
            series: SeriesTable::new(settings.max_series),
            neighbours: NeighbourTable::default(),
            recent: RecentTotals::new(settings.max_series),
            report: None,
            read_at: None,
            clock_step_ns: 0,
            not_separated: Vec::new(),
            looked_for_vanished_at_s: 0,
            exports: None,
            captures: None,
            pods: settings.kubelet.is_some().then(PodLabelTable::default),
            settings,
            metrics: Default::default(),
            document: None,
            recent_answers: VecDeque::new(),
        }
    }

    /// Sets the causes that this kernel does not count.
    pub fn set_not_separated(&mut self, causes: Vec<CountedCause>) {
        self.not_separated = causes;
    }

    /// The current settings.
    pub fn settings(&self) -> &ServeSettings {
        &self.settings
    }

    /// Applies other settings. The series of cgroups that are not selected any more end; no counter goes back.
    pub fn apply(&mut self, settings: ServeSettings) {
        self.series.select(settings.max_series, |cgroup| settings.cgroups.selects(cgroup));
        self.recent.set_max_series(settings.max_series);
        self.forget_ended();
        self.settings = settings;
        (self.metrics, self.document) = Default::default();
    }

    /// Adds waits; [`Self::covered`] follows before the totals are unlocked. Cgroups that may not have series of their own
    /// are named in `recent` only: returns the waits without those names.
    pub fn add(&mut self, mut summary: CountedSummary) -> CountedSummary {
        let now_s = self.now_s();
        self.recent.add(&summary, now_s);
        for group in &mut summary.groups {
            group.name.take_if(|name| !self.settings.cgroups.selects(name));
        }
        self.series.add(&summary, now_s);
        self.neighbours.add(&summary.pairs, now_s, |cgroup| self.series.has(cgroup));
        if let Some(pods) = &mut self.pods {
            pods.add(self.series.series().map(|(cgroup, _)| cgroup));
        }
        summary
    }

    /// Whether the cgroup has series of its own.
    pub fn has_series(&self, cgroup: &str) -> bool {
        self.series.has(cgroup)
    }

    /// Forgets everything about cgroups whose series have ended.
    fn forget_ended(&mut self) {
        self.neighbours.retain(|cgroup| self.series.has(cgroup));
        if let Some(pods) = &mut self.pods {
            pods.retain(|cgroup| self.series.has(cgroup));
        }
    }

    /// Counts a request to the kubelet, and takes the pods of a successful one.
    pub fn kubelet_answered(&mut self, result: KubeletResult, pods: Option<NodePods>) {
        if let Some(table) = &mut self.pods {
            table.answered(result, pods);
        }
    }

    /// Whether a cgroup has appeared since the last call whose pod or container has no known name.
    pub fn take_new_unnamed(&mut self) -> bool {
        self.pods.as_mut().is_some_and(PodLabelTable::take_new_unnamed)
    }

    /// `report` covers everything since the start. Ends the series of cgroups that do not exist any more.
    pub fn covered(&mut self, report: &Report, exists: impl Fn(&str) -> bool) {
        let now_s = self.now_s();
        if now_s - self.looked_for_vanished_at_s >= VANISHED_EVERY_S {
            self.looked_for_vanished_at_s = now_s;
            self.series.end_vanished(now_s, exists);
            self.forget_ended();
        }
        self.recent.covered(report);
        self.neighbours.covered(report.duration_ns);
        self.report = Some(report.clone());
        let step_ns = unix_offset_ns().saturating_sub(report.unix_offset_ns);
        self.clock_step_ns = if step_ns.abs() < LEAST_STEP_NS { 0 } else { step_ns };
        self.read_at = Some(Instant::now());
        (self.metrics, self.document, self.recent_answers) = Default::default();
    }

    /// How long the service has measured until now, pauses included: ns.
    pub fn measured_until_now_ns(&self) -> u64 {
        let since = self.read_at.map_or(Duration::ZERO, |read_at| read_at.elapsed());
        let until_reading_ns = self.report.as_ref().map_or(0, |report| report.duration_ns);
        until_reading_ns + u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long ago the kernel's tables were last read: seconds; `None` before the first reading.
    ///
    /// Does not depend on `began` and the length of the report: the programs are loaded between the two, which takes
    /// many seconds on a busy machine.
    pub fn age_s(&self) -> Option<f64> {
        Some(self.read_at?.elapsed().as_secs_f64())
    }

    /// Sets what became of the exports to an OTLP receiver.
    pub fn set_exports(&mut self, exports: ExportCounts) {
        self.exports = Some(exports);
    }

    /// Series are exported from now on, and [`Self::exported`] follows each export.
    pub fn await_exports(&mut self) {
        self.series.await_exports();
    }

    /// These totals were exported.
    pub fn exported(&mut self) {
        self.series.exported();
    }

    /// Sets what became of the captures.
    pub fn set_captures(&mut self, captures: CaptureCounts) {
        self.captures = Some(captures);
    }

    /// All totals; `None` before the first reading.
    pub fn snapshot(&self) -> Option<MetricsSnapshot<'_>> {
        Some(MetricsSnapshot {
            series: &self.series,
            neighbours: &self.neighbours,
            report: self.report.as_ref()?,
            clock_step_ns: self.clock_step_ns,
            now_s: self.now_s(),
            version: env!("CARGO_PKG_VERSION"),
            labels: &self.settings.labels,
            exports: self.exports,
            pods: self.pods.as_ref(),
            captures: self.captures.as_ref(),
        })
    }

    /// The metrics; `None` before the first reading.
    pub fn metrics(&mut self, format: MetricsFormat) -> Option<Bytes> {
        let at = MetricsFormat::ALL.iter().position(|each| *each == format)?;
        if self.metrics[at].is_none() {
            self.metrics[at] = Some(format.render(&self.snapshot()?).into());
        }
        self.metrics[at].clone()
    }

    /// The causes since the start as JSON (`wakelat.why-causes/1`); `None` before the first reading.
    pub fn document(&mut self) -> Option<Bytes> {
        let report = self.report.as_ref()?;
        let render = || json(&self.series.summary(&self.not_separated), report);
        Some(self.document.get_or_insert_with(render).clone())
    }

    /// The causes of the last `last_ns`, rounded up to whole slots, as text or JSON; `None` before the first reading.
    pub fn recent(&mut self, last_ns: u64, as_json: bool) -> Option<Bytes> {
        let key = (whole_slots(last_ns), as_json);
        if let Some((_, answer)) = self.recent_answers.iter().find(|(kept, _)| *kept == key) {
            return Some(answer.clone());
        }
        let (summary, mut report) = self.recent.last(key.0, self.report.as_ref()?, &self.not_separated);
        // The slots follow the monotonic clock; the wall clock may have been set since the start.
        report.start_unix_ns = report.start_unix_ns.saturating_add_signed(self.clock_step_ns);
        report.unix_offset_ns = report.unix_offset_ns.saturating_add(self.clock_step_ns);
        let text = || render::counted_text(&summary, &report, "--max-series", &Style::default()).into();
        let answer: Bytes = if as_json { json(&summary, &report) } else { text() };
        self.recent_answers.truncate(KEPT_ANSWERS - 1);
        self.recent_answers.push_front((key, answer.clone()));
        Some(answer)
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use wakelat_core::why::counted::{CauseGroups, GroupTotal, summary::GroupCauses};

    use super::*;
    use crate::session::clock::monotonic_ns;

    const A_MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_time_that_the_programs_took_to_load_is_no_part_of_the_age_of_a_reading() {
        let mut totals = Totals::new(ServeSettings::default());
        totals.began -= A_MINUTE;
        assert_eq!(totals.age_s(), None);
        totals.covered(&Report::default(), |_| true);
        assert!(totals.age_s().unwrap() < A_MINUTE.as_secs_f64());
    }

    #[test]
    fn the_time_of_the_last_reading_follows_the_wall_clock() {
        let mut totals = Totals::new(ServeSettings::default());
        // The clock was set by an hour since the start.
        let unix_offset_ns = unix_offset_ns() - 3_600_000_000_000;
        let start_unix_ns = monotonic_ns().saturating_add_signed(unix_offset_ns);
        totals.covered(&Report { start_unix_ns, unix_offset_ns, ..Report::default() }, |_| true);
        let metrics = totals.metrics(MetricsFormat::Prometheus).unwrap();
        let metrics = std::str::from_utf8(&metrics).unwrap();
        let value =
            |name| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).unwrap();
        let (start_s, end_s) = (value("wakelat_start_time_seconds "), value("wakelat_last_read_time_seconds "));
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now_s - end_s).abs() < A_MINUTE.as_secs_f64(), "{end_s} at {now_s}");
        assert!((end_s - start_s - 3_600.0).abs() < A_MINUTE.as_secs_f64(), "{start_s} to {end_s}");
    }

    #[test]
    fn the_start_of_the_last_seconds_follows_the_wall_clock() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let mut totals = Totals::new(ServeSettings::default());
        // The clock was set by an hour since the start.
        let unix_offset_ns = unix_offset_ns() - HOUR_NS;
        totals.covered(&Report { start_unix_ns: 7, unix_offset_ns, ..Report::default() }, |_| true);
        let answer = totals.recent(30_000_000_000, true).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let start_unix_ns = document["start_unix_ns"].as_u64().unwrap();
        assert!(start_unix_ns.abs_diff(HOUR_NS.unsigned_abs()) < A_MINUTE.as_nanos() as u64, "{start_unix_ns}");
    }

    #[test]
    fn causes_name_the_flag_that_limits_their_groups() {
        let mut totals = Totals::new(ServeSettings { max_series: 1, ..ServeSettings::default() });
        let group =
            |name: &str| GroupCauses { name: Some(name.into()), total: GroupTotal::default(), causes: Vec::new() };
        totals.add(CountedSummary {
            by: CauseGroups::Cgroups,
            all: GroupTotal::default(),
            causes: Vec::new(),
            groups: ["/a", "/b", "/c"].map(group).into(),
            groups_merged: 0,
            groups_without_path: 0,
            pairs: Vec::new(),
            pairs_lost: 0,
            not_separated: Vec::new(),
        });
        totals.covered(&Report::default(), |_| true);
        let answer = totals.recent(5_000_000_000, false).unwrap();
        let text = std::str::from_utf8(&answer).unwrap();
        assert!(text.contains("2 groups merged into (other); `--max-series` has more"), "{text}");
    }

    #[test]
    fn a_reading_ages_until_the_next_one() {
        let mut totals = Totals::new(ServeSettings::default());
        totals.covered(&Report::default(), |_| true);
        totals.read_at = totals.read_at.map(|at| at - A_MINUTE);
        assert!(totals.age_s().unwrap() >= A_MINUTE.as_secs_f64());
        totals.covered(&Report::default(), |_| true);
        assert!(totals.age_s().unwrap() < A_MINUTE.as_secs_f64());
    }
}
