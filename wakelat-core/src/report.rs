//! The result of a measurement window, with its coverage: plain data, in ns throughout. Sources fill it,
//! renderers show it.

use std::{collections::BTreeMap, rc::Rc};

use serde::{Deserialize, Serialize};
use wakelat_common::Class;

use crate::{
    aggregate::distribution::{Distribution, Maximum},
    wait::{Comm, Wait},
};

/// The report of a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// When the window began: ns since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length of the window: ns. Events at its end or later do not count.
    pub duration_ns: u64,
    /// Requested length: ns; `None` if not specified, or if a signal or a threshold ended the window.
    pub requested_ns: Option<u64>,
    /// Intervals that ended before wakelat could report them, and that are part of this window.
    pub skipped_intervals: u64,
    /// How long wakelat's reader was runnable and waited for a CPU in this window: ns; `None` if the kernel
    /// does not count it.
    pub reader_waited_ns: Option<u64>,
    /// Waits (or events, if events are shown) that were not written because the output was blocked.
    pub not_written: u64,
    /// Offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC) when the window began: ns.
    pub unix_offset_ns: i64,
    /// The event from which latency is measured.
    pub from: LatencyFrom,
    /// Where the waits were aggregated.
    pub mode: Mode,
    /// The groups, by class and then by descending count. Not part of a recording, from which they are
    /// computed again.
    #[serde(skip)]
    pub groups: Vec<Group>,
    /// The coverage: what was counted and what was not.
    pub coverage: Coverage,
    /// The result of the threshold, if one was given.
    pub threshold: Option<Threshold>,
    /// The overhead of measuring, if it was measured.
    pub overhead: Option<Overhead>,
    /// The sampling, if there was an overhead limit.
    pub sampling: Option<Sampling>,
}

/// What was sampled to stay below an overhead limit: a random part of the tasks, each with all its waits, and
/// if this was not enough, also a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// The limit: millionths of the time of all CPUs.
    pub limit_ppm: u32,
    /// At the lowest sampling shift in the window, one task in this many was sampled.
    pub one_in_least: u32,
    /// At the highest sampling shift in the window, one task in this many was sampled.
    pub one_in_most: u32,
    /// Length of the window without its pauses: ns.
    pub measured_ns: u64,
}

/// The overhead of measuring in this window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overhead {
    /// Number of online CPUs.
    pub cpus: u32,
    /// wakelat's own CPU time, in user space and in the kernel: ns.
    pub tool_ns: u64,
    /// CPU time of the BPF programs; `None` if the kernel does not account them for this user.
    pub programs: Option<ProgramTime>,
}

/// CPU time of the BPF programs, extrapolated by the number of switches from the slices in which the kernel
/// accounted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramTime {
    /// CPU time of all programs, including one reading of the clock per run: ns.
    pub ns: u64,
    /// Context switches of the whole machine while the programs were attached.
    pub switches: u64,
    /// Total length of the slices: ns.
    pub accounted_ns: u64,
}

impl Report {
    /// Whether the length of the window differs from the requested one by a tenth or more.
    pub fn has_unexpected_length(&self) -> bool {
        self.requested_ns
            .is_some_and(|requested_ns| self.duration_ns.abs_diff(requested_ns) >= requested_ns.div_ceil(10))
    }

    /// Whether the reader waited for a CPU for a tenth of the window or more, and may have been late with
    /// everything.
    pub fn reader_was_starved(&self) -> bool {
        self.reader_waited_ns.is_some_and(|waited_ns| waited_ns >= self.duration_ns.div_ceil(10))
    }
}

impl Overhead {
    /// CPU time of the programs and of wakelat itself: ns.
    pub fn total_ns(&self) -> u64 {
        self.tool_ns + self.programs.map_or(0, |programs| programs.ns)
    }

    /// CPU time of all CPUs in a window of `duration_ns`: ns.
    pub fn capacity_ns(&self, duration_ns: u64) -> u64 {
        duration_ns.saturating_mul(self.cpus.into())
    }
}

impl ProgramTime {
    /// CPU time per switch, including the programs on wakeups: ns, rounded; `None` if there was no switch.
    pub fn per_switch_ns(&self) -> Option<u64> {
        (self.switches > 0).then(|| (self.ns + self.switches / 2) / self.switches)
    }
}

/// The event at which the latency of a `wakeup` starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LatencyFrom {
    /// `sched_wakeup`: the task has entered a run queue.
    #[default]
    Wakeup,
    /// `sched_waking`: wake delivery and wakeup latency together.
    Waking,
    /// The kernel has put the task on a run queue, by the queue's own clock.
    Queued,
}

impl LatencyFrom {
    /// The value of `--from`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wakeup => "wakeup",
            Self::Waking => "waking",
            Self::Queued => "queued",
        }
    }
}

/// Where waits are aggregated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// In user space, from one sample per wait.
    #[default]
    Samples,
    /// In the kernel: cheaper, but percentiles are only as exact as the buckets.
    Aggregate,
}

/// The waits with one key and one class.
#[derive(Clone, Debug)]
pub struct Group {
    /// The values that the waits have in common, in the requested order; empty without grouping.
    pub key: Vec<KeyPart>,
    /// The class of the waits.
    pub class: GroupClass,
    /// The latencies of the waits.
    pub distribution: Rc<Distribution>,
    /// How long the thread ran in the window: ns; `None` if the waits are not those of one thread, or if it
    /// is not known.
    pub run_ns: Option<u64>,
    /// The longest waits, longest first; empty if the group is a component of waits.
    pub worst: Vec<Wait>,
    /// The names of the wakers, as far as they are known, by TID.
    pub wakers: BTreeMap<u32, Comm>,
}

/// A part of a group's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPart {
    /// The name of the part, as in `--by` and in JSON.
    pub name: &'static str,
    /// The value of the part.
    pub value: KeyValue,
}

/// The value of a part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyValue {
    /// A number: an ID, a CPU, a priority.
    Number(i64),
    /// A name or a path.
    Text(String),
}

impl std::fmt::Display for KeyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The class of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupClass {
    /// A single class.
    One(Class),
    /// Run-queue latency: all classes together, used only if requested by name.
    RunQueue,
}

impl GroupClass {
    /// The name on the command line, in JSON and in every report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One(class) => class.name(),
            Self::RunQueue => "runqueue",
        }
    }
}

/// What was counted, and every reason for which something was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The terms of wakeups: classes `wakeup` and `new`.
    pub wakeups: CoverageTerms,
    /// The terms of preemptions, if that class was requested.
    pub preemptions: Option<CoverageTerms>,
    /// The terms of switch-ins, if the run queue's clock measured the waits; then no wakeup or preemption is
    /// seen. Not part of a recording, whose events the tracepoints time.
    #[serde(skip)]
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
    /// The only filter is the one that excludes wakelat's own threads, so that all filtered waits are theirs.
    /// Not part of a recording.
    #[serde(skip)]
    pub filtered_is_own: bool,
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
        self.task_table_full + self.ring_buffer_full + self.invalid + self.missed_switch
    }
}

/// The terms of the identity of switch-ins; see [`wakelat_common::queue_clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Waits of tasks that were not sampled.
    pub not_sampled: u64,
    /// Lost: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Lost: the queue's clock was before the instant at which the task was queued.
    pub invalid: u64,
    /// Class and full length are not known, because the task's last switch-out was not seen: it was before the
    /// window, or another thread used the task's slot.
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
    /// The terms of the time since `before`, if `self` and `before` are totals since the same start.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            seen: self.seen - before.seen,
            measured: self.measured - before.measured,
            filtered: self.filtered - before.filtered,
            below_threshold: self.below_threshold - before.below_threshold,
            other_class: self.other_class - before.other_class,
            not_sampled: self.not_sampled - before.not_sampled,
            ring_buffer_full: self.ring_buffer_full - before.ring_buffer_full,
            invalid: self.invalid - before.invalid,
            unknown_start: self.unknown_start - before.unknown_start,
            after_unseen: self.after_unseen - before.after_unseen,
            not_timed: self.not_timed - before.not_timed,
            unknown_ns: self.unknown_ns - before.unknown_ns,
            unseen: self.unseen - before.unseen,
            unseen_ns: self.unseen_ns - before.unseen_ns,
            to_idle: self.to_idle - before.to_idle,
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
                self.not_sampled,
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
        self.ring_buffer_full + self.invalid
    }
}

/// The result of a threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threshold {
    /// The threshold: ns.
    pub threshold_ns: u64,
    /// Waits at or above it.
    pub over: u64,
}
