//! What a click does, by its place.

use ratatui::layout::{Position, Rect};

use crate::top_screen::view::group_rows::SortColumn;

/// A part of the screen that keys move in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Panel {
    /// The table of groups.
    #[default]
    Groups,
    /// The culprits of a group.
    Causes,
    /// The longest waits of a group.
    Waits,
}

/// What is at a place on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A row of a panel.
    Row(Panel, usize),
    /// The heading of a column.
    Sort(SortColumn),
    /// A name in the first line that does what this key does.
    Key(char),
}

/// The places of the last drawn screen.
#[derive(Debug, Default)]
pub struct HitAreas(Vec<(Rect, Hit)>);

impl HitAreas {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a place.
    pub fn add(&mut self, area: Rect, hit: Hit) {
        self.0.push((area, hit));
    }

    /// What is at a place.
    pub fn at(&self, column: u16, row: u16) -> Option<Hit> {
        let position = Position::new(column, row);
        self.0.iter().rev().find(|(area, _)| area.contains(position)).map(|(_, hit)| *hit)
    }
}
