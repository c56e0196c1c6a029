//! A table of what some time went to: sum, share, the longest, how often, and a bar.

use super::{
    chart::bar,
    style::{Style, TextStyle},
    text::{TextLine, left, right, width},
    units,
};

/// Columns of a name, where there is room.
const NAME: usize = 34;

/// A bar shorter than this says nothing.
const SHORT_BAR: usize = 10;

/// Columns of sum and share.
const FIGURES: usize = 10 + 8;

/// Columns of the two other figures.
const MORE_FIGURES: usize = 10 + 9;

/// One line.
pub struct ShareRow {
    /// What the time went to.
    pub name: String,
    /// How much: ns.
    pub sum_ns: u128,
    /// The most at once: ns; of lines that stand for several there is none.
    pub longest_ns: Option<u64>,
    /// In how many.
    pub count: u64,
    /// It is a part of the line above: it stands back, and has no bar.
    pub is_nested: bool,
}

/// Adds the table to `out`; shares are of `whole_ns`, `count` is the title of the last column.
pub fn draw(rows: &[ShareRow], whole_ns: u128, count: &str, style: &Style, out: &mut String) {
    let indent = |row: &ShareRow| if row.is_nested { 2 } else { 0 };
    let longest = rows.iter().map(|row| width(&row.name) + indent(row)).max().unwrap_or(0).min(NAME);
    // A cut name says less than two figures more.
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
