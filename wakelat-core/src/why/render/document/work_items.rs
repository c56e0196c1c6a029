//! The JSON document of a work item: what a worker of a workqueue ran while others waited for it.

use serde::Serialize;

use crate::{
    timeline::{Breakdown, component::Actor},
    why::Summary,
};

/// The waiting time caused by a function that a worker ran.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkItemDocument {
    /// Name of the function.
    function: String,
    /// Its time in the waits of others: ns.
    sum_ns: u128,
}

impl WorkItemDocument {
    /// The work items of an interferer; none if it is not a worker.
    pub fn of_interferer(actor: &Actor, summary: &Summary) -> Vec<Self> {
        let Actor::Task(task) = actor else { return Vec::new() };
        let items = summary.work_items.get(&(task.tid, task.comm)).into_iter().flatten();
        items.map(|item| Self { function: item.function.clone(), sum_ns: item.ns }).collect()
    }

    /// The work items in one share of a wait.
    pub fn of_share(breakdown: &Breakdown, share: usize, summary: &Summary) -> Vec<Self> {
        let items = breakdown.work_items.iter().filter(|item| item.share == share);
        items.map(|item| Self { function: summary.functions[&item.function].clone(), sum_ns: item.ns.into() }).collect()
    }
}
