//! The waits and run times of all tasks in an interval.

use std::{cmp::Reverse, sync::Arc};

use wakelat_common::Class;

use super::{kept_wait::KeptWait, longest_kept::LongestKept, wait_buckets::WaitBuckets, wait_sum::WaitSum};
use crate::{
    hash::HashMap,
    timeline::{Breakdown, event::TaskInfo},
    wait::Comm,
};

/// What identifies a task, and the groups that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub pid: u32,
    /// Name.
    pub comm: Comm,
    /// Cgroup; 0 if unknown.
    pub cgroup_id: u64,
}

/// The waits of a task, of one class, that ended on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitCell {
    /// The task.
    pub task: TaskKey,
    /// The CPU.
    pub cpu: u32,
    /// The class.
    pub class: Class,
}

/// The waits and run times of all tasks in an interval, or in several.
#[derive(Clone, Debug, Default)]
pub struct WaitTable {
    /// When the interval begins and ends: ns of CLOCK_MONOTONIC.
    pub span_ns: (u64, u64),
    /// The total latency of all waits: ns.
    pub ns: u64,
    /// The latencies of all waits.
    pub latencies: WaitBuckets,
    /// The waits.
    pub waits: HashMap<WaitCell, WaitSum>,
    /// How long each task ran on each CPU: ns.
    pub runs: HashMap<(TaskKey, u32), u64>,
    /// The longest waits of all.
    pub longest: LongestKept,
    /// Waits that are counted for `(other)`, because there was no room for more tasks.
    pub merged_waits: u64,
}

impl TaskKey {
    /// Stands for all tasks that there was no room for.
    pub const OTHER: u32 = u32::MAX;

    /// The key of a task.
    pub fn new(task: &TaskInfo) -> Self {
        Self { tid: task.tid, pid: task.pid, comm: task.comm, cgroup_id: task.cgroup_id.unwrap_or(0) }
    }

    /// All tasks that there was no room for.
    pub fn other() -> Self {
        Self { tid: Self::OTHER, pid: Self::OTHER, comm: Comm::new(b"(other)"), cgroup_id: u64::MAX }
    }

    /// Whether it stands for all tasks that there was no room for.
    pub fn is_other(&self) -> bool {
        self.tid == Self::OTHER
    }
}

impl WaitTable {
    /// Number of the longest waits.
    const LONGEST: usize = 48;

    /// Adds a wait. `keep` makes what is kept of it, if it is one of the longest.
    pub fn add(&mut self, breakdown: &Breakdown, keep: impl FnOnce() -> KeptWait) {
        let wait = &breakdown.ended_wait.wait;
        self.ns = self.ns.saturating_add(breakdown.latency_ns);
        self.latencies.add(breakdown.latency_ns);
        let cell = WaitCell { task: TaskKey::new(&breakdown.waiter), cpu: wait.cpu, class: wait.class };
        let mut kept = None;
        let of_task = || {
            let wait = Arc::new(keep());
            kept = Some(Arc::clone(&wait));
            wait
        };
        self.waits.entry(cell).or_default().add(breakdown, of_task);
        match kept.filter(|_| self.longest.wants(breakdown.latency_ns, Self::LONGEST)) {
            Some(kept) => self.longest.add(kept, Self::LONGEST),
            None => self.longest.miss(breakdown.latency_ns),
        }
    }

    /// Adds run time of a task on a CPU: ns.
    pub fn add_run(&mut self, task: TaskKey, cpu: u32, ns: u64) {
        if ns > 0 {
            let sum = self.runs.entry((task, cpu)).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// Adds the waits and run times of another interval.
    pub fn merge(&mut self, other: &Self) {
        let (from_ns, to_ns) = other.span_ns;
        self.span_ns = match self.span_ns {
            (_, 0) => other.span_ns,
            (from, to) => (from.min(from_ns), to.max(to_ns)),
        };
        self.ns = self.ns.saturating_add(other.ns);
        self.latencies.merge(&other.latencies);
        for (cell, sum) in &other.waits {
            self.waits.entry(*cell).or_default().merge(sum);
        }
        other.runs.iter().for_each(|((task, cpu), ns)| self.add_run(*task, *cpu, *ns));
        self.longest.merge(&other.longest, Self::LONGEST);
        self.merged_waits += other.merged_waits;
    }

    /// Number of entries: what the table takes in memory.
    pub fn size(&self) -> usize {
        self.waits.len() + self.runs.len() / 4
    }

    /// If there are more than `most` entries, merges those with the least time into `(other)`.
    pub fn shorten(&mut self, most: usize) {
        let kept = most - most / 8;
        if self.waits.len() > most {
            let mut order: Vec<(Reverse<u64>, WaitCell)> =
                self.waits.iter().map(|(cell, sum)| (Reverse(sum.figures.ns), *cell)).collect();
            order.sort_unstable();
            for (_, cell) in order.split_off(kept).into_iter().filter(|(_, cell)| !cell.task.is_other()) {
                if let Some(sum) = self.waits.remove(&cell) {
                    self.merged_waits += sum.figures.waits;
                    let cell = WaitCell { task: TaskKey::other(), ..cell };
                    self.waits.entry(cell).or_default().merge(&sum);
                }
            }
        }
        if self.runs.len() > most {
            let mut order: Vec<(Reverse<u64>, (TaskKey, u32))> =
                self.runs.iter().map(|(key, ns)| (Reverse(*ns), *key)).collect();
            order.sort_unstable();
            for (_, key) in order.split_off(kept).into_iter().filter(|(_, (task, _))| !task.is_other()) {
                let ns = self.runs.remove(&key).unwrap_or(0);
                self.add_run(TaskKey::other(), key.1, ns);
            }
        }
    }
}
