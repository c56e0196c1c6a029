//! The groups of a table: figures of each.

use std::sync::Arc;

use super::{
    group_id::{GroupId, Grouping},
    selection::Selection,
};
use crate::{
    aggregate::percentile_rank::Percentile,
    hash::HashMap,
    top_screen::data::{task_names::TaskNames, wait_sum::WaitFigures, wait_table::WaitTable},
};

/// A column that the groups can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortColumn {
    /// By name.
    Name,
    /// How long the group ran.
    Run,
    /// The number of waits.
    Waits,
    /// The total wait.
    Total,
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
    /// The longest wait.
    Longest,
}

impl SortColumn {
    /// All, from left to right.
    pub const ALL: [Self; 7] = [Self::Name, Self::Run, Self::Waits, Self::Total, Self::P50, Self::P99, Self::Longest];

    /// The heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Run => "run time",
            Self::Waits => "waits",
            Self::Total => "total wait",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Longest => "longest",
        }
    }

    /// The column `steps` to the right, around the ends.
    pub fn beside(self, steps: isize) -> Self {
        let at = Self::ALL.iter().position(|other| *other == self).unwrap_or(0) as isize;
        Self::ALL[(at + steps).rem_euclid(Self::ALL.len() as isize) as usize]
    }
}

/// A group.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// The group.
    pub id: GroupId,
    /// How long it ran: ns.
    pub run_ns: u64,
    /// Its waits.
    pub figures: WaitFigures,
}

/// The groups, and the sum of all.
#[derive(Clone, Debug)]
pub struct GroupRows {
    /// All that is selected.
    pub all: GroupRow,
    /// The groups, sorted.
    pub groups: Vec<GroupRow>,
}

impl GroupRow {
    /// A percentile of its latencies: ns.
    pub fn percentile_ns(&self, percentile: Percentile) -> u64 {
        self.figures.percentile_ns(percentile)
    }
}

impl GroupRows {
    /// The groups of the waits and run times that are selected.
    pub fn new(tables: &[Arc<WaitTable>], selection: &Selection, grouping: Grouping, names: &TaskNames) -> Self {
        let mut groups: HashMap<GroupId, (Vec<&WaitFigures>, u64)> = HashMap::default();
        for table in tables {
            for (cell, sum) in table.waits.iter().filter(|(cell, _)| selection.has(cell, names)) {
                groups.entry(grouping.of(&cell.task, cell.cpu)).or_default().0.push(&sum.figures);
            }
            for ((task, cpu), ns) in table.runs.iter().filter(|((task, cpu), _)| selection.has_run(task, *cpu, names)) {
                let run_ns = &mut groups.entry(grouping.of(task, *cpu)).or_default().1;
                *run_ns = run_ns.saturating_add(*ns);
            }
        }
        let row = |(id, (figures, run_ns)): (GroupId, (Vec<&WaitFigures>, u64))| GroupRow {
            id,
            run_ns,
            figures: WaitFigures::sum_of(&figures),
        };
        let groups: Vec<GroupRow> = groups.into_iter().map(row).collect();
        let figures: Vec<&WaitFigures> = groups.iter().map(|group| &group.figures).collect();
        let run_ns = groups.iter().map(|group| group.run_ns).fold(0, u64::saturating_add);
        let all = GroupRow { id: GroupId::All, run_ns, figures: WaitFigures::sum_of(&figures) };
        Self { all, groups }
    }

    /// Sorts the groups: the largest first, names in alphabetical order, unless `reversed`.
    pub fn sort(&mut self, column: SortColumn, reversed: bool, name: impl Fn(&GroupId) -> String) {
        let by = |key: &dyn Fn(&GroupRow) -> u64, groups: &mut Vec<GroupRow>| {
            groups.sort_by_cached_key(|group| (std::cmp::Reverse(key(group)), group.id));
        };
        let groups = &mut self.groups;
        match column {
            SortColumn::Name => groups.sort_by_cached_key(|group| (name(&group.id).to_lowercase(), group.id)),
            SortColumn::Run => by(&|group| group.run_ns, groups),
            SortColumn::Waits => by(&|group| group.figures.waits, groups),
            SortColumn::Total => by(&|group| group.figures.ns, groups),
            SortColumn::P50 => by(&|group| group.percentile_ns(Percentile::P50), groups),
            SortColumn::P99 => by(&|group| group.percentile_ns(Percentile::P99), groups),
            SortColumn::Longest => by(&|group| group.figures.max_ns, groups),
        }
        if reversed {
            groups.reverse();
        }
    }

    /// The row of a group: 0 is the sum of all. Without the group, the sum.
    pub fn position(&self, id: &GroupId) -> usize {
        self.groups.iter().position(|group| group.id == *id).map_or(0, |at| at + 1)
    }

    /// A row: 0 is the sum of all.
    pub fn row(&self, at: usize) -> &GroupRow {
        match at {
            0 => &self.all,
            _ => self.groups.get(at - 1).unwrap_or(&self.all),
        }
    }

    /// Number of rows, with the sum.
    pub fn rows(&self) -> usize {
        self.groups.len() + 1
    }
}
