//! Tables and charts of a hist trigger's histogram, for people. See [`super::json`] for programs.

use super::bucket::log2_range;
use super::{Entry, Field, Histogram, Key, Saved, Value};
use crate::sink::chart::bar;
use crate::sink::style::{Ink, Style};
use crate::sink::text::{Line, clean, fit, left, right, width};
use crate::sink::units;

/// Bars longer than this say no more, shorter ones say too little.
const BAR: std::ops::RangeInclusive<usize> = 10..=60;

/// What the numbers of bucketed keys are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Unit {
    /// Plain numbers
    #[default]
    None,
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
}

impl Unit {
    fn bound(self, value: u64, style: &Style) -> String {
        match self {
            Self::None => units::thousands(value),
            Self::Ns => units::bound(value, style.unicode),
            Self::Us => units::bound(value.saturating_mul(1_000), style.unicode),
        }
    }
}

/// A line for each entry, with all keys and all values, in the order in which the kernel sorted them.
pub fn table(histogram: &Histogram, unit: Unit, style: &Style) -> String {
    let mut out = String::new();
    head(histogram, style, &mut out);
    let mut rows: Vec<Vec<String>> = vec![histogram.key_names.iter().chain(&histogram.value_names).cloned().collect()];
    for entry in &histogram.entries {
        let keys = entry.keys.iter().map(|key| clean(&key_text(key, unit, style), style));
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

/// A bar for each entry: of `value`, or else of the hit count. Buckets come in rising order, with a mark where empty ones
/// lie between; other keys in the kernel's order. None where no sum has that name.
pub fn chart(histogram: &Histogram, value: Option<&str>, unit: Unit, style: &Style) -> Option<String> {
    let name = match value {
        Some(value) => value,
        None => histogram.value_names.iter().find(|name| histogram.column(name).is_some())?,
    };
    let counts = histogram.column(name)?;
    let mut out = String::new();
    head(histogram, style, &mut out);
    let mut rows: Vec<(&Entry, u64)> = histogram.entries.iter().zip(counts).collect();
    let buckets = histogram.entries.iter().all(|entry| range(entry).is_some());
    if buckets {
        rows.sort_by_key(|(entry, _)| range(entry));
    }
    let labels: Vec<String> = rows
        .iter()
        .map(|(entry, _)| {
            let keys: Vec<String> = entry.keys.iter().map(|key| key_text(key, unit, style)).collect();
            fit(&clean(&keys.join(", "), style), style.columns() / 2, style)
        })
        .collect();
    let largest = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let total: u64 = rows.iter().fold(0, |total, (_, count)| total.saturating_add(*count));
    let label = labels.iter().map(|label| width(label)).max().unwrap_or(0);
    let count = units::thousands(largest).len();
    let room = style.columns().saturating_sub(label + count + 14).clamp(*BAR.start(), *BAR.end());
    let title = format!("{}: {name}", histogram.key_names.join(", "));
    Line::of(Ink::Title, title).end(style, &mut out);
    let mut before: Option<(u64, u64)> = None;
    for ((entry, value), text) in rows.iter().zip(&labels) {
        let here = range(entry).filter(|_| buckets);
        if let (Some((_, end)), Some((from, _))) = (before, here)
            && end.checked_add(1).is_some_and(|next| next < from)
        {
            Line::of(Ink::Dim, format!(" {}", right(style.pick("⋮", ":"), label))).end(style, &mut out);
        }
        before = here;
        let text = if buckets { right(text, label) } else { left(text, label, style) };
        Line::of(Ink::Dim, format!(" {text}"))
            .and(Ink::Plain, format!("  {}", right(&units::thousands(*value), count)))
            .and(Ink::Dim, format!("  {}  ", right(&units::share(*value, total), 7)))
            .and(Ink::Bar, bar(*value, largest, room, style))
            .end(style, &mut out);
    }
    foot(histogram, style, &mut out);
    Some(out)
}

/// Smallest and largest value of an entry with one key that is a bucket.
fn range(entry: &Entry) -> Option<(u64, u64)> {
    match entry.keys[..] {
        [Key::Log2(power)] => Some(log2_range(power)),
        [Key::Range(from, to)] => Some((from, to)),
        _ => None,
    }
}

fn head(histogram: &Histogram, style: &Style, out: &mut String) {
    let trigger = clean(&histogram.trigger.to_string(), style);
    Line::of(Ink::Dim, trigger).end_within(usize::MAX, style, out);
}

fn foot(histogram: &Histogram, style: &Style, out: &mut String) {
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

/// A key on one line; of a stack, its innermost function.
fn key_text(key: &Key, unit: Unit, style: &Style) -> String {
    let between = |(from, to): (u64, u64)| {
        format!("{} {} {}", unit.bound(from, style), style.pick('–', '-'), unit.bound(to, style))
    };
    match key {
        Key::Number(number) => number.to_string(),
        Key::Hex(number) => format!("{number:#x}"),
        Key::Log2(power) => between(log2_range(*power)),
        Key::Range(from, to) => between((*from, *to)),
        Key::Text(text) => text.clone(),
        Key::Symbol { name, .. } => name.clone(),
        Key::Execname { comm, tid } => format!("{comm} [{tid}]"),
        Key::Syscall { name, .. } => name.clone(),
        Key::Stack(functions) => functions.first().cloned().unwrap_or_default(),
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

/// The unit that a trigger itself tells: `.usecs`.
pub fn unit_of(keys: &[Field]) -> Unit {
    match keys.iter().any(|key| key.modifier == Some(super::Modifier::Usecs)) {
        true => Unit::Us,
        false => Unit::None,
    }
}
