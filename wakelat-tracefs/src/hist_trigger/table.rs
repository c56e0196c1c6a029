//! Renders a hist trigger's histogram as a table.

use super::unit::{Unit, key_text};
use super::{EntryKey, EntryValue, HistogramEntry, SavedField, TriggerHistogram};
use wakelat_core::render::chart::bar;
use wakelat_core::render::style::{Style, TextStyle};
use wakelat_core::render::text_line::{TextLine, clean, left, right, width};
use wakelat_core::render::units;

/// Renders a row for each entry, with all keys and values, in the kernel's sort order.
pub fn table(histogram: &TriggerHistogram, units: &[Unit], style: &Style) -> String {
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
        let mut line = TextLine::new();
        for (column, (text, columns)) in row.iter().zip(&widths).enumerate() {
            let is_text = histogram.entries.first().is_some_and(|entry| is_text(entry, column));
            let text = if is_text { left(text, *columns, style) } else { right(text, *columns) };
            line.push(if index == 0 { TextStyle::Dim } else { TextStyle::Plain }, text);
            line.push(TextStyle::Plain, "  ");
        }
        // Never truncate a row: the end may be the only difference between two entries.
        line.finish_within(usize::MAX, style, &mut out);
        if let Some(entry) = index.checked_sub(1).and_then(|index| histogram.entries.get(index)) {
            below(entry, style, &mut out);
        }
    }
    foot(histogram, style, &mut out);
    out
}

/// Writes the trigger.
pub(super) fn head(histogram: &TriggerHistogram, style: &Style, out: &mut String) {
    let trigger = clean(&histogram.trigger.to_string(), style);
    TextLine::of(TextStyle::Dim, trigger).finish_within(usize::MAX, style, out);
}

/// Writes the lines of a `snapshot()` action, and the totals.
pub(super) fn foot(histogram: &TriggerHistogram, style: &Style, out: &mut String) {
    for line in &histogram.snapshot {
        TextLine::of(TextStyle::Dim, clean(&line.replace('\t', "  "), style)).finish_within(usize::MAX, style, out);
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
            let mut line = TextLine::of(TextStyle::Plain, text);
            match totals.dropped {
                0 => line.push(TextStyle::Plain, ", none dropped"),
                dropped => line.push(
                    TextStyle::Warning,
                    format!(", {} dropped: the table is full; raise `size=` of the trigger", units::thousands(dropped)),
                ),
            }
            line.finish_within(usize::MAX, style, out);
        }
        None => TextLine::of(TextStyle::Warning, "an excerpt without totals: dropped entries are unknown")
            .finish_within(usize::MAX, style, out),
    }
}

/// Writes the lines below an entry: the other functions of a stack, and the data that handlers saved.
fn below(entry: &HistogramEntry, style: &Style, out: &mut String) {
    for key in &entry.keys {
        if let EntryKey::Stack(functions) = key {
            for function in functions.iter().skip(1) {
                TextLine::of(TextStyle::Dim, format!("  {}", clean(function, style))).finish_within(
                    usize::MAX,
                    style,
                    out,
                );
            }
        }
    }
    for tracked in &entry.track_data {
        let saved: Vec<String> = tracked
            .saved
            .iter()
            .map(|(name, saved)| match saved {
                SavedField::Number(number) => format!("{name} {number}"),
                SavedField::Text(text) => format!("{name} {}", clean(text, style)),
            })
            .collect();
        let text = format!("  {} {}  {}", tracked.handler, units::thousands(tracked.value), saved.join(", "));
        TextLine::of(TextStyle::Dim, text).finish_within(usize::MAX, style, out);
    }
}

fn value_text(value: EntryValue, style: &Style) -> String {
    match value {
        EntryValue::Number(number) => units::thousands(number),
        EntryValue::Hex(number) => format!("{number:#x}"),
        EntryValue::Percent(Some(percent)) => format!("{}.{:02} %", percent / 100, percent % 100),
        EntryValue::Percent(None) => "?".to_owned(),
        EntryValue::Bar(filled) => bar(filled.into(), 20, 20, style),
    }
}

fn is_text(entry: &HistogramEntry, column: usize) -> bool {
    match entry.keys.get(column) {
        Some(EntryKey::Number(_) | EntryKey::Hex(_) | EntryKey::Log2(_) | EntryKey::Range(..)) => false,
        Some(_) => true,
        None => matches!(entry.values.get(column - entry.keys.len()), Some(EntryValue::Bar(_))),
    }
}
