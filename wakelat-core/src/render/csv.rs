//! Renders `--csv`: a row for each group, wait or event. docs/output.md describes the columns.

use std::io::{self, Write};

use csv::{Writer, WriterBuilder};

use super::{
    BreakdownRenderer, EventRenderer, PERCENTILES, RenderContext, ReportRenderer, ReportView, Style, WaitRenderer,
    coverage_document::terms,
    event_document::EventFields,
    queued_coverage_document, timestamps,
    wait_document::{WaitFields, component_fields},
};
use crate::{
    aggregate::distribution::Distribution,
    files::{own_number, own_tid},
    report::{CoverageTerms, Group, Report, Sampling, SwitchInTerms},
    timeline::{Breakdown, component::Component, timehist::SchedLine as Event},
    wait::Wait,
};

/// Renders groups as rows. All windows have the same columns, even if nothing was seen.
pub struct CsvReports {
    keys: Vec<&'static str>,
    view: ReportView,
    has_file: bool,
}

/// Renders waits as rows.
pub struct CsvWaits {
    /// Whether there is a column for the recording.
    pub has_file: bool,
}

/// Renders waits and the components of their latencies as rows.
pub struct CsvBreakdowns {
    /// Whether there is a column for the recording.
    pub has_file: bool,
}

/// Renders scheduling events as rows.
pub struct CsvEvents {
    /// Whether there is a column for the recording.
    pub has_file: bool,
}

/// The columns of a wait.
pub const WAIT_COLUMNS: [&str; 19] = [
    "at_ns",
    "at_unix_ns",
    "class",
    "latency_ns",
    "delivery_ns",
    "tid",
    "pid",
    "comm",
    "cgroup_id",
    "prio",
    "policy",
    "policy_name",
    "cpu",
    "prev_cpu",
    "waker_tid",
    "waker_comm",
    "prev_tid",
    "prev_comm",
    "prev_prio",
];

/// The columns of a scheduling event.
pub const EVENT_COLUMNS: [&str; 27] = [
    "event",
    "at_ns",
    "at_unix_ns",
    "cpu",
    "tid",
    "pid",
    "comm",
    "cgroup_id",
    "prio",
    "policy",
    "policy_name",
    "off_cpu_ns",
    "class",
    "latency_ns",
    "delivery_ns",
    "run_ns",
    "prev_state",
    "next_tid",
    "next_comm",
    "waker_tid",
    "waker_comm",
    "running",
    "from_cpu",
    "to_cpu",
    "waits",
    "switched_in_tid",
    "events",
];

/// The columns of a wait and the components of its latency.
pub fn breakdown_columns(has_file: bool) -> Vec<String> {
    let components = Component::ALL.map(|component| format!("{}_ns", component.name()));
    with_file(&WAIT_COLUMNS, has_file).map(str::to_owned).chain(components).collect()
}

/// These columns, and that for the recording, if there is one.
fn with_file(columns: &[&'static str], has_file: bool) -> impl Iterator<Item = &'static str> {
    columns.iter().copied().chain(has_file.then_some("file"))
}

impl CsvReports {
    /// Creates a renderer for the groups that `view` shows, with a column for each of `keys`.
    /// `has_file`: with a column for the recording of the longest wait.
    pub fn new(keys: &[&'static str], view: ReportView, has_file: bool) -> Self {
        Self { keys: keys.to_vec(), view, has_file }
    }

    /// The names of all columns.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = ["kernel", "start_unix_ns", "duration_ns", "from"].map(str::to_owned).into();
        columns.extend(self.keys.iter().map(|key| (*key).to_owned()));
        columns.extend(["class", "count", "sum_ns", "avg_ns", "min_ns"].map(str::to_owned));
        columns.extend(PERCENTILES.iter().map(|(_, name)| format!("{}_ns", name.replace('.', "_"))));
        columns.extend(["max_ns", "max_at_unix_ns", "max_tid", "max_comm", "max_cpu"].map(str::to_owned));
        columns.extend(["threshold_ns", "over"].map(str::to_owned));
        let names = || terms(&CoverageTerms::default()).map(|(name, _)| name);
        columns.extend(names().map(str::to_owned));
        columns.extend(["missed", "events_lost"].map(str::to_owned));
        columns.extend(names().map(|name| format!("preemptions_{name}")));
        columns.extend(["groups_merged", "groups_left_out", "overhead_cpus", "overhead_tool_ns"].map(str::to_owned));
        columns.extend(["overhead_programs_ns", "overhead_switches"].map(str::to_owned));
        columns.extend(["limit_ppm", "one_in_least", "one_in_most", "measured_ns"].map(str::to_owned));
        columns.extend(PERCENTILES.iter().flat_map(|(_, name)| {
            let name = name.replace('.', "_");
            [format!("{name}_low_ns"), format!("{name}_high_ns")]
        }));
        columns.extend(["requested_ns", "skipped_intervals", "reader_waited_ns", "not_written"].map(str::to_owned));
        columns.push("run_ns".to_owned());
        columns.extend(
            queued_coverage_document::terms(&SwitchInTerms::default()).map(|(name, _)| format!("switch_ins_{name}")),
        );
        columns.push("missing_end_at_byte".to_owned());
        columns.extend(self.has_file.then(|| "max_file".to_owned()));
        columns
    }

    /// The cells of a group, or of a window without groups.
    fn cells(&self, group: Option<&Group>, left_out: usize, report: &Report) -> Vec<String> {
        let optional = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let coverage = &report.coverage;
        let mut cells = vec![
            report.kernel.clone(),
            report.start_unix_ns.to_string(),
            report.duration_ns.to_string(),
            report.from.name().to_owned(),
        ];
        let value = |key: &&str| group?.key.iter().find(|part| part.name == *key).map(|part| part.value.to_string());
        cells.extend(self.keys.iter().map(|key| value(key).unwrap_or_default()));
        cells.push(group.map(|group| group.class.name().to_owned()).unwrap_or_default());
        let distribution = group.map(|group| &*group.distribution);
        cells.push(distribution.map_or(0, Distribution::count).to_string());
        cells.push(distribution.map_or(0, Distribution::sum_ns).to_string());
        cells.push(optional(distribution.map(Distribution::avg_ns)));
        cells.push(optional(distribution.map(Distribution::min_ns)));
        cells.extend(
            PERCENTILES.iter().map(|(percent, _)| optional(distribution.map(|all| all.percentile_ns(*percent)))),
        );
        let max = distribution.and_then(Distribution::max);
        cells.push(optional(distribution.map(Distribution::max_ns)));
        cells.push(optional(max.map(|max| timestamps::unix_ns(max.at_ns, report.unix_offset_ns))));
        cells.push(optional(max.map(|max| u64::from(own_tid(max.tid)))));
        cells.push(max.map(|max| max.comm.to_string()).unwrap_or_default());
        cells.push(optional(max.map(|max| u64::from(own_number(max.cpu)))));
        cells.push(optional(report.threshold.as_ref().map(|threshold| threshold.threshold_ns)));
        cells.push(optional(report.threshold.as_ref().map(|threshold| threshold.over)));
        cells.extend(terms(&coverage.wakeups).map(|(_, value)| value.to_string()));
        cells.extend([coverage.missed, coverage.events_lost].map(optional));
        let preemptions = coverage.preemptions.unwrap_or_default();
        let has_preemptions = coverage.preemptions.is_some();
        cells.extend(terms(&preemptions).map(|(_, value)| optional(has_preemptions.then_some(value))));
        cells.extend([coverage.groups_merged.to_string(), left_out.to_string()]);
        let programs = report.overhead.map(|overhead| overhead.programs);
        cells.push(optional(report.overhead.map(|overhead| overhead.cpus.into())));
        cells.push(optional(report.overhead.map(|overhead| overhead.tool_ns)));
        cells.push(optional(programs.map(|programs| programs.ns)));
        cells.push(optional(programs.map(|programs| programs.switches)));
        let sampling = |field: fn(Sampling) -> u64| optional(report.sampling.map(field));
        cells.push(sampling(|sampling| sampling.limit_ppm.into()));
        cells.push(sampling(|sampling| sampling.one_in_least.into()));
        cells.push(sampling(|sampling| sampling.one_in_most.into()));
        cells.push(sampling(|sampling| sampling.measured_ns));
        let sampled = distribution.and_then(Distribution::sampled);
        for (percent, _) in PERCENTILES {
            let interval = sampled.and_then(|sampled| sampled.interval(percent));
            cells.push(optional(interval.map(|interval| interval.low_ns)));
            cells.push(optional(interval.and_then(|interval| interval.high_ns)));
        }
        cells.extend([optional(report.requested_ns), report.skipped_intervals.to_string()]);
        cells.extend([optional(report.reader_waited_ns), report.not_written.to_string()]);
        cells.push(optional(group.and_then(|group| group.run_ns)));
        let has_switch_ins = coverage.switch_ins.is_some();
        let values = queued_coverage_document::terms(&coverage.switch_ins.unwrap_or_default());
        cells.extend(values.map(|(_, value)| optional(value.filter(|_| has_switch_ins))));
        cells.push(optional(coverage.missing_ends.first().map(|missing| missing.at)));
        let max_file = max.and_then(|max| report.files.of_tid(max.tid)).unwrap_or_default();
        cells.extend(self.has_file.then(|| max_file.to_owned()));
        cells
    }
}

impl ReportRenderer for CsvReports {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| writer.write_record(self.columns()))
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| {
            if report.groups.is_empty() {
                return writer.write_record(self.cells(None, 0, report));
            }
            let groups = self.view.groups(report, &Style::default());
            let left_out = report.groups.len() - groups.len();
            groups.iter().try_for_each(|group| writer.write_record(self.cells(Some(group), left_out, report)))
        })
    }
}

impl WaitRenderer for CsvWaits {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| writer.write_record(with_file(&WAIT_COLUMNS, self.has_file)))
    }

    fn wait(&mut self, wait: &Wait, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| writer.serialize(WaitFields::new(wait, context)))
    }

    fn end(&mut self, _report: &Report, _out: &mut dyn Write) -> io::Result<()> {
        // A row with other columns among the waits would break programs that read them.
        Ok(())
    }
}

impl BreakdownRenderer for CsvBreakdowns {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| writer.write_record(breakdown_columns(self.has_file)))
    }

    fn breakdown(&mut self, breakdown: &Breakdown, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        let wait = WaitFields::new(&breakdown.ended_wait.wait, context);
        rows(out, |writer| writer.serialize((wait, component_fields(breakdown))))
    }

    fn end(&mut self, _report: &Report, _out: &mut dyn Write) -> io::Result<()> {
        // A row with other columns among the waits would break programs that read them.
        Ok(())
    }
}

impl EventRenderer for CsvEvents {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| writer.write_record(with_file(&EVENT_COLUMNS, self.has_file)))
    }

    fn event(&mut self, event: &Event, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        rows(out, |writer| writer.serialize(EventFields::new(event, context)))
    }

    fn end(&mut self, _report: &Report, _out: &mut dyn Write) -> io::Result<()> {
        // A row with other columns among the events would break programs that read them.
        Ok(())
    }
}

/// Writes rows with a single call of `write_all`. Goes through a buffer because the csv crate hides the
/// kind of an error of `out`, and the caller has to distinguish a closed pipe from a full disk.
fn rows(out: &mut dyn Write, write: impl FnOnce(&mut Writer<&mut Vec<u8>>) -> csv::Result<()>) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut writer = WriterBuilder::new().has_headers(false).from_writer(&mut buffer);
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    out.write_all(&buffer)
}
