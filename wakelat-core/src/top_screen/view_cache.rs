//! The figures of the page that is shown, computed once until something that they depend on changes.

use super::{
    data::{measured_time::MeasuredTime, task_names::TaskNames},
    state::page::{GroupsPage, TablePage},
    view::{
        group_details::{GroupDetails, caused_by},
        group_id::{GroupId, Grouping},
        group_rows::{GroupRows, SortColumn},
        selection::{Selection, TimeSpan},
        wait_filter::WaitFilter,
    },
};
use crate::render;

/// What all figures depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct DataKey {
    /// The generation of the data.
    pub generation: u64,
    /// The part of the time.
    pub span: TimeSpan,
    /// The text of the filter.
    pub filter: String,
}

/// Details of a group, and the time of the waits of others while it ran (ns), with their number, if it is a task.
type DetailsAndCaused = (GroupDetails, Option<(u64, usize)>);

/// The figures that were shown last.
#[derive(Default)]
pub struct ViewCache {
    rows: Option<(DataKey, RowsKey, GroupRows)>,
    details: Option<(DataKey, Vec<GroupId>, DetailsAndCaused)>,
}

#[derive(Clone, PartialEq)]
struct RowsKey {
    scope: Vec<GroupId>,
    grouping: Grouping,
    sort: SortColumn,
    reversed: bool,
}

/// Where figures come from.
pub struct FigureSource<'a> {
    /// The data.
    pub measured: &'a MeasuredTime,
    /// The names in it.
    pub names: &'a TaskNames,
    /// How names are written.
    pub style: &'a render::Style,
    /// What the figures depend on.
    pub key: DataKey,
    /// The filter.
    pub filter: &'a WaitFilter,
}

impl FigureSource<'_> {
    fn selection(&self, scope: Vec<GroupId>, page: &GroupsPage) -> (DataKey, Selection) {
        if page.is_unfiltered {
            (DataKey { filter: String::new(), ..self.key.clone() }, Selection { scope, ..Selection::default() })
        } else {
            (self.key.clone(), Selection { scope, filter: self.filter.clone() })
        }
    }
}

impl ViewCache {
    /// The rows of the table of a page.
    pub fn rows(&mut self, source: &FigureSource<'_>, page: &GroupsPage, table: &TablePage) -> &GroupRows {
        let (data, selection) = source.selection(page.scope.clone(), page);
        let TablePage { grouping, sort, reversed, .. } = *table;
        let key = RowsKey { scope: page.scope.clone(), grouping, sort, reversed };
        let cached = self.rows.take().filter(|(of_data, of, _)| *of_data == data && *of == key);
        let (.., rows) = self.rows.insert(cached.unwrap_or_else(|| {
            let tables = source.key.span.tables(source.measured);
            let mut rows = GroupRows::new(&tables, &selection, grouping, source.names);
            rows.sort(sort, reversed, |group| group.name(source.names, source.style));
            (data, key, rows)
        }));
        rows
    }

    /// The rows that were shown last.
    pub fn shown_rows(&self) -> Option<&GroupRows> {
        self.rows.as_ref().map(|(.., rows)| rows)
    }

    /// The details that a page shows.
    pub fn details(&mut self, source: &FigureSource<'_>, page: &GroupsPage) -> &DetailsAndCaused {
        let (data, selection) = source.selection(page.subject(), page);
        let cached = self.details.take().filter(|(of_data, of, _)| *of_data == data && *of == selection.scope);
        let (.., details) = self.details.insert(cached.unwrap_or_else(|| {
            let caused = match selection.scope.last() {
                Some(GroupId::Task(tid, comm)) => {
                    Some(caused_by(&source.key.span.tables(source.measured), *tid, *comm))
                }
                _ => None,
            };
            let details = GroupDetails::new(source.measured, source.key.span, &selection, source.names);
            (data, selection.scope, (details, caused))
        }));
        details
    }

    /// The details that were shown last.
    pub fn shown_details(&self) -> Option<&GroupDetails> {
        self.details.as_ref().map(|(.., (details, _))| details)
    }
}
