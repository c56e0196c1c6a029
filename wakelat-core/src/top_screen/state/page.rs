//! The pages.

use std::sync::Arc;

use super::{hit::Panel, list_position::ListPosition};
use crate::top_screen::{
    data::kept_wait::KeptWait,
    view::{
        group_id::{GroupId, Grouping},
        group_rows::SortColumn,
    },
};

/// A page.
#[derive(Clone, Debug)]
pub enum ScreenPage {
    /// Groups, and details of the selected one.
    Groups(GroupsPage),
    /// One wait.
    Wait(WaitPage),
    /// The CPUs.
    Cpus(ListPosition),
    /// Whether the figures can be trusted.
    Trust(ListPosition),
    /// The keys.
    Help(ListPosition),
}

/// Groups, and details of the selected one; or the details of one group.
#[derive(Clone, Debug, Default)]
pub struct GroupsPage {
    /// The groups that the waits belong to.
    pub scope: Vec<GroupId>,
    /// The filter does not apply: the page shows a culprit, which the filter need not accept.
    pub is_unfiltered: bool,
    /// The table; none if only details are shown.
    pub table: Option<TablePage>,
    /// Where the keys move.
    pub panel: Panel,
    /// The selected culprit.
    pub causes: ListPosition,
    /// The selected wait.
    pub waits: ListPosition,
}

/// A table of groups.
#[derive(Clone, Debug)]
pub struct TablePage {
    /// What the groups are.
    pub grouping: Grouping,
    /// The column that they are sorted by.
    pub sort: SortColumn,
    /// The smallest first.
    pub reversed: bool,
    /// The selected group.
    pub selected: GroupId,
    /// Its row.
    pub rows: ListPosition,
}

/// One wait.
#[derive(Clone, Debug)]
pub struct WaitPage {
    /// The wait.
    pub wait: Arc<KeptWait>,
    /// The selected share.
    pub shares: ListPosition,
}

impl TablePage {
    /// A table of all tasks.
    pub fn new(grouping: Grouping) -> Self {
        Self {
            grouping,
            sort: SortColumn::Total,
            reversed: false,
            selected: GroupId::All,
            rows: ListPosition::default(),
        }
    }
}

impl GroupsPage {
    /// The first page: all tasks.
    pub fn first() -> Self {
        Self { table: Some(TablePage::new(Grouping::Task)), ..Self::default() }
    }

    /// The tasks of a group.
    pub fn tasks_of(scope: Vec<GroupId>) -> Self {
        Self { scope, ..Self::first() }
    }

    /// The details of a group.
    pub fn details(scope: Vec<GroupId>) -> Self {
        Self { scope, panel: Panel::Waits, ..Self::default() }
    }

    /// The groups whose details are shown.
    pub fn subject(&self) -> Vec<GroupId> {
        let selected = self.table.as_ref().map(|table| table.selected).filter(|selected| *selected != GroupId::All);
        self.scope.iter().copied().chain(selected).collect()
    }

    /// The panels that keys move in, in the order of the key that changes it.
    pub fn next_panel(&mut self, forward: bool) {
        let panels = [Panel::Groups, Panel::Causes, Panel::Waits];
        let panels = if self.table.is_some() { &panels[..] } else { &panels[1..] };
        let at = panels.iter().position(|panel| *panel == self.panel).unwrap_or(0);
        let step = if forward { 1 } else { panels.len() - 1 };
        self.panel = panels[(at + step) % panels.len()];
    }
}

impl WaitPage {
    /// A wait: the culprit with the most time is selected.
    pub fn new(wait: Arc<KeptWait>) -> Self {
        let main = wait.main_culprit().key();
        let at = wait.shares.iter().position(|share| share.culprit.key() == main).unwrap_or(0);
        Self { wait, shares: ListPosition::new(at) }
    }
}
