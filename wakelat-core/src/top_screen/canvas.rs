//! A part of the terminal to draw on: whatever does not fit is cut.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{
    look::Look,
    state::hit::{Hit, HitAreas},
};
use crate::render::text_line::{fit, width};

/// A part of the terminal. Places are relative to it.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    hits: &'a mut HitAreas,
    /// Colours and characters.
    pub look: &'a Look,
}

impl<'a> Canvas<'a> {
    /// All of the terminal.
    pub fn new(buffer: &'a mut Buffer, hits: &'a mut HitAreas, look: &'a Look) -> Self {
        let area = buffer.area;
        Self { buffer, area, hits, look }
    }

    /// The width, in columns.
    pub fn width(&self) -> usize {
        self.area.width.into()
    }

    /// The height, in rows.
    pub fn height(&self) -> usize {
        self.area.height.into()
    }

    /// A part of it: column, row, width and height.
    pub fn part(&mut self, (x, y): (usize, usize), (columns, rows): (usize, usize)) -> Canvas<'_> {
        let area = self.inside((x, y), (columns, rows));
        Canvas { buffer: self.buffer, area, hits: self.hits, look: self.look }
    }

    /// The rows from `y` on, but at most `rows`.
    pub fn rows(&mut self, y: usize, rows: usize) -> Canvas<'_> {
        self.part((0, y), (self.width(), rows))
    }

    fn inside(&self, (x, y): (usize, usize), (columns, rows): (usize, usize)) -> Rect {
        let (x, y) = (x.min(self.width()), y.min(self.height()));
        let (columns, rows) = (columns.min(self.width() - x), rows.min(self.height() - y));
        // All are at most a width or a height, which are 16 bits.
        Rect::new(self.area.x + x as u16, self.area.y + y as u16, columns as u16, rows as u16)
    }

    /// Writes text, and returns the column behind it. It is cut at the right edge, but not in the middle of a number.
    pub fn text(&mut self, (x, y): (usize, usize), text: &str, style: Style) -> usize {
        if x >= self.width() || y >= self.height() {
            return x;
        }
        let room = self.width() - x;
        let text = fit(text, room, &self.look.text);
        let Rect { x: left, y: top, .. } = self.area;
        self.buffer.set_stringn(left + x as u16, top + y as u16, &text, room, style);
        x + width(&text)
    }

    /// Writes pieces of text one behind the other.
    pub fn line(&mut self, (mut x, y): (usize, usize), pieces: &[(&str, Style)]) -> usize {
        for (text, style) in pieces {
            x = self.text((x, y), text, *style);
        }
        x
    }

    /// Writes text that ends at column `end`. It is left out if it does not fit.
    pub fn right(&mut self, (end, y): (usize, usize), text: &str, style: Style) {
        if let Some(x) = end.checked_sub(width(text)) {
            self.text((x, y), text, style);
        }
    }

    /// Writes a character of one column.
    pub fn set(&mut self, (x, y): (usize, usize), character: char, style: Style) {
        self.text((x, y), character.encode_utf8(&mut [0; 4]), style);
    }

    /// Changes the style of a row, without its text.
    pub fn paint_row(&mut self, y: usize, style: Style) {
        let area = self.inside((0, y), (self.width(), 1));
        self.buffer.set_style(area, style);
    }

    /// From now on, a click into this part does that.
    pub fn on_click(&mut self, at: (usize, usize), columns: usize, hit: Hit) {
        let area = self.inside(at, (columns, 1));
        self.hits.add(area, hit);
    }
}
