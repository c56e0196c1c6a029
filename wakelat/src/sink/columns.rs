//! Lines for people in columns that stay where they are.

use std::io::{self, Write};

use super::{
    RenderContext,
    style::{Style, TextStyle},
    text::{TextLine, left, right},
};

/// What a line shows about a `T`.
pub struct Column<T: 'static> {
    /// What stands above it.
    pub title: &'static str,
    /// Terminal columns it needs.
    pub min_width: usize,
    /// And as many as it can use.
    pub max_width: usize,
    /// Numbers stand at the right.
    pub align_right: bool,
    /// Its looks.
    pub style: TextStyle,
    /// The text, given the columns for it.
    pub cell: fn(&T, &RenderContext, usize, &Style) -> String,
}

impl<T> Column<T> {
    /// When.
    pub const fn time(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "time", min_width: 15, max_width: 16, align_right: true, style: TextStyle::Dim, cell }
    }

    /// On which CPU.
    pub const fn cpu(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "cpu", min_width: 4, max_width: 4, align_right: true, style: TextStyle::Plain, cell }
    }

    /// Why it waited.
    pub const fn class(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "class", min_width: 9, max_width: 9, align_right: false, style: TextStyle::Dim, cell }
    }
}

/// The columns that there is room for.
pub struct Columns<T: 'static> {
    style: Style,
    /// With the terminal columns each takes.
    columns: Vec<(&'static Column<T>, usize)>,
}

/// Terminal columns between columns.
pub const GAP: usize = 2;

impl<T> Columns<T> {
    /// Chooses among `all`, beside `taken` terminal columns that are spoken for. Where room is short, those named in `go`
    /// go, first to last. Off a terminal nothing breaks long lines, so that all are there.
    pub fn new(all: impl IntoIterator<Item = &'static Column<T>>, go: &[&str], taken: usize, style: Style) -> Self {
        let mut columns: Vec<(&Column<T>, usize)> = all.into_iter().map(|column| (column, column.min_width)).collect();
        if !style.terminal {
            columns.iter_mut().for_each(|(column, width)| *width = column.max_width);
            return Self { style, columns };
        }
        let room = style.columns().saturating_sub(taken);
        let width = |columns: &[(&Column<T>, usize)]| columns.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
        for title in go {
            if width(&columns) > room {
                columns.retain(|(column, _)| column.title != *title);
            }
        }
        let mut spare = room.saturating_sub(width(&columns));
        for (column, width) in &mut columns {
            let more = spare.min(column.max_width - column.min_width);
            *width += more;
            spare -= more;
        }
        Self { style, columns }
    }

    /// The titles.
    pub fn titles(&self) -> TextLine {
        self.line(|column, _| (TextStyle::Title, column.title.to_owned()))
    }

    /// A line about `item`.
    pub fn cells(&self, item: &T, context: &RenderContext) -> TextLine {
        self.line(|column, width| (column.style, (column.cell)(item, context, width, &self.style)))
    }

    fn line(&self, cell: impl Fn(&Column<T>, usize) -> (TextStyle, String)) -> TextLine {
        let mut line = TextLine::new();
        for (index, (column, width)) in self.columns.iter().enumerate() {
            if index > 0 {
                line.push(TextStyle::Plain, " ".repeat(GAP));
            }
            let (ink, text) = cell(column, *width);
            line.push(ink, if column.align_right { right(&text, *width) } else { left(&text, *width, &self.style) });
        }
        line
    }
}

/// Writes a line in one piece, cut to the terminal's columns where it goes to one.
///
/// # Errors
/// Those of `out`.
pub fn write(line: &TextLine, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    line.finish_within(if style.terminal { style.columns() } else { usize::MAX }, style, &mut text);
    out.write_all(text.as_bytes())
}

/// When something was, as a cell: the time of day where timestamps are asked for.
pub fn time(at_ns: u64, context: &RenderContext, style: &Style) -> String {
    style.instant(at_ns, context.unix_offset_ns)
}
