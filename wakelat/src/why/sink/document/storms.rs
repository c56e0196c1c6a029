//! Who made many tasks.

use serde::Serialize;

use crate::{
    sink::Style,
    wait::Comm,
    why::{
        sink::storm,
        storms::{Forks, Storm},
    },
};

/// Tasks of one name made many others, and those were in the way.
#[derive(Serialize)]
pub(super) struct StormDocument {
    comm: String,
    tasks: u64,
    programs: u64,
    sum_ns: u128,
    of_ns: u128,
    evidence: String,
    remedy: &'static str,
}

impl StormDocument {
    pub(super) fn new(found: &Storm) -> Self {
        Self {
            comm: found.comm.to_string(),
            tasks: found.tasks,
            programs: found.programs,
            sum_ns: found.had.ns,
            of_ns: found.whole_ns,
            evidence: storm::evidence(found, &Style::default()),
            remedy: storm::REMEDY,
        }
    }
}

/// The tasks that were made.
#[derive(Serialize)]
pub(super) struct ForksDocument {
    tasks: u64,
    programs: u64,
    makers: Vec<MakerDocument>,
}

#[derive(Serialize)]
struct MakerDocument {
    comm: String,
    tasks: u64,
    programs: u64,
}

impl ForksDocument {
    pub(super) fn new(forks: &Forks) -> Self {
        let maker = |(comm, tasks, programs): &(Comm, u64, u64)| MakerDocument {
            comm: comm.to_string(),
            tasks: *tasks,
            programs: *programs,
        };
        Self { tasks: forks.tasks, programs: forks.programs, makers: forks.makers.iter().map(maker).collect() }
    }
}
