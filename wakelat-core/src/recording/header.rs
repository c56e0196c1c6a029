//! How a recording was measured.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use wakelat_common::Class;

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
    /// Offset from CLOCK_MONOTONIC to CLOCK_BOOTTIME, which also counts suspends, when the recording began: ns.
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
        write!(f, "{host}, Linux {kernel} {architecture} ({scheduler}), CPUs {cpus_online}")
    }
}
