//! A timeline: a row for each cause that took a part of some time, above an axis with marks.

use super::{
    style::{Style, TextStyle},
    text_line::{TextLine, left, right, width},
    units,
};

/// Width of a name that is never too much, in columns; a wide terminal has longer ones, up to half of it.
const NAME: usize = 34;

/// Minimum width that identifies a name, in columns.
const MIN_NAME_WIDTH: usize = 20;

/// Minimum width of the time, in columns.
const TIME: usize = 14;

/// Width of the share, in columns.
const SHARE: usize = 8;

/// Minimum width of a bar, in columns; narrower bars are left out.
const SHORT: usize = 12;

/// A part of the time, in ns since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSpan {
    /// The beginning: ns.
    pub from_ns: u64,
    /// The end: ns.
    pub to_ns: u64,
}

/// The part of one cause.
pub struct TimelineRow {
    /// The name of the cause.
    pub name: String,
    /// The time of the cause: ns.
    pub ns: u64,
    /// When it ran.
    pub spans: Vec<TimelineSpan>,
    /// Interrupt level: a row with a higher rank interrupts those with a lower one.
    pub rank: u8,
}

/// Appends the rows and the axis to `out`. The figures of the rows are unrounded, so that they visibly add
/// up.
pub fn draw(rows: &[TimelineRow], total_ns: u64, marks: Vec<(u64, String)>, style: &Style, out: &mut String) {
    let longest = rows.iter().map(|row| width(&row.name)).max().unwrap_or(0).min(NAME.max(style.columns() / 2));
    // A space is between the name and the longest time.
    let time = rows.iter().map(|row| width(&units::full(row.ns)) + 1).max().unwrap_or(0).max(TIME);
    let figures = time + SHARE;
    // A bar gets what names can spare. If the width is not enough for both, names are more useful than
    // bars.
    let beside_a_bar = style.columns().saturating_sub(figures + 4 + SHORT);
    let room_for_names =
        if beside_a_bar < MIN_NAME_WIDTH { style.columns().saturating_sub(figures + 2) } else { beside_a_bar };
    let name = longest.min(room_for_names);
    let room = style.columns().saturating_sub(2 + name + figures + 2);
    for row in rows {
        let mut line = TextLine::of(TextStyle::Plain, format!("  {}", left(&row.name, name, style)))
            .and(TextStyle::Plain, right(&units::full(row.ns), time))
            .and(TextStyle::Strong, right(&units::share(row.ns, total_ns), SHARE));
        if room >= SHORT {
            // Rows that interrupt this one show their time themselves.
            let interrupters = rows.iter().filter(|other| other.rank > row.rank);
            let above: Vec<TimelineSpan> = interrupters.flat_map(|other| other.spans.iter().copied()).collect();
            line.push(TextStyle::Bar, format!("  {}", bar(&row.spans, &above, total_ns, room, style)));
        }
        line.finish(style, out);
    }
    if room >= SHORT {
        axis(marks, total_ns, 2 + name + figures + 2, room, style, out);
    }
}

/// Draws a full block if the row ran for most of a column, a line if it was interrupted for most of it, and
/// a lighter block if it ran for less.
fn bar(own: &[TimelineSpan], above: &[TimelineSpan], total_ns: u64, columns: usize, style: &Style) -> String {
    let total = u128::from(total_ns.max(1));
    (0..columns)
        .map(|column| {
            let edge = |column: usize| (total * column as u128 / columns as u128) as u64;
            let cell = TimelineSpan { from_ns: edge(column), to_ns: edge(column + 1) };
            let (covered, interrupted) = (inside(own, cell), inside_both(own, above, cell));
            let runs = covered.saturating_sub(interrupted);
            let whole = (cell.to_ns - cell.from_ns).max(1);
            if covered == 0 {
                ' '
            } else if runs * 2 >= whole {
                style.pick('█', '#')
            } else if interrupted * 2 >= whole {
                style.pick('─', '-')
            } else {
                style.pick('▒', ':')
            }
        })
        .collect()
}

/// How much of `cell` is inside the spans: ns.
fn inside(spans: &[TimelineSpan], cell: TimelineSpan) -> u64 {
    let part = |span: &TimelineSpan| span.to_ns.min(cell.to_ns).saturating_sub(span.from_ns.max(cell.from_ns));
    spans.iter().map(part).fold(0, u64::saturating_add).min(cell.to_ns - cell.from_ns)
}

/// How much of `cell` is inside spans of both lists: ns.
fn inside_both(own: &[TimelineSpan], above: &[TimelineSpan], cell: TimelineSpan) -> u64 {
    own.iter()
        .filter_map(|span| {
            let (from_ns, to_ns) = (span.from_ns.max(cell.from_ns), span.to_ns.min(cell.to_ns));
            (from_ns < to_ns).then(|| inside(above, TimelineSpan { from_ns, to_ns }))
        })
        .fold(0, u64::saturating_add)
}

/// Appends the axis and its marks.
fn axis(marks: Vec<(u64, String)>, total_ns: u64, indent: usize, columns: usize, style: &Style, out: &mut String) {
    let at = |ns: u64| (u128::from(ns.min(total_ns)) * (columns - 1) as u128 / u128::from(total_ns.max(1))) as usize;
    let marks: Vec<(usize, String)> = marks.into_iter().map(|(ns, name)| (at(ns), name)).collect();
    let (line, mark) = style.pick(('─', '┴'), ('-', '+'));
    let mut axis: Vec<char> = vec![line; columns];
    marks.iter().for_each(|(at, _)| axis[*at] = mark);
    let indent = " ".repeat(indent);
    TextLine::of(TextStyle::Dim, format!("{indent}{}", axis.into_iter().collect::<String>())).finish(style, out);
    for row in labels(marks, columns) {
        TextLine::of(TextStyle::Dim, format!("{indent}{row}")).finish(style, out);
    }
}

/// The labels of the marks, on as many lines as needed to keep them apart.
fn labels(marks: Vec<(usize, String)>, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (at, text) in marks {
        let wide = width(&text);
        let from = at.min(columns.saturating_sub(wide));
        let fits = |row: &&mut String| row.is_empty() || width(row) < from;
        match rows.iter_mut().find(fits) {
            Some(row) => row.push_str(&format!("{}{text}", " ".repeat(from - width(row)))),
            None => rows.push(format!("{}{text}", " ".repeat(from))),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_apart_from_its_time_and_whole_if_there_is_room() {
        let row = |name: &str, ns| TimelineRow { name: name.to_owned(), ns, spans: Vec::new(), rank: 0 };
        let rows = [row("unexplained: beyond the kept history", 531_198_657), row("hog/7", 12_345_678_901)];
        let drawn = |width| {
            let mut out = String::new();
            draw(&rows, 12_876_877_558, Vec::new(), &Style { width, ..Style::default() }, &mut out);
            out
        };
        for width in [80, 120] {
            let text = drawn(width);
            assert!(text.contains("unexplained: beyond the kept history    531,198,657 ns"), "{text}");
        }
        for width in [40, 60, 80] {
            let text = drawn(width);
            assert!(text.contains(" 531,198,657 ns") && text.contains(" 12,345,678,901 ns"), "{text}");
        }
    }
}
