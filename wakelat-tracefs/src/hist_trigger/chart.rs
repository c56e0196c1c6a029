//! Renders a hist trigger's histogram as a chart.

use std::collections::{HashMap, HashSet};

use super::chart_rows::{ChartRows, SelectionError, ValueKind, range};
use super::table::{foot, head};
use super::unit::{Unit, key_text, units_of};
use super::{EntryKey, TriggerField, TriggerHistogram};
use wakelat_core::render::chart::bar;
use wakelat_core::render::style::{Style, TextStyle};
use wakelat_core::render::text_line::{TextLine, clean, fit, left, paragraph, right, width};
use wakelat_core::render::units;

pub use super::chart_rows::ChartSelection;

/// Length of the longest bar in columns: a longer one shows no more, a shorter one too little.
const BAR: std::ops::RangeInclusive<usize> = 10..=60;

/// Columns of a row besides the key, the value and the bar: the spaces and the share.
const BESIDE: usize = 14;

/// Minimum number of columns to which a key is truncated.
const KEY: usize = 8;

/// Draws a bar for each entry, or for each value of one key. Buckets are in ascending order, with a mark in
/// place of empty ones; other keys are in the kernel's order.
///
/// # Errors
/// If the selection names a key or value that the histogram does not have, or several keys fit `unit`.
pub fn chart(
    histogram: &TriggerHistogram,
    selection: &ChartSelection,
    unit: Option<Unit>,
    style: &Style,
) -> Result<String, SelectionError> {
    let rows = ChartRows::of(histogram, selection)?;
    let mut out = String::new();
    head(histogram, style, &mut out);
    if rows.rows.is_empty() {
        TextLine::of(TextStyle::Plain, "nothing was counted").finish(style, &mut out);
        foot(histogram, style, &mut out);
        return Ok(out);
    }
    let fields: Vec<TriggerField> = rows.keys.iter().map(|index| histogram.trigger.keys[*index].clone()).collect();
    let units = units_of(&fields, unit)?;
    let unit = |column: usize| units.get(column).copied().unwrap_or_default();
    let names: Vec<&str> = rows.keys.iter().map(|index| histogram.key_names[*index].as_str()).collect();
    let value = rows.value.as_deref().unwrap_or_default();
    TextLine::of(TextStyle::Title, format!("{}: {value}", names.join(", "))).finish(style, &mut out);
    bars(&rows, &unit, style, &mut out);
    stacks(&rows, style, &mut out);
    percentiles(&rows, unit(0), style, &mut out);
    foot(histogram, style, &mut out);
    Ok(out)
}

fn bars(rows: &ChartRows, unit: &dyn Fn(usize) -> Unit, style: &Style, out: &mut String) {
    let largest = rows.rows.iter().map(|(_, value)| *value).max().unwrap_or(0);
    let total: u64 = rows.rows.iter().fold(0, |total, (_, value)| total.saturating_add(*value));
    let figure = |value: u64| match rows.kind {
        ValueKind::Sum => units::thousands(value),
        ValueKind::Percent => format!("{}.{:02} %", value / 100, value % 100),
        ValueKind::Bar => String::new(),
    };
    let figures = rows.rows.iter().map(|(_, value)| width(&figure(*value))).max().unwrap_or(0);
    let room = style.columns().saturating_sub(figures + BESIDE + BAR.start());
    let stacks: HashMap<&EntryKey, usize> = distinct_stacks(rows).into_iter().zip(1..).collect();
    let labels: Vec<String> = rows
        .rows
        .iter()
        .map(|(keys, _)| {
            let text = |(column, key): (usize, &EntryKey)| {
                let text = clean(&key_text(key, unit(column), style), style);
                match stacks.get(key) {
                    Some(number) => format!("#{number} {text}"),
                    None => text,
                }
            };
            label(keys.iter().enumerate().map(text).collect(), room, style)
        })
        .collect();
    let widest = labels.iter().map(|label| width(label)).max().unwrap_or(0);
    let room = style.columns().saturating_sub(widest + figures + BESIDE).clamp(*BAR.start(), *BAR.end());
    let buckets = rows.rows.iter().all(|(keys, _)| range(keys).is_some());
    let mut before: Option<(u64, u64)> = None;
    for ((keys, value), text) in rows.rows.iter().zip(&labels) {
        let here = range(keys).filter(|_| buckets);
        if let (Some((_, end)), Some((from, _))) = (before, here)
            && end.checked_add(1).is_some_and(|next| next < from)
        {
            TextLine::of(TextStyle::Dim, format!(" {}", right(style.pick("⋮", ":"), widest))).finish(style, out);
        }
        before = here;
        let text = if buckets { right(text, widest) } else { left(text, widest, style) };
        let share = if rows.kind == ValueKind::Sum { units::share(*value, total) } else { String::new() };
        TextLine::of(TextStyle::Dim, format!(" {text}"))
            .and(TextStyle::Plain, format!("  {}", right(&figure(*value), figures)))
            .and(TextStyle::Dim, format!("  {}  ", right(&share, 7)))
            .and(TextStyle::Bar, bar(*value, largest, room, style))
            .finish(style, out);
    }
}

/// The keys of a row in `room` columns. Truncates the longest first: the others may be the only difference
/// between two rows.
fn label(mut keys: Vec<String>, room: usize, style: &Style) -> String {
    loop {
        let label = keys.join(", ");
        let excess = width(&label).saturating_sub(room);
        let Some(longest) = keys.iter_mut().max_by_key(|key| width(key)).filter(|key| excess > 0 && width(key) > KEY)
        else {
            return label;
        };
        *longest = fit(longest, width(longest).saturating_sub(excess).max(KEY), style);
    }
}

/// The distinct stacks among the keys, in the order of the rows.
fn distinct_stacks(rows: &ChartRows) -> Vec<&EntryKey> {
    let mut seen = HashSet::new();
    let keys = rows.rows.iter().flat_map(|(keys, _)| keys);
    keys.filter(|key| matches!(key, EntryKey::Stack(_)) && seen.insert(*key)).collect()
}

/// Lists each stack that a row refers to by number, with all its functions, innermost first.
fn stacks(rows: &ChartRows, style: &Style, out: &mut String) {
    for (index, stack) in distinct_stacks(rows).into_iter().enumerate() {
        let EntryKey::Stack(functions) = stack else { continue };
        let calls = functions.iter().map(|function| clean(function, style)).collect::<Vec<_>>();
        let text = calls.join(style.pick(" ← ", " <- "));
        paragraph(TextLine::of(TextStyle::Dim, format!(" #{} ", index + 1)), TextStyle::Dim, &text, style, out);
    }
}

/// Prints percentiles if the rows are buckets, or numbers of a known unit.
fn percentiles(rows: &ChartRows, unit: Unit, style: &Style, out: &mut String) {
    let buckets = rows.rows.iter().all(|(keys, _)| range(keys).is_some());
    if !buckets && unit == Unit::None {
        return;
    }
    let sign = if buckets { style.pick("≤ ", "<= ") } else { "" };
    let one = |(name, per_mille): (&str, u64)| {
        Some(format!("{name} {sign}{}", unit.bound(rows.percentile(per_mille)?, style)))
    };
    let all: Option<Vec<String>> =
        [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999), ("max", 1_000)].into_iter().map(one).collect();
    if let Some(all) = all {
        paragraph(TextLine::of(TextStyle::Plain, " "), TextStyle::Plain, &all.join("  "), style, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_key_is_truncated_first() {
        let style = Style { unicode: true, ..Style::default() };
        let keys = || vec!["__x64_sys_sched_getaffinity+0x83/0x110".to_owned(), "4711".to_owned()];
        assert_eq!(label(keys(), 20, &style), "__x64_sys_sch…, 4711");
        assert_eq!(label(keys(), 80, &style), "__x64_sys_sched_getaffinity+0x83/0x110, 4711");
        // No key becomes shorter than the minimum.
        assert_eq!(label(keys(), 3, &style), "__x64_s…, 4711");
    }
}
