//! Who made many tasks.

use serde::Serialize;

use crate::{
    sink::Style,
    wait::Comm,
    why::{
        sink::storm,
        storms::{ForkBurst, ForkCounts},
    },
};

/// Tasks of one name made many others, and those were in the way.
#[derive(Serialize)]
pub(super) struct ForkBurstDocument {
    comm: String,
    tasks: u64,
    programs: u64,
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
            programs: found.execs,
            sum_ns: found.sum.ns,
            of_ns: found.total_ns,
            evidence: storm::evidence(found, &Style::default()),
            remedy: storm::REMEDY,
        }
    }
}

/// The tasks that were made.
#[derive(Serialize)]
pub(super) struct ForkCountsDocument {
    tasks: u64,
    programs: u64,
    makers: Vec<ParentDocument>,
}

#[derive(Serialize)]
struct ParentDocument {
    comm: String,
    tasks: u64,
    programs: u64,
}

impl ForkCountsDocument {
    pub(super) fn new(forks: &ForkCounts) -> Self {
        let maker = |(comm, tasks, programs): &(Comm, u64, u64)| ParentDocument {
            comm: comm.to_string(),
            tasks: *tasks,
            programs: *programs,
        };
        Self { tasks: forks.tasks, programs: forks.execs, makers: forks.parents.iter().map(maker).collect() }
    }
}
