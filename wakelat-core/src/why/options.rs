//! What a summary contains.

use crate::{aggregate::key::Key, report::LatencyFrom, timeline::stack_event::Role};

/// What a summary contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryOptions {
    /// Where the latency of a wakeup begins.
    pub from: LatencyFrom,
    /// The keys by which waits are grouped; if empty, there is one group per class.
    pub by: Vec<Key>,
    /// Whether all classes are merged into one.
    pub merged: bool,
    /// Maximum number of groups; the others are merged.
    pub max_groups: usize,
    /// How many of the longest waits to keep, of all waits and of each group.
    pub worst: usize,
    /// Causes that are not separated from run time, in words.
    pub not_collected: Vec<&'static str>,
    /// The tasks whose stacks are taken.
    pub stacks: Vec<Role>,
    /// The PIDs of wakelat itself, which measured.
    pub own_pids: Vec<u32>,
}
