//! The coverage of a window: the terms of each accounting identity.

use serde::{Deserialize, Serialize};

use crate::aggregate::distribution::Maximum;

/// What was counted, and every reason for which something was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The terms of wakeups: classes `wakeup` and `new`.
    pub wakeups: CoverageTerms,
    /// The terms of preemptions, if that class was requested.
    pub preemptions: Option<CoverageTerms>,
    /// The terms of switch-ins, if the run queue's clock measured the waits; then no wakeup or preemption is
    /// seen.
    pub switch_ins: Option<SwitchInTerms>,
    /// Events for which the kernel skipped a program because one was already active; `None` if the kernel
    /// does not count them (before 5.12).
    pub missed: Option<u64>,
    /// Events between waits that were lost because the ring buffer was full; `None` if only waits were
    /// recorded.
    pub events_lost: Option<u64>,
    /// The oldest wait that was still pending when the run ended: its task, and how long it had waited.
    pub oldest_waiting: Option<Maximum>,
    /// Waits that are counted in the group `(other)`, because user space had no room for their own group.
    pub groups_merged: u64,
    /// The part of `groups_merged` for which the kernel's table of groups was full. Not part of a recording.
    #[serde(skip)]
    pub group_table_full: u64,
    /// The only filter is the one that excludes wakelat's own threads, so that all filtered waits are theirs.
    pub filtered_is_own: bool,
    /// The recordings that the report comes from and that have no end. Not part of a recording.
    #[serde(skip)]
    pub missing_ends: Vec<MissingEnd>,
    /// The waits come from the text of another tool's trace. Not part of a recording.
    #[serde(skip)]
    pub text: Option<TextCoverage>,
}

/// What the text of a trace lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextCoverage {
    /// Switch-ins of tasks whose wait began unseen: before the trace, or with an event that is not in it.
    pub unknown_start: u64,
    /// Lines that could not be parsed, and were skipped.
    pub skipped_lines: u64,
    /// The first of them, with the reason.
    pub first_skipped: Option<String>,
}

impl TextCoverage {
    /// The coverage of the time since `before`, if both are totals since the same start.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let skipped_lines = self.skipped_lines.saturating_sub(before.skipped_lines);
        Self {
            unknown_start: self.unknown_start.saturating_sub(before.unknown_start),
            skipped_lines,
            first_skipped: self.first_skipped.clone().filter(|_| skipped_lines > 0),
        }
    }
}

/// Where a recording ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingEnd {
    /// The number of the recording.
    pub file: u32,
    /// Offset of the first data that is missing or damaged, from the start of the file: bytes.
    pub at: u64,
    /// There is data, but it is damaged.
    pub is_damaged: bool,
}

/// The terms of one accounting identity; see [`wakelat_common::counter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageTerms {
    /// Waits that began in this window or were carried into it.
    pub seen: u64,
    /// The part of `seen` that was still pending when the previous window ended.
    pub carried: u64,
    /// Waits that are counted in the groups.
    pub measured: u64,
    /// Wakeups of a task that was on a CPU: no wait begins.
    pub already_running: u64,
    /// Wakeups of a task that was already waiting.
    pub already_queued: u64,
    /// Waits excluded by the filter or the threshold.
    pub filtered: u64,
    /// The part of `filtered` that only the threshold excluded.
    pub below_threshold: u64,
    /// Waits of tasks that were not sampled.
    pub not_sampled: u64,
    /// Lost: the task table was full.
    pub task_table_full: u64,
    /// Lost: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Lost: the end was before the start, or the event that starts the latency was not seen.
    pub invalid: u64,
    /// Lost: the switch-in was not seen.
    pub missed_switch: u64,
    /// Waits that were still pending when the window ended or a pause began.
    pub still_waiting: u64,
    /// The part of `still_waiting` that was pending when a pause began.
    pub paused: u64,
}

impl CoverageTerms {
    /// The terms of the time since `before`, if `self` and `before` are totals since the same start, without pauses. Waits
    /// that were pending then are carried into it.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let carried = before.still_waiting;
        Self {
            seen: self.seen.saturating_sub(before.seen).saturating_add(carried),
            carried,
            measured: self.measured.saturating_sub(before.measured),
            already_running: self.already_running.saturating_sub(before.already_running),
            already_queued: self.already_queued.saturating_sub(before.already_queued),
            filtered: self.filtered.saturating_sub(before.filtered),
            below_threshold: self.below_threshold.saturating_sub(before.below_threshold),
            not_sampled: self.not_sampled.saturating_sub(before.not_sampled),
            task_table_full: self.task_table_full.saturating_sub(before.task_table_full),
            ring_buffer_full: self.ring_buffer_full.saturating_sub(before.ring_buffer_full),
            invalid: self.invalid.saturating_sub(before.invalid),
            missed_switch: self.missed_switch.saturating_sub(before.missed_switch),
            still_waiting: self.still_waiting,
            paused: self.paused.saturating_sub(before.paused),
        }
    }

    /// `seen` minus all other terms: 0 if every wait is accounted for.
    pub fn unaccounted(&self) -> i128 {
        i128::from(self.seen)
            - [
                self.measured,
                self.already_running,
                self.already_queued,
                self.filtered,
                self.not_sampled,
                self.task_table_full,
                self.ring_buffer_full,
                self.invalid,
                self.missed_switch,
                self.still_waiting,
            ]
            .into_iter()
            .map(i128::from)
            .sum::<i128>()
    }

    /// Requested waits that are in no group because something went wrong.
    pub fn lost(&self) -> u64 {
        let terms = [self.task_table_full, self.ring_buffer_full, self.invalid, self.missed_switch];
        terms.into_iter().fold(0, u64::saturating_add)
    }
}

/// The terms of the identity of switch-ins; see [`wakelat_common::queue_clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchInTerms {
    /// Switches to a task other than idle.
    pub seen: u64,
    /// Waits that are counted in the groups.
    pub measured: u64,
    /// Waits excluded by the filter or the threshold.
    pub filtered: u64,
    /// The part of `filtered` that only the threshold excluded.
    pub below_threshold: u64,
    /// Waits of a class that was not requested.
    pub other_class: u64,
    /// Lost: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Lost: the queue's clock was before the instant at which the task was queued.
    pub invalid: u64,
    /// Class and full length are not known, because the task's last switch-out was not seen: it was before the
    /// window or in a pause, or another thread used the task's slot. Under an overhead limit, also waits that began
    /// before the period.
    pub unknown_start: u64,
    /// Class and full length are not known, because the task ran unseen since its last switch that was seen.
    pub after_unseen: u64,
    /// The kernel has not timed the wait.
    pub not_timed: u64,
    /// The sum of the waits in `unknown_start` and `after_unseen`, as far as it is known: ns.
    pub unknown_ns: u64,
    /// Waits that ended unseen, by the kernel's own count; not a part of `seen`.
    pub unseen: u64,
    /// The sum of these waits: ns.
    pub unseen_ns: u64,
    /// Switches to idle.
    pub to_idle: u64,
    /// Switches that the kernel counted between the first and the last one seen on each CPU, and that were not
    /// seen.
    pub unseen_switches: u64,
    /// Tasks that still waited when the window ended; `None` if they were not counted.
    pub still_waiting: Option<u64>,
}

impl SwitchInTerms {
    /// The terms that add up to `seen`, by the value of the label `result` in metrics.
    pub fn by_result(&self) -> [(&'static str, u64); 8] {
        [
            ("measured", self.measured),
            ("filtered", self.filtered),
            ("other_class", self.other_class),
            ("ring_buffer_full", self.ring_buffer_full),
            ("invalid", self.invalid),
            ("unknown_start", self.unknown_start),
            ("after_unseen", self.after_unseen),
            ("not_timed", self.not_timed),
        ]
    }

    /// The terms of the time since `before`, if `self` and `before` are totals since the same start.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            seen: self.seen.saturating_sub(before.seen),
            measured: self.measured.saturating_sub(before.measured),
            filtered: self.filtered.saturating_sub(before.filtered),
            below_threshold: self.below_threshold.saturating_sub(before.below_threshold),
            other_class: self.other_class.saturating_sub(before.other_class),
            ring_buffer_full: self.ring_buffer_full.saturating_sub(before.ring_buffer_full),
            invalid: self.invalid.saturating_sub(before.invalid),
            unknown_start: self.unknown_start.saturating_sub(before.unknown_start),
            after_unseen: self.after_unseen.saturating_sub(before.after_unseen),
            not_timed: self.not_timed.saturating_sub(before.not_timed),
            unknown_ns: self.unknown_ns.saturating_sub(before.unknown_ns),
            unseen: self.unseen.saturating_sub(before.unseen),
            unseen_ns: self.unseen_ns.saturating_sub(before.unseen_ns),
            to_idle: self.to_idle.saturating_sub(before.to_idle),
            unseen_switches: self.unseen_switches.saturating_sub(before.unseen_switches),
            still_waiting: self.still_waiting,
        }
    }

    /// `seen` minus all other terms: 0 if every switch-in is accounted for.
    pub fn unaccounted(&self) -> i128 {
        i128::from(self.seen)
            - [
                self.measured,
                self.filtered,
                self.other_class,
                self.ring_buffer_full,
                self.invalid,
                self.unknown_start,
                self.after_unseen,
                self.not_timed,
            ]
            .into_iter()
            .map(i128::from)
            .sum::<i128>()
    }

    /// Requested waits that are in no group because something went wrong.
    pub fn lost(&self) -> u64 {
        self.ring_buffer_full.saturating_add(self.invalid)
    }
}
