//! What is selected: a part of the time, groups, and a filter.

use std::sync::Arc;

use super::{group_id::GroupId, wait_filter::WaitFilter};
use crate::top_screen::data::{
    measured_time::MeasuredTime,
    task_names::TaskNames,
    wait_table::{TaskKey, WaitCell, WaitTable},
};

/// A part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimeSpan {
    /// Since the start.
    #[default]
    All,
    /// The last interval of the run.
    Last,
    /// From one instant to another: ns of CLOCK_MONOTONIC.
    Between(u64, u64),
}

/// The groups and the filter.
#[derive(Clone, Default)]
pub struct Selection {
    /// The waits belong to all of these groups.
    pub scope: Vec<GroupId>,
    /// The filter.
    pub filter: WaitFilter,
}

impl Selection {
    /// Whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.scope.iter().all(|group| *group == GroupId::All) && self.filter.is_empty()
    }

    /// Whether these waits are selected.
    pub fn has(&self, cell: &WaitCell, names: &TaskNames) -> bool {
        self.scope.iter().all(|group| group.has(cell)) && self.filter.accepts(cell, names)
    }

    /// Whether the time that a task runs on a CPU is selected.
    pub fn has_run(&self, task: &TaskKey, cpu: u32, names: &TaskNames) -> bool {
        self.scope.iter().all(|group| group.has_run(task, cpu)) && self.filter.accepts_run(task, cpu, names)
    }
}

impl TimeSpan {
    /// The tables of this part of the time.
    pub fn tables(self, measured: &MeasuredTime) -> Vec<Arc<WaitTable>> {
        match self {
            Self::All => vec![Arc::clone(&measured.total)],
            Self::Last => vec![Arc::clone(&measured.last)],
            Self::Between(from_ns, to_ns) => {
                let inside = |number: u64| {
                    let begin_ns = number.saturating_mul(measured.interval_ns);
                    begin_ns < to_ns && begin_ns.saturating_add(measured.interval_ns) > from_ns
                };
                let tables = measured.intervals.iter().filter(|(number, _)| inside(*number));
                tables.map(|(_, table)| Arc::clone(table)).collect()
            }
        }
    }

    /// Begin and end of these tables, if there are any: ns of CLOCK_MONOTONIC.
    pub fn covers(tables: &[Arc<WaitTable>]) -> Option<(u64, u64)> {
        let spans = tables.iter().map(|table| table.span_ns).filter(|(_, to_ns)| *to_ns > 0);
        spans.reduce(|(from, to), (other_from, other_to)| (from.min(other_from), to.max(other_to)))
    }
}
