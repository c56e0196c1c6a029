//! The selected row of a list, and the part of the list that is visible.

use std::ops::Range;

/// The selected row of a list, and the first visible one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListPosition {
    /// The selected row.
    pub at: usize,
    first: usize,
    /// Number of rows that were visible last.
    height: usize,
}

/// How to move in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// By rows, down or up.
    By(isize),
    /// By what is visible, down or up.
    Page(isize),
    /// To the first row.
    First,
    /// To the last row.
    Last,
}

impl ListPosition {
    /// This row is selected.
    pub fn new(at: usize) -> Self {
        Self { at, ..Self::default() }
    }

    /// Moves in a list of `length` rows.
    pub fn go(&mut self, to: Move, length: usize) {
        let last = length.saturating_sub(1);
        let by = |rows: isize| self.at.min(last).saturating_add_signed(rows).min(last);
        self.at = match to {
            Move::By(rows) => by(rows),
            Move::Page(pages) => by(pages.saturating_mul(self.height.saturating_sub(1).max(1) as isize)),
            Move::First => 0,
            Move::Last => last,
        };
    }

    /// The rows of a list of `length` that are visible in `height` rows: the selected one is among them.
    pub fn visible(&mut self, length: usize, height: usize) -> Range<usize> {
        self.height = height;
        self.at = self.at.min(length.saturating_sub(1));
        self.first =
            self.first.min(self.at).max((self.at + 1).saturating_sub(height)).min(length.saturating_sub(height));
        self.first..(self.first + height).min(length)
    }

    /// Scrolls text of `length` rows, which has no selected row: what is visible in `height` rows.
    pub fn scrolled(&mut self, length: usize, height: usize) -> Range<usize> {
        self.height = height;
        self.at = self.at.min(length.saturating_sub(height));
        self.at..(self.at + height).min(length)
    }
}
