//! Writes a histogram in the kernel's layout, so that it can be edited, merged or compared, and parsed again.

use std::fmt::Write;

use super::entry::BAR_WIDTH;
use super::{EntryKey, EntryValue, FieldModifier, SavedField, TrackData, TriggerHistogram};

/// Formats the histogram in the kernel's own layout (`hist_trigger_show`, kernel/trace/trace_events_hist.c,
/// 6.3 to 7.2).
pub fn kernel_text(histogram: &TriggerHistogram) -> String {
    let mut text = String::new();
    write_histogram(&mut text, histogram).expect("writing to a string cannot fail");
    text
}

fn write_histogram(out: &mut String, histogram: &TriggerHistogram) -> std::fmt::Result {
    writeln!(out, "# event histogram\n#\n# trigger info: {}\n#\n", histogram.trigger)?;
    for entry in &histogram.entries {
        out.push_str("{ ");
        let mut several_lines = false;
        let names = histogram.key_names.iter().zip(&histogram.trigger.keys);
        for (index, ((name, field), key)) in names.zip(&entry.keys).enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            several_lines |= matches!(key, EntryKey::Stack(_));
            write_key(out, name, field.modifier.as_ref(), key)?;
        }
        out.push_str(if several_lines { "}" } else { " }" });
        for (index, (name, value)) in histogram.value_names.iter().zip(&entry.values).enumerate() {
            if index > 0 || histogram.trigger.no_hitcount {
                out.push(' ');
            }
            write_value(out, name, *value)?;
        }
        for tracked in &entry.track_data {
            write_track_data(out, tracked)?;
        }
        out.push('\n');
    }
    if !histogram.snapshot.is_empty() {
        out.push('\n');
    }
    for line in &histogram.snapshot {
        writeln!(out, "{line}")?;
    }
    if let Some(totals) = histogram.totals {
        let (hits, entries, dropped) = (totals.hits, totals.entries, totals.dropped);
        writeln!(out, "\nTotals:\n    Hits: {hits}\n    Entries: {entries}\n    Dropped: {dropped}")?;
    }
    Ok(())
}

fn write_key(out: &mut String, name: &str, modifier: Option<&FieldModifier>, key: &EntryKey) -> std::fmt::Result {
    match key {
        EntryKey::Number(number) => write!(out, "{name}: {number:>10}"),
        EntryKey::Hex(number) => write!(out, "{name}: {number:x}"),
        EntryKey::Log2(power) => write!(out, "{name}: ~ 2^{power:<2}"),
        EntryKey::Range(from, to) => write!(out, "{name}: ~ {from}-{to}"),
        EntryKey::Text(text) => write!(out, "{name}: {}", padded(text, 50)),
        EntryKey::Symbol { address, name: symbol } => {
            let width = if modifier == Some(&FieldModifier::SymOffset) { 55 } else { 45 };
            write!(out, "{name}: [{address:x}] {}", padded(symbol, width))
        }
        EntryKey::Execname { comm, tid } => write!(out, "{name}: {}[{tid:>10}]", padded(comm, 16)),
        EntryKey::Syscall { name: call, number } => write!(out, "{name}: {}[{number:>3}]", padded(call, 30)),
        EntryKey::Stack(functions) => {
            // A stack in a field has no colon after its name, and its first function is on the same line.
            out.push_str(name);
            out.push_str(if name.ends_with(".stacktrace") { "" } else { ":\n" });
            functions.iter().try_for_each(|function| writeln!(out, "         {function}"))
        }
    }
}

fn write_value(out: &mut String, name: &str, value: EntryValue) -> std::fmt::Result {
    match value {
        EntryValue::Number(number) => write!(out, " {name}: {number:>10}"),
        EntryValue::Hex(number) => write!(out, " {name}: {number:>10x}"),
        EntryValue::Percent(percent) => {
            let name = name.strip_suffix(".percent").unwrap_or(name);
            match percent {
                Some(percent) => write!(out, " {name} (%): {:>3}.{:02}", percent / 100, percent % 100),
                None => write!(out, " {name} (%):[ERROR]"),
            }
        }
        EntryValue::Bar(filled) => {
            let name = name.strip_suffix(".graph").unwrap_or(name);
            write!(out, " {name}: {:<BAR_WIDTH$}", "#".repeat(filled.into()))
        }
    }
}

fn write_track_data(out: &mut String, tracked: &TrackData) -> std::fmt::Result {
    write!(out, "\n\t{}: {:>10}", tracked.handler, tracked.value)?;
    tracked.saved.iter().try_for_each(|(name, saved)| match saved {
        SavedField::Number(number) => write!(out, "  {name}: {number:>10}"),
        SavedField::Text(text) => write!(out, "  {name}: {}", padded(text, 32)),
    })
}

/// Pads to `width` bytes; the kernel counts bytes, not characters.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.len())))
}
