//! A table of where some time went: sum, share, longest, count, and a bar.

use super::{
    chart::bar,
    style::{Style, TextStyle},
    text_line::{TextLine, left, right, width},
    units,
};

/// Maximum width of a name, in columns.
const NAME: usize = 34;

/// Minimum width of the longest bar, in columns; narrower bars are left out.
const SHORT_BAR: usize = 10;

/// Width of the sum and the share together, in columns.
const FIGURES: usize = 10 + 8;

/// Width of the longest and the count together, in columns.
const MORE_FIGURES: usize = 10 + 9;

/// A row of the table.
pub struct ShareRow {
    /// The cause.
    pub name: String,
    /// The total time: ns.
    pub sum_ns: u128,
    /// The longest time at once: ns. `None` in rows that sum up several causes.
    pub longest_ns: Option<u64>,
    /// The number of waits or activations with this cause.
    pub count: u64,
    /// Whether the row is a part of the row above. Such a row is indented and has no bar.
    pub is_nested: bool,
}

/// Appends the table to `out`. Shares are of `whole_ns`; `count` is the heading of the last column.
pub fn draw(rows: &[ShareRow], whole_ns: u128, count: &str, style: &Style, out: &mut String) {
    let indent = |row: &ShareRow| if row.is_nested { 2 } else { 0 };
    let longest = rows.iter().map(|row| width(&row.name) + indent(row)).max().unwrap_or(0).min(NAME);
    // Two more figures are not worth a truncated name.
    let narrow = style.columns() < longest + FIGURES + MORE_FIGURES + 2;
    let figures = if narrow { FIGURES } else { FIGURES + MORE_FIGURES };
    let name = longest.min(style.columns().saturating_sub(figures + 2));
    let room = style.columns().saturating_sub(name + figures + 4);
    let mut title = TextLine::of(TextStyle::Dim, format!("  {}{:>10}{:>8}", " ".repeat(name), "sum", "share"));
    if !narrow {
        title.push(TextStyle::Dim, format!("{:>10}{count:>9}", "longest"));
    }
    title.finish(style, out);
    let largest = rows.iter().map(|row| row.sum_ns).max().unwrap_or(0);
    let shift = largest.checked_ilog2().map_or(0, |bits| bits.saturating_sub(62));
    let small = |ns: u128| u64::try_from(ns >> shift).unwrap_or(u64::MAX);
    for row in rows {
        let of_several = row.longest_ns.is_none();
        let ink = if row.is_nested || of_several { TextStyle::Dim } else { TextStyle::Plain };
        let text = left(&format!("{}{}", " ".repeat(indent(row)), row.name), name, style);
        let mut line = TextLine::of(ink, format!("  {text}"))
            .and(ink, right(&units::duration(row.sum_ns, style.unicode), 10))
            .and(
                if ink == TextStyle::Dim { ink } else { TextStyle::Strong },
                right(&units::share_of(row.sum_ns, whole_ns), 8),
            );
        if let (false, Some(longest_ns)) = (narrow, row.longest_ns) {
            line.push(ink, right(&units::duration(longest_ns, style.unicode), 10));
            line.push(TextStyle::Dim, right(&units::short(row.count), 9));
        }
        if room >= SHORT_BAR && !row.is_nested && !of_several {
            line.push(TextStyle::Bar, format!("  {}", bar(small(row.sum_ns), small(largest), room, style)));
        }
        line.finish(style, out);
    }
}
