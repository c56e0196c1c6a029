//! The JSON documents of fork bursts and of all forks.

use serde::Serialize;

use crate::{
    render::Style,
    wait::Comm,
    why::{
        fork_bursts::{ForkBurst, ForkCounts},
        render::fork_burst,
    },
};

/// A fork burst: many forks by tasks of one name, whose children delayed other tasks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ForkBurstDocument {
    /// Name of the tasks that created others.
    comm: String,
    /// Number of tasks that they created.
    tasks: u64,
    /// Number of programs that these tasks executed (`execve`).
    execs: u64,
    /// Time of these tasks in the waits of others: ns.
    sum_ns: u128,
    /// Total of all waits: ns.
    of_ns: u128,
    /// The same in words.
    evidence: String,
    /// What to do about it.
    remedy: &'static str,
}

impl ForkBurstDocument {
    pub(super) fn new(found: &ForkBurst) -> Self {
        Self {
            comm: found.comm.to_string(),
            tasks: found.tasks,
            execs: found.execs,
            sum_ns: found.sum.ns,
            of_ns: found.total_ns,
            evidence: fork_burst::evidence(found, &Style::default()),
            remedy: fork_burst::REMEDY,
        }
    }
}

/// The forks and execs of a window.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ForkCountsDocument {
    /// Number of tasks.
    tasks: u64,
    /// How often a task executed a program (`execve`).
    execs: u64,
    /// The ten names whose tasks created most tasks.
    parents: Vec<ParentDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ParentDocument {
    /// Name of the tasks that created others.
    comm: String,
    /// Number of tasks that they created.
    tasks: u64,
    /// Number of programs that these tasks executed (`execve`).
    execs: u64,
}

impl ForkCountsDocument {
    pub(super) fn new(forks: &ForkCounts) -> Self {
        let parent = |(comm, tasks, programs): &(Comm, u64, u64)| ParentDocument {
            comm: comm.to_string(),
            tasks: *tasks,
            execs: *programs,
        };
        Self { tasks: forks.tasks, execs: forks.execs, parents: forks.parents.iter().map(parent).collect() }
    }
}
