//! What keys and the mouse do.

use super::{
    ScreenAction, TopScreen,
    state::{
        hit::{Hit, Panel},
        list_position::{ListPosition, Move},
        page::{GroupsPage, ScreenPage, TablePage, WaitPage},
    },
    view::{
        cpu_rows::CpuRows,
        group_details::GroupDetails,
        group_id::{GroupId, Grouping},
        group_rows::SortColumn,
    },
};
use crate::{
    terminal_input::TerminalKey,
    timeline::component::{Actor, Culprit},
};

/// Most pages that lead back.
const MAX_PAGES: usize = 64;

/// A length that no text reaches: where it ends is known when it is drawn.
const ANY_LENGTH: usize = 1 << 16;

impl TopScreen {
    /// Handles a key.
    pub(super) fn key(&mut self, key: TerminalKey) -> ScreenAction {
        if self.filter.is_open() {
            return redraw_if(self.filter.key(key));
        }
        match key {
            TerminalKey::Char('q' | 'Q') => ScreenAction::Quit,
            TerminalKey::Char('s') => ScreenAction::SaveRecording,
            TerminalKey::Char('h') => ScreenAction::SaveReport,
            TerminalKey::Up => self.go(Move::By(-1)),
            TerminalKey::Down => self.go(Move::By(1)),
            TerminalKey::PageUp => self.go(Move::Page(-1)),
            TerminalKey::PageDown => self.go(Move::Page(1)),
            TerminalKey::Home => self.go(Move::First),
            TerminalKey::End => self.go(Move::Last),
            TerminalKey::Enter if self.bar.has_keys => {
                self.bar.has_keys = false;
                ScreenAction::Redraw
            }
            TerminalKey::Enter => self.open(),
            TerminalKey::Escape | TerminalKey::Backspace => self.back(),
            TerminalKey::Tab | TerminalKey::BackTab => self.next_panel(key == TerminalKey::Tab),
            TerminalKey::Left => self.left_or_right(-1),
            TerminalKey::Right => self.left_or_right(1),
            TerminalKey::Char('<') => self.sort_beside(-1),
            TerminalKey::Char('>') => self.sort_beside(1),
            TerminalKey::Char(character) => self.character(character),
            TerminalKey::Ctrl(_) => ScreenAction::Nothing,
        }
    }

    fn character(&mut self, character: char) -> ScreenAction {
        let measured = self.frozen.as_deref().unwrap_or(&self.measuring.measured);
        match character {
            '[' if self.bar.has_keys => self.bar.shift(0, -1, measured),
            ']' if self.bar.has_keys => self.bar.shift(0, 1, measured),
            't' => self.bar.toggle(measured),
            'i' => self.bar.change_span(),
            ' ' if self.frozen.is_some() => self.frozen = None,
            ' ' => self.frozen = Some(Box::new(measured.clone())),
            '/' => {
                self.bar.has_keys = false;
                self.filter.open();
            }
            '1' => self.pages.truncate(1),
            'c' | 'v' | '?' => self.show(character),
            'g' => return self.group(),
            'r' => return self.on_table(|page| page.reversed = !page.reversed),
            _ => return ScreenAction::Nothing,
        }
        ScreenAction::Redraw
    }

    /// Shows a page that a key belongs to; the same key leads back.
    fn show(&mut self, key: char) {
        let position = ListPosition::default();
        let is_open = match self.pages.last() {
            Some(ScreenPage::Cpus(_)) => key == 'c',
            Some(ScreenPage::Trust(_)) => key == 'v',
            Some(ScreenPage::Help(_)) => key == '?',
            _ => false,
        };
        match key {
            _ if is_open => _ = self.back(),
            'c' => self.push(ScreenPage::Cpus(position)),
            'v' => self.push(ScreenPage::Trust(position)),
            _ => self.push(ScreenPage::Help(position)),
        }
    }

    fn push(&mut self, page: ScreenPage) {
        self.bar.has_keys = false;
        if self.pages.len() == MAX_PAGES {
            self.pages.remove(1);
        }
        self.pages.push(page);
    }

    fn back(&mut self) -> ScreenAction {
        if self.bar.has_keys {
            self.bar.drop();
        } else if self.pages.len() > 1 {
            self.pages.pop();
        } else {
            return redraw_if(self.filter.drop());
        }
        ScreenAction::Redraw
    }

    fn next_panel(&mut self, forward: bool) -> ScreenAction {
        let Some(ScreenPage::Groups(page)) = self.pages.last_mut() else { return ScreenAction::Nothing };
        page.next_panel(forward);
        ScreenAction::Redraw
    }

    fn on_table(&mut self, change: impl FnOnce(&mut TablePage)) -> ScreenAction {
        let Some(ScreenPage::Groups(GroupsPage { table: Some(table), .. })) = self.pages.last_mut() else {
            return ScreenAction::Nothing;
        };
        change(table);
        ScreenAction::Redraw
    }

    fn group(&mut self) -> ScreenAction {
        self.on_table(|table| {
            table.grouping = table.grouping.next();
            table.selected = GroupId::All;
        })
    }

    fn left_or_right(&mut self, by: i64) -> ScreenAction {
        if self.bar.has_keys {
            let measured = self.frozen.as_deref().unwrap_or(&self.measuring.measured);
            self.bar.shift(by, 0, measured);
            return ScreenAction::Redraw;
        }
        self.sort_beside(by as isize)
    }

    fn sort_beside(&mut self, by: isize) -> ScreenAction {
        self.on_table(|table| table.sort = table.sort.beside(by))
    }

    fn sort_by(&mut self, column: SortColumn) -> ScreenAction {
        self.on_table(|table| {
            table.reversed = table.sort == column && !table.reversed;
            table.sort = column;
        })
    }

    /// Moves in the list that has the keys.
    fn go(&mut self, to: Move) -> ScreenAction {
        let details = self.cache.shown_details();
        let of_details = |length: fn(&GroupDetails) -> usize| details.map_or(0, length);
        match self.pages.last_mut() {
            Some(ScreenPage::Groups(page)) => match (page.panel, &mut page.table) {
                (Panel::Groups, Some(table)) => {
                    let Some(rows) = self.cache.shown_rows() else { return ScreenAction::Nothing };
                    table.rows.at = rows.position(&table.selected);
                    table.rows.go(to, rows.rows());
                    table.selected = rows.row(table.rows.at).id;
                    (page.causes.at, page.waits.at) = (0, 0);
                }
                (Panel::Causes, _) => page.causes.go(to, of_details(GroupDetails::causes)),
                _ => page.waits.go(to, of_details(|details| details.longest.len())),
            },
            Some(ScreenPage::Wait(page)) => {
                page.shares.go(to, page.wait.shares.len() + usize::from(page.wait.left_out.0 > 0))
            }
            Some(ScreenPage::Cpus(position)) => {
                let measured = self.frozen.as_deref().unwrap_or(&self.measuring.measured);
                position.go(to, measured.cpus.cpus().len());
            }
            Some(ScreenPage::Trust(position) | ScreenPage::Help(position)) => position.go(to, ANY_LENGTH),
            None => return ScreenAction::Nothing,
        }
        ScreenAction::Redraw
    }

    /// Opens what is selected.
    fn open(&mut self) -> ScreenAction {
        let next = match self.pages.last() {
            Some(ScreenPage::Groups(page)) => match (page.panel, &page.table) {
                (Panel::Groups, Some(table)) => {
                    let is_filter_off = page.is_unfiltered;
                    let subject = page.subject();
                    let mut next = match (table.selected, table.grouping) {
                        (GroupId::All, _) | (_, Grouping::Task) => GroupsPage::details(subject),
                        _ => GroupsPage::tasks_of(subject),
                    };
                    next.is_unfiltered = is_filter_off;
                    Some(ScreenPage::Groups(next))
                }
                (Panel::Causes, _) => {
                    let details = self.cache.shown_details();
                    let selected = details.and_then(|details| details.culprits.get(page.causes.at));
                    let Some((culprit, _)) = selected.copied() else { return ScreenAction::Nothing };
                    return self.open_culprit(&culprit);
                }
                _ => {
                    let details = self.cache.shown_details();
                    let wait = details.and_then(|details| details.longest.get(page.waits.at));
                    wait.map(|wait| ScreenPage::Wait(WaitPage::new(wait.clone())))
                }
            },
            Some(ScreenPage::Wait(page)) => {
                let Some(share) = page.wait.shares.get(page.shares.at) else { return ScreenAction::Nothing };
                let culprit = share.culprit;
                return self.open_culprit(&culprit);
            }
            Some(ScreenPage::Cpus(position)) => {
                let measured = self.frozen.as_deref().unwrap_or(&self.measuring.measured);
                let rows = CpuRows::new(measured, &[]);
                let cpu = rows.cpus.get(position.at).map(|row| GroupId::Cpu(row.cpu));
                cpu.map(|cpu| ScreenPage::Groups(GroupsPage::tasks_of(vec![cpu])))
            }
            _ => None,
        };
        let Some(next) = next else { return ScreenAction::Nothing };
        self.push(next);
        ScreenAction::Redraw
    }

    /// Opens the details of the task that made others wait, or the tasks that used up the quota of a cgroup.
    fn open_culprit(&mut self, culprit: &Culprit) -> ScreenAction {
        let page = match culprit.actor {
            Actor::Task(task) => GroupsPage::details(vec![GroupId::Task(task.tid, task.comm)]),
            Actor::Cgroup(Some(id)) => GroupsPage {
                table: Some(TablePage { sort: SortColumn::Run, ..TablePage::new(Grouping::Task) }),
                ..GroupsPage::tasks_of(vec![GroupId::Cgroup(id)])
            },
            _ => {
                self.message = Some("no task and no cgroup caused this: there is nothing to open".to_owned());
                return ScreenAction::Redraw;
            }
        };
        self.push(ScreenPage::Groups(GroupsPage { is_unfiltered: true, ..page }));
        ScreenAction::Redraw
    }

    /// Handles a click: what is selected already is opened.
    pub(super) fn click(&mut self, column: u16, row: u16) -> ScreenAction {
        if self.filter.is_open() && !self.filter.key(TerminalKey::Enter) {
            // An invalid filter has to be corrected or dropped first.
            return ScreenAction::Nothing;
        }
        let Some(hit) = self.hits.at(column, row) else { return ScreenAction::Redraw };
        let (panel, at) = match hit {
            Hit::Key(key) => {
                return self.key(TerminalKey::Char(key));
            }
            Hit::Sort(column) => return self.sort_by(column),
            Hit::Row(panel, at) => (panel, at),
        };
        let is_selected = match self.pages.last_mut() {
            Some(ScreenPage::Groups(page)) => {
                let had_keys = std::mem::replace(&mut page.panel, panel) == panel;
                let was_at = match (panel, &mut page.table) {
                    (Panel::Groups, Some(table)) => {
                        let Some(rows) = self.cache.shown_rows() else { return ScreenAction::Nothing };
                        let was = rows.position(&table.selected);
                        table.selected = rows.row(at).id;
                        if was != at {
                            (page.causes.at, page.waits.at) = (0, 0);
                        }
                        was
                    }
                    (Panel::Causes, _) => std::mem::replace(&mut page.causes.at, at),
                    _ => std::mem::replace(&mut page.waits.at, at),
                };
                had_keys && was_at == at
            }
            Some(ScreenPage::Wait(page)) => std::mem::replace(&mut page.shares.at, at) == at,
            Some(ScreenPage::Cpus(position)) => std::mem::replace(&mut position.at, at) == at,
            _ => return ScreenAction::Nothing,
        };
        if is_selected { self.open() } else { ScreenAction::Redraw }
    }

    /// Handles the wheel.
    pub(super) fn scroll(&mut self, up: bool) -> ScreenAction {
        let rows = if matches!(self.pages.last(), Some(ScreenPage::Trust(_) | ScreenPage::Help(_))) { 3 } else { 1 };
        self.go(Move::By(if up { -rows } else { rows }))
    }
}

fn redraw_if(is_needed: bool) -> ScreenAction {
    if is_needed { ScreenAction::Redraw } else { ScreenAction::Nothing }
}
