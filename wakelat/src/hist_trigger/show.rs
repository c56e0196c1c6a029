//! A table of a hist trigger's histogram. See [`super::json`] for programs.

use super::unit::{Unit, key_text};
use super::{Entry, Histogram, Key, Saved, Value};
use crate::sink::chart::bar;
use crate::sink::style::{Ink, Style};
use crate::sink::text::{Line, clean, left, right, width};
use crate::sink::units;

/// A line for each entry, with all keys and all values, in the order in which the kernel sorted them.
pub fn table(histogram: &Histogram, units: &[Unit], style: &Style) -> String {
    let mut out = String::new();
    head(histogram, style, &mut out);
    let mut rows: Vec<Vec<String>> = vec![histogram.key_names.iter().chain(&histogram.value_names).cloned().collect()];
    for entry in &histogram.entries {
        let keys = entry.keys.iter().zip(units).map(|(key, unit)| clean(&key_text(key, *unit, style), style));
        rows.push(keys.chain(entry.values.iter().map(|value| value_text(*value, style))).collect());
    }
    let widths: Vec<usize> = (0..histogram.key_names.len() + histogram.value_names.len())
        .map(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
        .collect();
    for (index, row) in rows.iter().enumerate() {
        let mut line = Line::new();
        for (column, (text, columns)) in row.iter().zip(&widths).enumerate() {
            let is_text = histogram.entries.first().is_some_and(|entry| is_text(entry, column));
            let text = if is_text { left(text, *columns, style) } else { right(text, *columns) };
            line.push(if index == 0 { Ink::Dim } else { Ink::Plain }, text);
            line.push(Ink::Plain, "  ");
        }
        // A row is never cut: it may be all that tells one entry from the next.
        line.end_within(usize::MAX, style, &mut out);
        if let Some(entry) = index.checked_sub(1).and_then(|index| histogram.entries.get(index)) {
            below(entry, style, &mut out);
        }
    }
    foot(histogram, style, &mut out);
    out
}

/// The trigger itself.
pub(super) fn head(histogram: &Histogram, style: &Style, out: &mut String) {
    let trigger = clean(&histogram.trigger.to_string(), style);
    Line::of(Ink::Dim, trigger).end_within(usize::MAX, style, out);
}

/// What a `snapshot()` action kept, and the totals.
pub(super) fn foot(histogram: &Histogram, style: &Style, out: &mut String) {
    for line in &histogram.snapshot {
        Line::of(Ink::Dim, clean(&line.replace('\t', "  "), style)).end_within(usize::MAX, style, out);
    }
    match histogram.totals {
        Some(totals) => {
            let text = format!(
                "{}, {}",
                units::counted(totals.hits, "hit"),
                match totals.entries {
                    1 => "1 entry".to_owned(),
                    entries => format!("{} entries", units::thousands(entries)),
                }
            );
            let mut line = Line::of(Ink::Plain, text);
            match totals.dropped {
                0 => line.push(Ink::Plain, ", none dropped"),
                dropped => line.push(
                    Ink::Warning,
                    format!(
                        ", {} dropped: the table is full; give the trigger a larger `size=`",
                        units::thousands(dropped)
                    ),
                ),
            }
            line.end_within(usize::MAX, style, out);
        }
        None => Line::of(Ink::Warning, "an excerpt without totals: whether anything was dropped is not known")
            .end_within(usize::MAX, style, out),
    }
}

/// What takes lines of its own below an entry: the rest of a stack, and what a handler kept.
fn below(entry: &Entry, style: &Style, out: &mut String) {
    for key in &entry.keys {
        if let Key::Stack(functions) = key {
            for function in functions.iter().skip(1) {
                Line::of(Ink::Dim, format!("  {}", clean(function, style))).end_within(usize::MAX, style, out);
            }
        }
    }
    for tracked in &entry.tracked {
        let saved: Vec<String> = tracked
            .saved
            .iter()
            .map(|(name, saved)| match saved {
                Saved::Number(number) => format!("{name} {number}"),
                Saved::Text(text) => format!("{name} {}", clean(text, style)),
            })
            .collect();
        let text = format!("  {} {}  {}", tracked.handler, units::thousands(tracked.value), saved.join(", "));
        Line::of(Ink::Dim, text).end_within(usize::MAX, style, out);
    }
}

fn value_text(value: Value, style: &Style) -> String {
    match value {
        Value::Number(number) => units::thousands(number),
        Value::Hex(number) => format!("{number:#x}"),
        Value::Percent(Some(percent)) => format!("{}.{:02} %", percent / 100, percent % 100),
        Value::Percent(None) => "?".to_owned(),
        Value::Bar(filled) => bar(filled.into(), 20, 20, style),
    }
}

fn is_text(entry: &Entry, column: usize) -> bool {
    match entry.keys.get(column) {
        Some(Key::Number(_) | Key::Hex(_) | Key::Log2(_) | Key::Range(..)) => false,
        Some(_) => true,
        None => matches!(entry.values.get(column - entry.keys.len()), Some(Value::Bar(_))),
    }
}
