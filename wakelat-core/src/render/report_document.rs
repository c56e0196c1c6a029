//! The JSON document of a report.
//!
//! Within one version of a schema (the number at the end of its name), fields may be added, but none is
//! removed or changes its meaning.

use serde::Serialize;

use super::{PERCENTILES, RenderContext, coverage_document::CoverageDocument, timestamps, wait_document::WaitFields};
use crate::{
    aggregate::{
        distribution::{Bucket, Maximum},
        estimate::ConfidenceInterval,
        key::Names,
        percentile_rank::Percentile,
    },
    files::{FileName, Files, own_number, own_tid},
    report::{Group, KeyPart, Mode, Overhead, Report, Sampling},
    wait::Comm,
};

/// `wakelat.report/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportDocument<'a> {
    /// `wakelat.report/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.report/1")))]
    schema: &'static str,
    /// Kernel release, as printed by `uname -r`.
    kernel: &'a str,
    /// Start of the window.
    start_unix_ns: u64,
    /// Length of the window; an event at its end or later is not counted.
    duration_ns: u64,
    #[serde(flatten)]
    window: WindowDocument,
    /// Where the latency of a wakeup starts: `wakeup` (`sched_wakeup`: the task is on a run queue) or `waking`
    /// (`sched_waking`: wake delivery is part of the latency).
    #[cfg_attr(test, schemars(extend("enum" = latency_starts())))]
    from: &'static str,
    /// Where waits are counted: `aggregate` (in the kernel) or `samples` (in user space, from a sample of each
    /// wait).
    #[cfg_attr(test, schemars(extend("enum" = [mode_name(Mode::Aggregate), mode_name(Mode::Samples)])))]
    mode: &'static str,
    /// The waits by key and class, ordered by class and then by falling count; for `top` by the column of `--sort`.
    /// Empty if there was no wait.
    groups: Vec<GroupDocument<'a>>,
    /// Number of further groups, beyond `top --limit`; 0 without a limit.
    groups_left_out: u64,
    /// What became of every wait. The terms from `seen` to `still_waiting` are about wakeups: classes `wakeup` and
    /// `new`.
    coverage: CoverageDocument,
    /// The recordings of the report, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileDocument<'a>>,
    /// Result of `--threshold`; `null` without it.
    threshold: Option<ThresholdDocument>,
    /// Cost of measuring in this window; `null` if it was not measured.
    overhead: Option<OverheadDocument>,
    /// Sampling under `--max-overhead`; `null` without it.
    sampling: Option<SamplingDocument>,
}

/// How the window was measured.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WindowDocument {
    /// Requested length; `null` if no length was requested, for the tables of `top` before its end, and if a signal
    /// or a threshold ended the run.
    requested_ns: Option<u64>,
    /// Intervals without a report of their own that this window includes: they ended before wakelat could report
    /// them, or while the output was blocked.
    skipped_intervals: u64,
    /// How long wakelat's reader waited for a CPU in this window; `null` if the kernel does not account for it.
    reader_waited_ns: Option<u64>,
    /// Waits (`trace`) or events (`trace --all`, `trace --breakdown`, `record`) left out because the output was
    /// blocked.
    not_written: u64,
}

impl WindowDocument {
    pub fn new(report: &Report) -> Self {
        let Report { requested_ns, skipped_intervals, reader_waited_ns, not_written, .. } = *report;
        Self { requested_ns, skipped_intervals, reader_waited_ns, not_written }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupDocument<'a> {
    /// What the waits of the group have in common: one field for each key of `--by`, with numbers as numbers and
    /// names as strings. If known, `waker` adds `waker_comm`, `tid` or `pid` adds `comm`, and `container` adds
    /// `pod`. `{}` without `--by`.
    #[serde(serialize_with = "super::key_document::key")]
    #[cfg_attr(test, schemars(schema_with = "super::key_document::schema"))]
    key: &'a [KeyPart],
    /// `wakeup`, `new` or `preempted`; or `runqueue`, all three combined, if requested.
    #[cfg_attr(test, schemars(extend("enum" = super::schema_values::group_classes())))]
    class: &'static str,
    /// Number of waits.
    count: u64,
    /// Sum of all latencies, exact.
    sum_ns: u128,
    /// `sum_ns / count`, rounded down.
    avg_ns: u64,
    /// Shortest wait, exact.
    min_ns: u64,
    /// Longest wait, exact.
    max_ns: u64,
    /// End of the longest wait.
    max_at_unix_ns: Option<u64>,
    /// The task with the longest wait.
    max_by: Option<MaximumDocument>,
    /// For `top` of a recording of events, unless it groups by `class`, `waker` or `component`: how long the tasks of
    /// the group ran in the window, from switch to switch. Of a slice that began before the window or still runs at its
    /// end, the part in the window counts; slices with lost events are left out. For `top` of a measurement by `tid`,
    /// with or without `pid` and `comm`: how long the thread ran in the window, according to the kernel
    /// (`/proc/TID/schedstat`), whose figure for a running thread lags by up to a tick. wakelat reads it at both ends
    /// of the window, one thread after another, at 5 to 10 µs each. `null` in other reports, for a thread that has
    /// exited, and if a reading is missing: after an interval of `--last`, for threads that were in none of its groups;
    /// before the last report, for threads that are not among the first 1,000 rows.
    run_ns: Option<u64>,
    /// The four longest waits, longest first, each with the fields of `wakelat.wait/1` except `schema`; empty with
    /// `--by component`.
    worst: Vec<WaitFields>,
    /// Percentiles by percent (a string): the smallest value that at least this percentage of the waits does not
    /// exceed. Exact to three significant digits; at most 1/32 too high in mode `aggregate` and if the waits have
    /// different weights (overhead.md). Always between `min_ns` and `max_ns`.
    percentiles_ns: PercentilesDocument<u64>,
    /// With `--max-overhead`: for each percentile an object with `low_ns` and `high_ns`, the 95 % confidence
    /// interval for the percentile of all waits (overhead.md). `high_ns` is `null` if the sample gives no upper
    /// bound, and the object is `null` if it gives no bound at all.
    percentile_intervals_ns: Option<PercentilesDocument<Option<ConfidenceIntervalDocument>>>,
    /// The distribution, in rising order, without empty buckets; the counts add up to `count`.
    buckets: Vec<BucketDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MaximumDocument {
    /// Thread.
    tid: u32,
    /// Name.
    comm: String,
    /// CPU on which the wait ended.
    cpu: u32,
    /// Name of the recording, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// A recording of several that a report is made of.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileDocument<'a> {
    /// Its name, as given.
    file: &'a str,
    /// Host name of the machine.
    host: &'a str,
}

impl<'a> FileDocument<'a> {
    /// All of them, if there are several.
    pub fn of_all(files: &'a Files) -> Vec<Self> {
        let all = files.iter().filter(|_| files.are_several());
        all.map(|FileName { file, host }| Self { file, host }).collect()
    }
}

/// The names that belong to the longest waits of a group.
struct GroupNames<'a> {
    group: &'a Group,
    files: &'a Files,
}

impl Names for GroupNames<'_> {
    fn comm(&self, tid: u32) -> Option<Comm> {
        self.group.wakers.get(&tid).copied()
    }

    fn files(&self) -> Files {
        self.files.clone()
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BucketDocument {
    /// Smallest value in the bucket.
    pub from_ns: u64,
    /// Smallest value above the bucket: `from_ns <= value < to_ns`. The highest possible bucket ends at
    /// 18446744073709551615 = 2^64 − 1 and includes it.
    pub to_ns: u64,
    /// Number of waits in the bucket.
    pub count: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ThresholdDocument {
    /// The threshold.
    threshold_ns: u64,
    /// Waits at or above the threshold.
    over: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SamplingDocument {
    /// The limit, in millionths of the time of all CPUs.
    limit_ppm: u32,
    /// One task in this many was sampled when the sampling rate was highest in this window; a power of two.
    one_in_least: u32,
    /// One task in this many was sampled when the sampling rate was lowest in this window; a power of two.
    one_in_most: u32,
    /// Length of the window without pauses.
    measured_ns: u64,
}

impl SamplingDocument {
    pub fn new(sampling: &Sampling) -> Self {
        let Sampling { limit_ppm, one_in_least, one_in_most, measured_ns } = *sampling;
        Self { limit_ppm, one_in_least, one_in_most, measured_ns }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConfidenceIntervalDocument {
    /// Lower bound: ns.
    low_ns: u64,
    /// Upper bound: ns; `null` if the sample gives none.
    high_ns: Option<u64>,
}

impl ConfidenceIntervalDocument {
    fn new(ConfidenceInterval { low_ns, high_ns }: ConfidenceInterval) -> Self {
        Self { low_ns, high_ns }
    }
}

/// A value for each of [`PERCENTILES`].
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PercentilesDocument<T> {
    /// Half of the waits do not exceed this.
    #[serde(rename = "50")]
    p50: T,
    /// 90 % of the waits do not exceed this.
    #[serde(rename = "90")]
    p90: T,
    /// 99 % of the waits do not exceed this.
    #[serde(rename = "99")]
    p99: T,
    /// 99.9 % of the waits do not exceed this.
    #[serde(rename = "99.9")]
    p99_9: T,
}

impl<T> PercentilesDocument<T> {
    fn new(value: impl Fn(Percentile) -> T) -> Self {
        let [p50, p90, p99, p99_9] = PERCENTILES.map(|(percentile, _)| value(percentile));
        Self { p50, p90, p99, p99_9 }
    }
}

/// The overhead of measuring.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverheadDocument {
    /// CPUs online; the CPU time of this window is `cpus × duration_ns`.
    cpus: u32,
    /// CPU time of wakelat itself, in user space and kernel.
    tool_ns: u64,
    /// Time spent in its BPF programs, estimated from the runs that they timed (overhead.md).
    programs_ns: u64,
    /// Context switches of the whole machine, exact; without those during pauses.
    switches: u64,
    /// `programs_ns / switches`, rounded; includes the programs that ran for wakeups. `null` if there was no
    /// switch.
    per_switch_ns: Option<u64>,
    /// Number of runs of the programs that were timed: about one in 64, or in 259 if they run often.
    timed_runs: u64,
}

/// The values of [`LatencyFrom::name`].
#[cfg(test)]
pub fn latency_starts() -> [&'static str; 3] {
    use crate::report::LatencyFrom;
    [LatencyFrom::Wakeup, LatencyFrom::Waking, LatencyFrom::Queued].map(LatencyFrom::name)
}

/// The value of `--mode`.
fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Samples => "samples",
        Mode::Aggregate => "aggregate",
    }
}

impl<'a> ReportDocument<'a> {
    /// The document of a report, with the given groups of it.
    pub fn new(report: &'a Report, groups: &[&'a Group]) -> Self {
        Self {
            schema: "wakelat.report/1",
            kernel: &report.kernel,
            start_unix_ns: report.start_unix_ns,
            duration_ns: report.duration_ns,
            window: WindowDocument::new(report),
            from: report.from.name(),
            mode: mode_name(report.mode),
            groups: groups.iter().map(|group| GroupDocument::new(group, report)).collect(),
            groups_left_out: (report.groups.len() - groups.len()) as u64,
            coverage: CoverageDocument::new(report),
            files: FileDocument::of_all(&report.files),
            threshold: report
                .threshold
                .as_ref()
                .map(|threshold| ThresholdDocument { threshold_ns: threshold.threshold_ns, over: threshold.over }),
            overhead: report.overhead.as_ref().map(OverheadDocument::new),
            sampling: report.sampling.as_ref().map(SamplingDocument::new),
        }
    }
}

impl<'a> GroupDocument<'a> {
    fn new(group: &'a Group, report: &Report) -> Self {
        let distribution = &group.distribution;
        let max = distribution.max();
        let by = |max: Maximum| MaximumDocument {
            tid: own_tid(max.tid),
            comm: max.comm.to_string(),
            cpu: own_number(max.cpu),
            file: report.files.of_tid(max.tid).map(str::to_owned),
        };
        let names = GroupNames { group, files: &report.files };
        let context = RenderContext { unix_offset_ns: report.unix_offset_ns, names: &names };
        let bucket =
            |bucket: Bucket| BucketDocument { from_ns: bucket.from_ns, to_ns: bucket.to_ns, count: bucket.count };
        Self {
            key: &group.key,
            class: group.class.name(),
            count: distribution.count(),
            sum_ns: distribution.sum_ns(),
            avg_ns: distribution.avg_ns(),
            min_ns: distribution.min_ns(),
            max_ns: distribution.max_ns(),
            max_at_unix_ns: max.map(|max| timestamps::unix_ns(max.at_ns, report.unix_offset_ns)),
            max_by: max.map(by),
            run_ns: group.run_ns,
            worst: group.worst.iter().map(|wait| WaitFields::new(wait, &context)).collect(),
            percentiles_ns: PercentilesDocument::new(|percentile| distribution.percentile_ns(percentile)),
            percentile_intervals_ns: distribution.sampled().map(|sampled| {
                PercentilesDocument::new(|percentile| sampled.interval(percentile).map(ConfidenceIntervalDocument::new))
            }),
            buckets: distribution.buckets().into_iter().map(bucket).collect(),
        }
    }
}

impl OverheadDocument {
    /// The document of the overhead of a report.
    pub fn new(overhead: &Overhead) -> Self {
        let programs = overhead.programs;
        Self {
            cpus: overhead.cpus,
            tool_ns: overhead.tool_ns,
            programs_ns: programs.ns,
            switches: programs.switches,
            per_switch_ns: programs.per_switch_ns(),
            timed_runs: programs.timed_runs,
        }
    }
}
