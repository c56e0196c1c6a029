//! The overhead of measuring a window, and the sampling that limits it.

use serde::{Deserialize, Serialize};

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
    /// CPU time of the BPF programs.
    pub programs: ProgramTime,
}

/// CPU time of the BPF programs, estimated from the runs that they timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramTime {
    /// CPU time of all programs, without the kernel's calls of them: ns.
    pub ns: u64,
    /// Context switches of the whole machine outside pauses.
    pub switches: u64,
    /// Runs of programs that were timed.
    pub timed_runs: u64,
}

impl Overhead {
    /// CPU time of the programs and of wakelat itself: ns.
    pub fn total_ns(&self) -> u64 {
        self.tool_ns + self.programs.ns
    }

    /// The overhead since `before`, if both are totals since the same start.
    #[must_use]
    pub fn since(&self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return *self };
        Self {
            cpus: self.cpus,
            tool_ns: self.tool_ns.saturating_sub(before.tool_ns),
            programs: ProgramTime {
                ns: self.programs.ns.saturating_sub(before.programs.ns),
                switches: self.programs.switches.saturating_sub(before.programs.switches),
                timed_runs: self.programs.timed_runs.saturating_sub(before.programs.timed_runs),
            },
        }
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
