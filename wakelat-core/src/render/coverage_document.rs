//! The coverage of a window, as JSON documents have it.

use serde::Serialize;

use super::queued_coverage_document::SwitchInsDocument;
use crate::{
    aggregate::distribution::Maximum,
    files::own_tid,
    report::{CoverageTerms, MissingEnd, Report},
};

/// The coverage of a window.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoverageDocument {
    #[serde(flatten)]
    wakeups: TermsDocument,
    /// Events for which the kernel skipped a program because one was already active; `null` if the kernel does not
    /// count them (before 5.12).
    missed: Option<u64>,
    /// Events between waits for which the ring buffer had no room; `null` if only waits were requested.
    events_lost: Option<u64>,
    /// The terms from `seen` to `still_waiting` for preemptions; `null` if class `preempted` was not
    /// requested, and with `--from queued`.
    preemptions: Option<TermsDocument>,
    /// With `--from queued`: the terms of switch-ins (queue-clock.md); the others are 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_ins: Option<SwitchInsDocument>,
    /// Of the tasks still waiting at the end, the one that had waited longest; `null` if no task was waiting.
    oldest_waiting: Option<OldestWaitingDocument>,
    /// Waits in the group keyed `(other)`, which holds all groups except the `--max-groups` that waited longest.
    /// wakelat keeps at least 16,384 groups until the window ends and evicts those that waited least; if there were
    /// more groups, a group may lack at most 1/14,000 of the total waiting time.
    groups_merged: u64,
    /// The part of `groups_merged` for which the kernel's table of groups was full (`--group-memory`); only in mode
    /// `aggregate`.
    group_table_full: u64,
    /// Whether `filtered` has only waits of wakelat's own threads, because there was no other filter.
    filtered_is_own: bool,
    /// Where the recording ends early that the report comes from, so that the window ends there, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_end: Option<MissingEndDocument>,
    /// With several recordings, those that end early; `missing_end` is the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_ends: Vec<MissingEndDocument>,
    /// What the text of a trace lacks that the report comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextDocument>,
}

/// What the text of a trace lacks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TextDocument {
    /// Switch-ins of tasks whose wait began unseen: before the trace, or with an event that is not in it. They are in no
    /// other term.
    unknown_start: u64,
    /// Lines that could not be parsed, and were skipped.
    skipped_lines: u64,
}

/// Where a recording ends early.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissingEndDocument {
    /// Name of the recording, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Offset of the first data that is missing or damaged, from the start of the file: bytes.
    at_byte: u64,
    /// Whether there is data, but damaged; otherwise the file ends there.
    damaged: bool,
}

/// The terms of the accounting identity, and their parts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TermsDocument {
    /// All waits that began in this window or might have begun, and those carried into it.
    seen: u64,
    /// Part of `seen`: waits that were pending when the previous window ended.
    carried: u64,
    /// Waits counted in the groups.
    measured: u64,
    /// Wakeups of a task that was on a CPU: no wait begins.
    already_running: u64,
    /// Wakeups of a task that was already waiting: its wait keeps the earlier start.
    already_queued: u64,
    /// Excluded by the filter or the threshold.
    filtered: u64,
    /// Part of `filtered`: passed the filter and was below the threshold.
    below_threshold: u64,
    /// With `--max-overhead`: wakeups of tasks that were not sampled; no filter was applied to them.
    not_sampled: u64,
    /// Lost: the task table had no room.
    task_table_full: u64,
    /// Lost: the ring buffer had no room.
    ring_buffer_full: u64,
    /// Lost: the wait ended before it began, or its start was not seen (`--from waking`, and the programs were
    /// attached after `sched_waking`).
    invalid: u64,
    /// Lost: the switch-in was not seen.
    missed_switch: u64,
    /// Still waiting when the window ended or a pause began.
    still_waiting: u64,
    /// Part of `still_waiting`: with `--max-overhead`, waits that were pending when a pause began.
    paused: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OldestWaitingDocument {
    /// How long it had waited.
    latency_ns: u64,
    /// Thread.
    tid: u32,
    /// Name.
    comm: String,
    /// Name of the recording, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
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

impl CoverageDocument {
    /// The document of the coverage of a report.
    pub fn new(report: &Report) -> Self {
        let (coverage, files) = (&report.coverage, &report.files);
        let oldest = |max: Maximum| OldestWaitingDocument {
            latency_ns: max.latency_ns,
            tid: own_tid(max.tid),
            comm: max.comm.to_string(),
            file: files.of_tid(max.tid).map(str::to_owned),
        };
        let missing = |missing: &MissingEnd| MissingEndDocument {
            file: files.get(missing.file).filter(|_| files.are_several()).map(|name| name.file.clone()),
            at_byte: missing.at,
            damaged: missing.is_damaged,
        };
        Self {
            wakeups: TermsDocument::new(&coverage.wakeups),
            missed: coverage.missed,
            events_lost: coverage.events_lost,
            preemptions: coverage.preemptions.as_ref().map(TermsDocument::new),
            switch_ins: coverage.switch_ins.as_ref().map(SwitchInsDocument::new),
            oldest_waiting: coverage.oldest_waiting.map(oldest),
            groups_merged: coverage.groups_merged,
            group_table_full: coverage.group_table_full,
            filtered_is_own: coverage.filtered_is_own,
            missing_end: coverage.missing_ends.first().map(missing),
            missing_ends: if files.are_several() {
                coverage.missing_ends.iter().map(missing).collect()
            } else {
                Vec::new()
            },
            text: coverage
                .text
                .as_ref()
                .map(|text| TextDocument { unknown_start: text.unknown_start, skipped_lines: text.skipped_lines }),
        }
    }
}

impl TermsDocument {
    fn new(terms: &CoverageTerms) -> Self {
        let CoverageTerms {
            seen,
            carried,
            measured,
            already_running,
            already_queued,
            filtered,
            below_threshold,
            not_sampled,
            task_table_full,
            ring_buffer_full,
            invalid,
            missed_switch,
            still_waiting,
            paused,
        } = *terms;
        Self {
            seen,
            carried,
            measured,
            already_running,
            already_queued,
            filtered,
            below_threshold,
            not_sampled,
            task_table_full,
            ring_buffer_full,
            invalid,
            missed_switch,
            still_waiting,
            paused,
        }
    }
}
