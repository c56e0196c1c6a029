//! The JSON documents of reports and waits, field by field, as described in docs/output.md.
//!
//! Within one version of a schema (the number at the end of its name), fields may be added, but none is
//! removed or changes its meaning.

use serde::{Serialize, Serializer};

use super::{PERCENTILES, RenderContext, clock, switch_ins::SwitchInsDocument};
use crate::{
    aggregate::{
        distribution::{Bucket, Distribution, Maximum},
        estimate::ConfidenceInterval,
    },
    report::{Coverage, CoverageTerms, Group, KeyPart, KeyValue, Mode, Overhead, Report, Sampling},
    timeline::{Breakdown, component::Component},
    wait::{Wait, policy_name},
};

/// `wakelat.report/1`.
#[derive(Serialize)]
pub struct ReportDocument<'a> {
    schema: &'static str,
    kernel: &'a str,
    start_unix_ns: u64,
    duration_ns: u64,
    #[serde(flatten)]
    window: WindowDocument,
    from: &'static str,
    mode: &'static str,
    groups: Vec<GroupDocument<'a>>,
    groups_left_out: u64,
    coverage: CoverageDocument,
    threshold: Option<ThresholdDocument>,
    overhead: Option<OverheadDocument>,
    sampling: Option<SamplingDocument>,
}

/// How the window was measured.
#[derive(Serialize)]
pub struct WindowDocument {
    requested_ns: Option<u64>,
    skipped_intervals: u64,
    reader_waited_ns: Option<u64>,
    not_written: u64,
}

impl WindowDocument {
    pub fn new(report: &Report) -> Self {
        let Report { requested_ns, skipped_intervals, reader_waited_ns, not_written, .. } = *report;
        Self { requested_ns, skipped_intervals, reader_waited_ns, not_written }
    }
}

#[derive(Serialize)]
struct GroupDocument<'a> {
    #[serde(serialize_with = "key")]
    key: &'a [KeyPart],
    class: &'static str,
    count: u64,
    sum_ns: u128,
    avg_ns: u64,
    min_ns: u64,
    max_ns: u64,
    max_at_unix_ns: Option<u64>,
    max_by: Option<MaximumDocument>,
    run_ns: Option<u64>,
    worst: Vec<WaitFields>,
    #[serde(serialize_with = "percentiles")]
    percentiles_ns: &'a Distribution,
    #[serde(serialize_with = "intervals")]
    percentile_intervals_ns: &'a Distribution,
    buckets: Vec<BucketDocument>,
}

#[derive(Serialize)]
struct MaximumDocument {
    tid: u32,
    comm: String,
    cpu: u32,
}

#[derive(Serialize)]
struct BucketDocument {
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

/// The coverage of a window.
#[derive(Serialize)]
pub struct CoverageDocument {
    #[serde(flatten)]
    wakeups: TermsDocument,
    missed: Option<u64>,
    events_lost: Option<u64>,
    preemptions: Option<TermsDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_ins: Option<SwitchInsDocument>,
    oldest_waiting: Option<OldestWaitingDocument>,
    groups_merged: u64,
    filtered_is_own: bool,
}

struct TermsDocument(CoverageTerms);

#[derive(Serialize)]
struct OldestWaitingDocument {
    latency_ns: u64,
    tid: u32,
    comm: String,
}

#[derive(Serialize)]
struct ThresholdDocument {
    threshold_ns: u64,
    over: u64,
}

#[derive(Serialize)]
struct SamplingDocument {
    limit_ppm: u32,
    one_in_least: u32,
    one_in_most: u32,
    measured_ns: u64,
}

#[derive(Serialize)]
struct ConfidenceIntervalDocument {
    low_ns: u64,
    high_ns: Option<u64>,
}

/// The overhead of measuring.
#[derive(Serialize)]
pub struct OverheadDocument {
    cpus: u32,
    tool_ns: u64,
    programs_ns: Option<u64>,
    switches: Option<u64>,
    per_switch_ns: Option<u64>,
    accounted_ns: Option<u64>,
}

/// `wakelat.wait/1`.
#[derive(Serialize)]
pub struct WaitDocument {
    schema: &'static str,
    #[serde(flatten)]
    fields: WaitFields,
    #[serde(serialize_with = "components", skip_serializing_if = "Option::is_none")]
    components: Option<[u64; Component::ALL.len()]>,
}

/// The fields of a wait, without nesting, so that they also make a row of CSV.
#[derive(Serialize)]
pub struct WaitFields {
    at_ns: u64,
    at_unix_ns: u64,
    class: &'static str,
    latency_ns: u64,
    delivery_ns: Option<u64>,
    tid: u32,
    pid: u32,
    comm: String,
    cgroup_id: Option<u64>,
    prio: i32,
    policy: u32,
    policy_name: &'static str,
    cpu: u32,
    prev_cpu: Option<u32>,
    waker_tid: Option<u32>,
    waker_comm: Option<String>,
    prev_tid: u32,
    prev_comm: String,
    prev_prio: i32,
}

/// The counters of the coverage, with their names in documents.
pub fn terms(terms: &CoverageTerms) -> [(&'static str, u64); 14] {
    [
        ("seen", terms.seen),
        ("carried", terms.carried),
        ("measured", terms.measured),
        ("already_running", terms.already_running),
        ("already_queued", terms.already_queued),
        ("filtered", terms.filtered),
        ("below_threshold", terms.below_threshold),
        ("not_sampled", terms.not_sampled),
        ("task_table_full", terms.task_table_full),
        ("ring_buffer_full", terms.ring_buffer_full),
        ("invalid", terms.invalid),
        ("missed_switch", terms.missed_switch),
        ("still_waiting", terms.still_waiting),
        ("paused", terms.paused),
    ]
}

impl Serialize for TermsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(terms(&self.0))
    }
}

/// Serializes the parts of a key as fields of an object.
pub fn key<S: Serializer>(parts: &[KeyPart], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(parts.iter().map(|part| (part.name, KeyDocument::new(&part.value))))
}

/// The value of a part of a key. Numbers stay numbers.
#[derive(Serialize)]
#[serde(untagged)]
enum KeyDocument<'a> {
    Number(i64),
    Text(&'a str),
}

impl<'a> KeyDocument<'a> {
    fn new(value: &'a KeyValue) -> Self {
        match value {
            KeyValue::Number(number) => Self::Number(*number),
            KeyValue::Text(text) => Self::Text(text),
        }
    }
}

/// Serializes the percentiles, with the percentage as the key: `"99.9": 1`.
fn percentiles<S: Serializer>(distribution: &Distribution, serializer: S) -> Result<S::Ok, S::Error> {
    serializer
        .collect_map(PERCENTILES.iter().map(|(percent, _)| (percent.to_string(), distribution.percentile_ns(*percent))))
}

/// Serializes the confidence intervals of the percentiles, or null without sampling.
fn intervals<S: Serializer>(distribution: &Distribution, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(sampled) = distribution.sampled() else { return serializer.serialize_none() };
    let document = |ConfidenceInterval { low_ns, high_ns }| ConfidenceIntervalDocument { low_ns, high_ns };
    serializer.collect_map(
        PERCENTILES.iter().map(|(percent, _)| (percent.to_string(), sampled.interval(*percent).map(document))),
    )
}

/// The time in each component of a wait, in the order of [`Component::ALL`]: ns.
pub fn component_fields(breakdown: &Breakdown) -> [u64; Component::ALL.len()] {
    let mut fields = [0; Component::ALL.len()];
    breakdown.components().for_each(|(component, ns)| fields[component as usize] = ns);
    fields
}

/// Serializes the components under their names.
fn components<S: Serializer>(
    components: &Option<[u64; Component::ALL.len()]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Component::ALL.into_iter().map(Component::name).zip(components.unwrap_or_default()))
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
            coverage: CoverageDocument::new(&report.coverage),
            threshold: report
                .threshold
                .as_ref()
                .map(|threshold| ThresholdDocument { threshold_ns: threshold.threshold_ns, over: threshold.over }),
            overhead: report.overhead.as_ref().map(OverheadDocument::new),
            sampling: report.sampling.map(|Sampling { limit_ppm, one_in_least, one_in_most, measured_ns }| {
                SamplingDocument { limit_ppm, one_in_least, one_in_most, measured_ns }
            }),
        }
    }
}

impl<'a> GroupDocument<'a> {
    fn new(group: &'a Group, report: &Report) -> Self {
        let distribution = &group.distribution;
        let max = distribution.max();
        let by = |max: Maximum| MaximumDocument { tid: max.tid, comm: max.comm.to_string(), cpu: max.cpu };
        let name_of = |tid| group.wakers.get(&tid).copied();
        let context = RenderContext { unix_offset_ns: report.unix_offset_ns, name_of: &name_of };
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
            max_at_unix_ns: max.map(|max| clock::unix_ns(max.at_ns, report.unix_offset_ns)),
            max_by: max.map(by),
            run_ns: group.run_ns,
            worst: group.worst.iter().map(|wait| WaitFields::new(wait, &context)).collect(),
            percentiles_ns: distribution,
            percentile_intervals_ns: distribution,
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
            programs_ns: programs.map(|programs| programs.ns),
            switches: programs.map(|programs| programs.switches),
            per_switch_ns: programs.and_then(|programs| programs.per_switch_ns()),
            accounted_ns: programs.map(|programs| programs.accounted_ns),
        }
    }
}

impl CoverageDocument {
    /// The document of a coverage.
    pub fn new(coverage: &Coverage) -> Self {
        let oldest = |max: Maximum| OldestWaitingDocument {
            latency_ns: max.latency_ns,
            tid: max.tid,
            comm: max.comm.to_string(),
        };
        Self {
            wakeups: TermsDocument(coverage.wakeups),
            missed: coverage.missed,
            events_lost: coverage.events_lost,
            preemptions: coverage.preemptions.map(TermsDocument),
            switch_ins: coverage.switch_ins.map(SwitchInsDocument),
            oldest_waiting: coverage.oldest_waiting.map(oldest),
            groups_merged: coverage.groups_merged,
            filtered_is_own: coverage.filtered_is_own,
        }
    }
}

impl WaitDocument {
    /// The document of a wait.
    pub fn new(wait: &Wait, context: &RenderContext) -> Self {
        Self { schema: "wakelat.wait/1", fields: WaitFields::new(wait, context), components: None }
    }

    /// The document of a wait with the components of its latency.
    pub fn with_breakdown(breakdown: &Breakdown, context: &RenderContext) -> Self {
        Self { components: Some(component_fields(breakdown)), ..Self::new(&breakdown.ended_wait.wait, context) }
    }
}

impl WaitFields {
    /// The fields of a wait.
    pub fn new(wait: &Wait, context: &RenderContext) -> Self {
        Self {
            at_ns: wait.at_ns,
            at_unix_ns: clock::unix_ns(wait.at_ns, context.unix_offset_ns),
            class: wait.class.name(),
            latency_ns: wait.latency_ns,
            delivery_ns: wait.delivery_ns,
            tid: wait.tid,
            pid: wait.pid,
            comm: wait.comm.to_string(),
            cgroup_id: wait.cgroup_id,
            prio: wait.prio,
            policy: wait.policy,
            policy_name: policy_name(wait.policy),
            cpu: wait.cpu,
            prev_cpu: wait.prev_cpu,
            waker_tid: wait.waker_tid,
            waker_comm: wait.waker_tid.and_then(context.name_of).map(|comm| comm.to_string()),
            prev_tid: wait.prev_tid,
            prev_comm: wait.prev_comm.to_string(),
            prev_prio: wait.prev_prio,
        }
    }
}
