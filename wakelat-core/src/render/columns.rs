//! Lines for people, in columns of a fixed width.

use std::io::{self, Write};

use super::{
    RenderContext,
    style::{Style, TextStyle},
    text_line::{TextLine, clean, fit, left, right},
};

/// A column of a table with a line for each `T`.
pub struct Column<T: 'static> {
    /// The heading of the column.
    pub title: &'static str,
    /// Minimum width, in columns of the terminal.
    pub min_width: usize,
    /// Maximum width, in columns of the terminal.
    pub max_width: usize,
    /// Whether the text is right-aligned, as numbers are.
    pub align_right: bool,
    /// The style of the cells.
    pub style: TextStyle,
    /// Formats the cell of a `T`, given its width in columns of the terminal.
    pub cell: fn(&T, &RenderContext, usize, &Style) -> String,
}

impl<T> Column<T> {
    /// A column for the time.
    pub const fn time(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "time", min_width: 15, max_width: 16, align_right: true, style: TextStyle::Dim, cell }
    }

    /// A column for the CPU.
    pub const fn cpu(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "cpu", min_width: 4, max_width: 4, align_right: true, style: TextStyle::Plain, cell }
    }

    /// A column for the recording, if there are several.
    pub const fn file(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "file", min_width: 8, max_width: 24, align_right: false, style: TextStyle::Plain, cell }
    }

    /// A column for the latency of a wait.
    pub const fn latency(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "latency", min_width: 8, max_width: 9, align_right: true, style: TextStyle::Strong, cell }
    }

    /// A column for the class of a wait.
    pub const fn class(cell: fn(&T, &RenderContext, usize, &Style) -> String) -> Self {
        Self { title: "class", min_width: 9, max_width: 9, align_right: false, style: TextStyle::Dim, cell }
    }
}

/// The columns of a table that fit the terminal.
pub struct Columns<T: 'static> {
    style: Style,
    /// Each column with its width in columns of the terminal.
    columns: Vec<(&'static Column<T>, usize)>,
}

/// Width of the gap between two columns, in columns of the terminal.
pub const GAP: usize = 2;

impl<T> Columns<T> {
    /// Selects from `all` the columns that fit beside `taken` columns of the terminal. If the terminal is
    /// too narrow, drops the columns titled as in `drop_order`, first to last. If the output is not a terminal,
    /// keeps all of them, because nothing breaks long lines there.
    pub fn new(
        all: impl IntoIterator<Item = &'static Column<T>>,
        drop_order: &[&str],
        taken: usize,
        style: Style,
    ) -> Self {
        let mut columns: Vec<(&Column<T>, usize)> = all.into_iter().map(|column| (column, column.min_width)).collect();
        if !style.terminal {
            columns.iter_mut().for_each(|(column, width)| *width = column.max_width);
            return Self { style, columns };
        }
        let room = style.columns().saturating_sub(taken);
        let width = |columns: &[(&Column<T>, usize)]| columns.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
        for title in drop_order {
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

    /// Returns the line of headings.
    pub fn titles(&self) -> TextLine {
        self.line(|column, _| (TextStyle::Title, column.title.to_owned()))
    }

    /// Returns the line for `item`.
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

/// Writes a line with a single call of `write_all`, cut to the width of the terminal if the output is one.
pub fn write(line: &TextLine, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    line.finish_within(if style.terminal { style.columns() } else { usize::MAX }, style, &mut text);
    out.write_all(text.as_bytes())
}

/// The name of the recording of a CPU as a cell.
pub fn file(cpu: u32, width: usize, style: &Style) -> String {
    fit(&clean(style.files.of_cpu(cpu).unwrap_or_default(), style), width, style)
}

/// Formats an instant as a cell: as the time of day if timestamps were requested, or else as seconds of
/// CLOCK_MONOTONIC.
pub fn time(at_ns: u64, context: &RenderContext, style: &Style) -> String {
    style.instant(at_ns, context.unix_offset_ns)
}
