//! Who made many tasks.

use serde::Serialize;

use crate::{
    sink::Style,
    why::{sink::storm, storms::Storm},
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
