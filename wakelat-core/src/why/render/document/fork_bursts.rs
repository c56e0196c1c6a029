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
pub(super) struct ForkBurstDocument {
    comm: String,
    tasks: u64,
    execs: u64,
    sum_ns: u128,
    of_ns: u128,
    evidence: String,
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
pub(super) struct ForkCountsDocument {
    tasks: u64,
    execs: u64,
    parents: Vec<ParentDocument>,
}

#[derive(Serialize)]
struct ParentDocument {
    comm: String,
    tasks: u64,
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
