//! What a window of measurement found: plain data, ns throughout, with its coverage. Sources fill it, sinks show it.

use std::{collections::BTreeMap, rc::Rc};

use serde::{Deserialize, Serialize};
use wakelat_common::Class;

use crate::{
    aggregate::distribution::{Distribution, Maximum},
    wait::{Comm, Wait},
};

/// One window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The kernel's release, as `uname -r` says it.
    pub kernel: String,
    /// When the window began: ns since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// How long it was: ns. Nothing counts that ended at its end or later.
    pub duration_ns: u64,
    /// How long it was to be: ns; none where that was left open, and where a signal or a threshold ended it.
    pub requested_ns: Option<u64>,
    /// Intervals that have no report: they ended before wakelat came to write one, and are part of this window.
    pub skipped_intervals: u64,
    /// How long wakelat's reader was runnable and waited for a CPU in this window: ns; none where the kernel does not count it.
    pub reader_waited_ns: Option<u64>,
    /// Waits of which a line was to be written, or events where events are shown, that were left out because the output was
    /// blocked.
    pub not_written: u64,
    /// What to add to CLOCK_MONOTONIC to have ns since 1970-01-01 UTC, as it stood when the window began.
    pub unix_offset_ns: i64,
    /// From which event latency counts.
    pub from: From,
    /// Where the waits were counted.
    pub mode: Mode,
    /// The groups, ordered by class and then by falling count. A recording has none: they are made anew.
    #[serde(skip)]
    pub groups: Vec<Group>,
    /// What was counted and what was not.
    pub coverage: Coverage,
    /// What became of the threshold, where one was given.
    pub threshold: Option<Threshold>,
    /// What measuring took, where that was looked at.
    pub overhead: Option<Overhead>,
    /// What was watched, where a limit of the overhead was given.
    pub sampling: Option<Sampling>,
}

/// What was watched: whole tasks at random, and where that did not do, parts of the time, as many as a limit of the overhead
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// The limit: millionths of the time of all CPUs.
    pub limit_ppm: u32,
    /// At the lowest level in force in the window, one of so many.
    pub one_in_least: u32,
    /// At the highest.
    pub one_in_most: u32,
    /// The part of the window without rests: ns.
    pub measured_ns: u64,
}

/// What measuring took from the machine in this window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overhead {
    /// CPUs that were online.
    pub cpus: u32,
    /// wakelat's own CPU time, in user space and in the kernel: ns.
    pub tool_ns: u64,
    /// Of the programs; none where the kernel does not account them for this user.
    pub programs: Option<ProgramTime>,
}

/// What programs in the kernel took: from those parts of the run in which the kernel accounted them, by the number of
/// switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramTime {
    /// All of them together: ns, one reading of the clock for each run included.
    pub ns: u64,
    /// Context switches of the whole machine, while the programs were attached.
    pub switches: u64,
    /// How long the account was on: ns.
    pub accounted_ns: u64,
}

impl Report {
    /// Whether the window was a tenth longer or shorter than it was to be.
    pub fn is_of_another_length(&self) -> bool {
        self.requested_ns
            .is_some_and(|requested_ns| self.duration_ns.abs_diff(requested_ns) >= requested_ns.div_ceil(10))
    }

    /// Whether the reader waited for a CPU for a tenth of the window or more: it may be late with everything.
    pub fn reader_was_starved(&self) -> bool {
        self.reader_waited_ns.is_some_and(|waited_ns| waited_ns >= self.duration_ns.div_ceil(10))
    }
}

impl Overhead {
    /// Programs and wakelat itself: ns.
    pub fn total_ns(&self) -> u64 {
        self.tool_ns + self.programs.map_or(0, |programs| programs.ns)
    }

    /// What all CPUs had in a window of `duration_ns`: ns.
    pub fn capacity_ns(&self, duration_ns: u64) -> u64 {
        duration_ns.saturating_mul(self.cpus.into())
    }
}

impl ProgramTime {
    /// By switch, with all that ran for wakeups: ns, rounded; none where there was no switch.
    pub fn per_switch_ns(&self) -> Option<u64> {
        (self.switches > 0).then(|| (self.ns + self.switches / 2) / self.switches)
    }
}

/// Where the clock of a `wakeup` starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum From {
    /// `sched_wakeup`: the task is on a run queue.
    #[default]
    Wakeup,
    /// `sched_waking`: delivery and wakeup latency together.
    Waking,
}

/// Where waits are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// In user space, from a sample of each.
    #[default]
    Samples,
    /// In the kernel: cheaper, and percentiles are as exact as buckets are narrow.
    Aggregate,
}

/// The waits with one key and one class.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common, part by part, in the order asked for; empty where nothing was asked for.
    pub key: Vec<KeyPart>,
    /// Their class.
    pub class: GroupClass,
    /// How long they took.
    pub distribution: Rc<Distribution>,
    /// How long their thread ran in the window: ns; none where they are not of one thread, or where that is not known.
    pub run_ns: Option<u64>,
    /// The longest, the longest first; none of parts of waits.
    pub worst: Vec<Wait>,
    /// The names of those who woke their tasks, where they are known, by thread id.
    pub wakers: BTreeMap<u32, Comm>,
}

/// One part of a group's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPart {
    /// The part's name, as `--by` takes it and JSON shows it.
    pub name: &'static str,
    /// Its value.
    pub value: KeyValue,
}

/// The value of a part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyValue {
    /// A number: an id, a CPU, a priority.
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
    /// One class by itself.
    One(Class),
    /// Run-queue latency: all classes together, which nobody gets without asking for it by name.
    RunQueue,
}

impl GroupClass {
    /// The word for it on the command line, in JSON and in every report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One(class) => class.name(),
            Self::RunQueue => "runqueue",
        }
    }
}

/// What was counted, and each way in which something was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Of wakeups: classes `wakeup` and `new`.
    pub wakeups: Terms,
    /// Of preemptions, where that class was asked for.
    pub preemptions: Option<Terms>,
    /// Events for which the kernel skipped a program because one was active already; none where the kernel does not
    /// count them (before 5.12).
    pub missed: Option<u64>,
    /// Events between waits for which there was no room in the ring buffer; none where only waits were asked for.
    pub events_lost: Option<u64>,
    /// The longest wait among the censored: the task and how long it had waited when the run ended.
    pub oldest_censored: Option<Maximum>,
    /// Waits whose group found no room in user space: they are in a group keyed `(other)`.
    pub groups_merged: u64,
    /// There was no filter but the one that excludes wakelat's own threads: what it refused is theirs. A recording does not know.
    #[serde(skip)]
    pub filtered_is_own: bool,
}

/// The terms of one accounting identity; see [`wakelat_common::counter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Waits that began in this window, and those carried into it.
    pub seen: u64,
    /// Of `seen`: waits that were still going on when the window before ended.
    pub carried: u64,
    /// Samples counted in the groups.
    pub delivered: u64,
    /// Wakeups of a task that was on a CPU.
    pub woken_running: u64,
    /// Wakeups of a task that waited already.
    pub woken_waiting: u64,
    /// Refused by the filter or the threshold.
    pub filtered: u64,
    /// Of `filtered`: below the threshold.
    pub below_threshold: u64,
    /// Of tasks that were not drawn, where not all are watched.
    pub not_watched: u64,
    /// No room in the map of starts.
    pub start_map_full: u64,
    /// No room in the ring buffer.
    pub ring_full: u64,
    /// The end was before the start, or nobody saw the event from which to count.
    pub discarded: u64,
    /// The switch-in was never seen.
    pub stale: u64,
    /// Still waiting when the window ended, or a rest began.
    pub censored: u64,
    /// Of `censored`: when a rest began.
    pub rested: u64,
}

impl Terms {
    /// `seen` less all the others: 0 where every wait is accounted for.
    pub fn unaccounted(&self) -> i128 {
        i128::from(self.seen)
            - [
                self.delivered,
                self.woken_running,
                self.woken_waiting,
                self.filtered,
                self.not_watched,
                self.start_map_full,
                self.ring_full,
                self.discarded,
                self.stale,
                self.censored,
            ]
            .into_iter()
            .map(i128::from)
            .sum::<i128>()
    }

    /// Waits that were asked for and are in no group because something went wrong.
    pub fn lost(&self) -> u64 {
        self.start_map_full + self.ring_full + self.discarded + self.stale
    }
}

/// What became of the threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threshold {
    /// The threshold: ns.
    pub threshold_ns: u64,
    /// Waits at or above it.
    pub over: u64,
}
