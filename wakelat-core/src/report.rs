//! The result of a measurement window, with its coverage: plain data, in ns throughout. Sources fill it,
//! renderers show it.

mod consecutive;
mod coverage;
mod method;
mod overhead;
mod sum;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use wakelat_common::Class;

use crate::{
    aggregate::distribution::Distribution,
    files::Files,
    wait::{Comm, Wait},
};

pub use coverage::{Coverage, CoverageTerms, MissingEnd, SwitchInTerms, TextCoverage};
pub use method::{LatencyFrom, Mode};
pub use overhead::{Overhead, ProgramTime, Sampling};

/// The report of a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// When the window began: ns since 1970-01-01 UTC, by the clock at [`Self::unix_offset_ns`].
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
    /// Offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC) when the window began, or, in a recording, at its
    /// last reading: ns.
    pub unix_offset_ns: i64,
    /// The event from which latency is measured.
    pub from: LatencyFrom,
    /// Where the waits were aggregated.
    pub mode: Mode,
    /// The groups, by class and then by descending count. Not part of a recording, from which they are
    /// computed again.
    #[serde(skip)]
    pub groups: Vec<Group>,
    /// The recordings that the report is made of; none for a measurement. Not part of a recording.
    #[serde(skip)]
    pub files: Files,
    /// The coverage: what was counted and what was not.
    pub coverage: Coverage,
    /// The result of the threshold, if one was given.
    pub threshold: Option<Threshold>,
    /// The overhead of measuring, if it was measured.
    pub overhead: Option<Overhead>,
    /// The sampling, if there was an overhead limit.
    pub sampling: Option<Sampling>,
}

impl Report {
    /// Length of the window without its pauses: ns.
    pub fn measured_ns(&self) -> u64 {
        self.sampling.map_or(self.duration_ns, |sampling| sampling.measured_ns)
    }

    /// Whether the overhead limit made the whole window a pause, so that nothing could be measured.
    pub fn was_paused_throughout(&self) -> bool {
        self.duration_ns > 0 && self.sampling.is_some_and(|sampling| sampling.measured_ns == 0)
    }

    /// The report of the time since `before`, if both are reports since the same start: without groups and threshold,
    /// which are not differences.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let (end, begin) = (&self.coverage, &before.coverage);
        let difference = |end: Option<u64>, begin: Option<u64>| end.map(|end| end.saturating_sub(begin.unwrap_or(0)));
        Self {
            kernel: self.kernel.clone(),
            start_unix_ns: self.start_unix_ns.saturating_add(before.duration_ns),
            duration_ns: self.duration_ns.saturating_sub(before.duration_ns),
            requested_ns: None,
            skipped_intervals: 0,
            reader_waited_ns: difference(self.reader_waited_ns, before.reader_waited_ns),
            not_written: self.not_written.saturating_sub(before.not_written),
            unix_offset_ns: self.unix_offset_ns,
            from: self.from,
            mode: self.mode,
            groups: Vec::new(),
            files: self.files.clone(),
            coverage: Coverage {
                wakeups: end.wakeups.since(&begin.wakeups),
                preemptions: end.preemptions.map(|terms| terms.since(&begin.preemptions.unwrap_or_default())),
                switch_ins: end.switch_ins.map(|terms| terms.since(&begin.switch_ins.unwrap_or_default())),
                missed: difference(end.missed, begin.missed),
                events_lost: difference(end.events_lost, begin.events_lost),
                text: end
                    .text
                    .as_ref()
                    .map(|text| begin.text.as_ref().map_or_else(|| text.clone(), |begin| text.since(begin))),
                ..end.clone()
            },
            threshold: None,
            overhead: self.overhead.map(|overhead| overhead.since(before.overhead.as_ref())),
            sampling: self.sampling,
        }
    }

    /// Whether the length of the window differs from the requested one by a tenth or more.
    pub fn has_unexpected_length(&self) -> bool {
        self.requested_ns
            .is_some_and(|requested_ns| self.duration_ns.abs_diff(requested_ns) >= requested_ns.div_ceil(10))
    }

    /// Whether the reader waited for a CPU for a tenth of the window or more, and may have been late with
    /// everything.
    pub fn reader_was_starved(&self) -> bool {
        self.duration_ns > 0
            && self.reader_waited_ns.is_some_and(|waited_ns| waited_ns >= self.duration_ns.div_ceil(10))
    }
}

/// The waits with one key and one class.
#[derive(Clone, Debug)]
pub struct Group {
    /// The values that the waits have in common, in the requested order; empty without grouping.
    pub key: Vec<KeyPart>,
    /// The class of the waits.
    pub class: GroupClass,
    /// The latencies of the waits.
    pub distribution: Arc<Distribution>,
    /// How long the tasks of the group ran in the window, up to its end if they still run then: ns; `None` if it is not
    /// known. In a measurement, it is known only of groups of one thread.
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

/// The result of a threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threshold {
    /// The threshold: ns.
    pub threshold_ns: u64,
    /// Waits at or above it.
    pub over: u64,
}
