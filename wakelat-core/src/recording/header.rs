//! How a recording was measured.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use wakelat_common::Class;

use super::{Kept, MoreEvents};
use crate::report::LatencyFrom;

/// How the recording was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the wakelat that wrote it.
    pub version: String,
    /// The command line that recorded it, the program's name first.
    pub command_line: Vec<String>,
    /// The machine that was measured.
    pub machine: RecordedMachine,
    /// Offset from CLOCK_MONOTONIC to CLOCK_BOOTTIME, which also counts suspends, when the recording began, or, if it is
    /// the last part of a run, when it was written: ns.
    pub boottime_offset_ns: i64,
    /// The labels that the user gave it.
    pub labels: BTreeMap<String, String>,
    /// Why the last part of a run was written, if it is one: a sentence such as `a wait of 12 ms of nginx (TID 7)`.
    pub trigger: Option<String>,
    /// The event that starts a wakeup's latency.
    pub from: LatencyFrom,
    /// The classes of waits that were measured.
    pub classes: Vec<Class>,
    /// The shortest wait that was measured, if a threshold was given: ns.
    pub threshold_ns: Option<u64>,
    /// Whether all classes are merged into run-queue latency, which was requested by name.
    pub merged: bool,
    /// The events that were collected, besides switches.
    pub collected: CollectedEvents,
    /// The process that recorded it, unless its own threads were measured like all others.
    pub own_pid: Option<u32>,
    /// The recording begins with a warm-up, which ends with a [`super::Frame::WarmedUp`].
    pub has_warm_up: bool,
    /// What the recording keeps.
    pub kept: Kept,
    /// The events besides those that explain waits.
    pub more: MoreEvents,
    /// The waits come from the text of another tool's trace. Not part of a recording.
    #[serde(skip)]
    pub text: Option<TextSource>,
}

/// The text of a trace that waits are computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSource {
    /// What wrote the text.
    pub kind: TextKind,
    /// The delivery of each wakeup is known: the trace has both `sched_waking` and `sched_wakeup`.
    pub has_delivery: bool,
    /// The process of a thread is known.
    pub has_processes: bool,
    /// The precision of the times: ns.
    pub resolution_ns: u64,
}

/// What wrote the text of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// The kernel: `trace` or `trace_pipe` of tracefs.
    Ftrace,
    /// `trace-cmd report`.
    TraceCmd,
    /// `perf script`.
    PerfScript,
}

impl TextKind {
    /// What wrote the text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::TraceCmd => "trace-cmd report",
            Self::PerfScript => "perf script",
        }
    }
}

/// The machine on which a recording was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedMachine {
    /// Its host name.
    pub host: String,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The kernel's version, as `uname -v` prints it.
    pub kernel_version: String,
    /// The architecture, as `uname -m` prints it.
    pub architecture: String,
    /// The scheduler of fair tasks: `CFS`, `EEVDF`, or the name of a sched_ext scheduler.
    pub scheduler: String,
    /// The CPUs that were online, as in `/sys/devices/system/cpu/online`.
    pub cpus_online: String,
    /// The time zone, such as `Europe/Berlin`.
    pub time_zone: String,
}

/// Events that are collected besides every switch, to separate causes from the run time of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedEvents {
    /// Interrupts and softirqs.
    pub irq: bool,
    /// C-states.
    pub idle: bool,
    /// Throttling and steal time.
    pub throttling: bool,
    /// Work items of workqueues.
    pub workqueue: bool,
    /// Forks and execs, for fork bursts.
    pub fork: bool,
}

impl CollectedEvents {
    /// The causes that are not separated from the run time of tasks, in words.
    pub fn not_collected(self) -> Vec<&'static str> {
        let causes =
            [(self.irq, "IRQs and softirqs"), (self.idle, "C-states"), (self.throttling, "throttling and steal time")];
        causes.into_iter().filter(|(collected, _)| !collected).map(|(_, cause)| cause).collect()
    }

    /// The events that both collect.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self {
            irq: self.irq && other.irq,
            idle: self.idle && other.idle,
            throttling: self.throttling && other.throttling,
            workqueue: self.workqueue && other.workqueue,
            fork: self.fork && other.fork,
        }
    }
}

impl fmt::Display for RecordedMachine {
    /// Writes what distinguishes the machine of one recording from that of another, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, kernel, architecture, scheduler, cpus_online, .. } = self;
        // The text of a trace may name none of them but the CPUs.
        let known = |text: &str, before: &str, after: &str| {
            if text.is_empty() { String::new() } else { format!("{before}{text}{after}") }
        };
        f.write_str(&known(host, "", ", "))?;
        f.write_str(&known(kernel, "Linux ", ""))?;
        f.write_str(&known(architecture, " ", ""))?;
        f.write_str(&known(scheduler, " (", ")"))?;
        write!(f, "{}CPUs {cpus_online}", if kernel.is_empty() { "" } else { ", " })
    }
}
