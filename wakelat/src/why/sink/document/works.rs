//! What workers of workqueues did while others waited for them.

use serde::Serialize;

use crate::{
    timeline::{Breakdown, part::Actor},
    why::Summary,
};

/// What a function of a worker had.
#[derive(Serialize)]
pub struct WorkItemDocument {
    function: String,
    sum_ns: u128,
}

impl WorkItemDocument {
    /// Those of one that was in the way.
    pub fn of_interferer(who: &Actor, summary: &Summary) -> Vec<Self> {
        let Actor::Task(task) = who else { return Vec::new() };
        let works = summary.work_items.get(&(task.tid, task.comm)).into_iter().flatten();
        works.map(|work| Self { function: work.function.clone(), sum_ns: work.ns }).collect()
    }

    /// Those in one share of a wait.
    pub fn of_share(account: &Breakdown, share: usize, summary: &Summary) -> Vec<Self> {
        let works = account.work_items.iter().filter(|did| did.share == share);
        works.map(|did| Self { function: summary.functions[&did.function].clone(), sum_ns: did.ns.into() }).collect()
    }
}
