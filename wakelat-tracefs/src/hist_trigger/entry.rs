//! Parses one entry, `{ key: value, key2: value } hitcount: 1 name: 2`, and the line that an `onmax()`
//! handler adds to it.
//!
//! The kernel quotes nothing, and a thread's name may be `a } b, c: 1` or contain a line break. Entries can
//! be parsed nevertheless because the kernel pads: a string is at least 50 characters wide, an execname 16,
//! a symbol 45. So the parser searches for the end of a string only after its padding, and takes the last
//! `}` that is followed only by values as the end of the keys.

use super::{EntryKey, EntryValue, FieldModifier, HistogramEntry, SavedField, TrackData, TriggerField, TriggerSpec};

/// Width to which `hist_trigger_print_key` pads a string: `%-50s`.
const STRING_WIDTH: usize = 50;
/// Width to which `hist_trigger_print_key` pads the name of an execname key: `%-16s`.
const COMM_WIDTH: usize = 16;
/// Width to which `hist_trigger_print_key` pads a system call's name: `%-30s`.
const SYSCALL_WIDTH: usize = 30;
/// Width to which `track_data_print` pads a string: `%-32s`.
const SAVED_WIDTH: usize = 32;
/// Number of characters of a `.graph` value.
pub(super) const BAR_WIDTH: usize = 20;

/// An entry with the names of its keys and values.
pub(super) struct NamedEntry {
    pub key_names: Vec<String>,
    pub value_names: Vec<String>,
    pub entry: HistogramEntry,
}

/// Whether an entry can end with this line, that is, whether only values follow its last `}`.
pub(super) fn may_end(line: &[u8], trigger: &TriggerSpec) -> bool {
    line.iter()
        .rposition(|byte| *byte == b'}')
        .is_some_and(|brace| parse_values(&line[brace + 1..], &trigger.values).is_some())
}

/// Parses an entry; `text` begins with `{ ` and may contain several lines. None if it is not an entry.
pub(super) fn parse(text: &[u8], trigger: &TriggerSpec) -> Option<NamedEntry> {
    let (keys, values) = split(text)?;
    let (key_names, keys) = parse_keys(keys, &trigger.keys)?;
    let (value_names, values) = parse_values(values, &trigger.values)?;
    Some(NamedEntry { key_names, value_names, entry: HistogramEntry { keys, values, track_data: Vec::new() } })
}

/// Splits an entry into the keys between the braces and the values after them.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"{ ")?;
    let end = text.iter().rposition(|byte| *byte == b'}')?;
    Some((&text[..end], &text[end + 1..]))
}

fn parse_keys(mut text: &[u8], fields: &[TriggerField]) -> Option<(Vec<String>, Vec<EntryKey>)> {
    let (mut names, mut keys) = (Vec::new(), Vec::new());
    let mut several_lines = false;
    for (index, field) in fields.iter().enumerate() {
        let last = index + 1 == fields.len();
        let (name, key) = if field.is_stack() {
            several_lines = true;
            let (name, stack, rest) = take_stack(text)?;
            text = rest;
            (name, EntryKey::Stack(stack))
        } else {
            let (name, rest) = take_name(text)?;
            text = rest;
            // A space precedes the `}`, unless a stack trace ended the line.
            if last && !several_lines {
                text = text.strip_suffix(b" ")?;
            }
            (name, take_key(&mut text, field, last)?)
        };
        names.push(name);
        keys.push(key);
        if !last {
            text = text.strip_prefix(b", ")?;
        }
    }
    text.is_empty().then_some((names, keys))
}

/// Takes a stack: `stacktrace:` or `common_stacktrace:` and lines, or `name.stacktrace` with the first
/// function on the same line.
fn take_stack(text: &[u8]) -> Option<(String, Vec<String>, &[u8])> {
    let end = text.iter().position(|byte| matches!(byte, b':' | b' ' | b'\n'))?;
    let name = string(&text[..end]);
    let mut rest = text[end..].strip_prefix(b":").unwrap_or(&text[end..]);
    rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    let mut functions = Vec::new();
    while rest.first() == Some(&b' ') {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        functions.push(string(&rest[..end]));
        rest = &rest[end + 1..];
    }
    Some((name, functions, rest))
}

fn take_name(text: &[u8]) -> Option<(String, &[u8])> {
    let end = text.windows(2).position(|window| window == b": ")?;
    is_name(&text[..end]).then(|| (string(&text[..end]), &text[end + 2..]))
}

fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.'))
}

/// Takes one key off the front of `text`.
fn take_key(text: &mut &[u8], field: &TriggerField, last: bool) -> Option<EntryKey> {
    let all = *text;
    let to = |least: usize| if last { Some(all.len()) } else { next_name(all, least, b", ") };
    let (key, end) = match &field.modifier {
        Some(FieldModifier::Hex) => {
            let end = to(0)?;
            (EntryKey::Hex(hex(&all[..end])?), end)
        }
        Some(FieldModifier::Log2) => {
            let end = to(0)?;
            let power: u8 = decimal(all[..end].strip_prefix(b"~ 2^")?)?.try_into().ok()?;
            ((power <= 64).then_some(EntryKey::Log2(power))?, end)
        }
        Some(FieldModifier::Buckets(_)) => {
            let end = to(0)?;
            let range = all[..end].strip_prefix(b"~ ")?;
            let dash = range.iter().position(|byte| *byte == b'-')?;
            let (from, to) = (decimal(&range[..dash])?, decimal(&range[dash + 1..])?);
            (EntryKey::Range(from, to), end)
        }
        Some(FieldModifier::Sym | FieldModifier::SymOffset) => {
            let end = to(0)?;
            let (address, name) = bracketed(&all[..end])?;
            (EntryKey::Symbol { address: hex(address)?, name: string(name) }, end)
        }
        Some(FieldModifier::Execname) => {
            let end = to(COMM_WIDTH)?;
            let (comm, tid) = numbered(&all[..end])?;
            (EntryKey::Execname { comm, tid }, end)
        }
        Some(FieldModifier::Syscall) => {
            let end = to(SYSCALL_WIDTH)?;
            let (name, number) = numbered(&all[..end])?;
            (EntryKey::Syscall { name, number }, end)
        }
        Some(FieldModifier::Usecs | FieldModifier::Stacktrace | FieldModifier::Percent | FieldModifier::Graph)
        | None => {
            match to(0).and_then(|end| Some((plain_number(&all[..end])?, end))) {
                Some((number, end)) => (EntryKey::Number(number), end),
                // If an editor has stripped the padding of a string, take the text up to the next name.
                None => {
                    let end = to(STRING_WIDTH).or_else(|| to(0))?;
                    (EntryKey::Text(text_of(&all[..end])), end)
                }
            }
        }
    };
    *text = &all[end..];
    Some(key)
}

/// The position, `least` or later, of the next `separator` that a name and a colon follow.
fn next_name(text: &[u8], least: usize, separator: &[u8; 2]) -> Option<usize> {
    (least..text.len()).find(|at| {
        text[*at..].strip_prefix(separator).is_some_and(|rest| {
            rest.iter().position(|byte| *byte == b':').is_some_and(|colon| is_name(&rest[..colon]))
                // `field.stacktrace` is followed by spaces instead of a colon.
                || rest.iter().position(|byte| *byte == b' ').is_some_and(|space| rest[..space].ends_with(b".stacktrace"))
        })
    })
}

/// Splits `[1f] rest` into `1f` and `rest`.
fn bracketed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"[")?;
    let end = text.iter().position(|byte| *byte == b']')?;
    Some((&text[..end], &text[end + 1..]))
}

/// Splits `name   [  12]` into `name` and 12. The name may itself contain brackets.
fn numbered(text: &[u8]) -> Option<(String, u64)> {
    let text = text.trim_ascii_end().strip_suffix(b"]")?;
    let start = text.iter().rposition(|byte| *byte == b'[')?;
    Some((text_of(&text[..start]), decimal(&text[start + 1..])?))
}

/// Parses a plain number. Numbers are padded only on the left; a string that consists of digits is padded
/// on the right.
fn plain_number(text: &[u8]) -> Option<u64> {
    (text.last().is_some_and(u8::is_ascii_digit)).then(|| decimal(text)).flatten()
}

fn parse_values(mut text: &[u8], fields: &[TriggerField]) -> Option<(Vec<String>, Vec<EntryValue>)> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let mut fields = fields.iter();
    loop {
        let start = text.trim_ascii_start();
        if start.is_empty() {
            return (!values.is_empty()).then_some((names, values));
        }
        if start.len() == text.len() {
            return None;
        }
        let colon = start.iter().position(|byte| *byte == b':')?;
        let (name, percent) = match start[..colon].strip_suffix(b" (%)") {
            Some(name) => (name, true),
            None => (&start[..colon], false),
        };
        if !is_name(name) {
            return None;
        }
        let name = string(name);
        // Skip values that the kernel does not show (expressions).
        let modifier = fields.find(|field| field.name == name)?.modifier.as_ref();
        let body = &start[colon + 1..];
        let (suffix, value, rest) = if percent {
            let (value, rest) = take_percent(body)?;
            (".percent", value, rest)
        } else if modifier == Some(&FieldModifier::Graph) || body.trim_ascii_start().first() == Some(&b'#') {
            let (value, rest) = take_bar(body)?;
            (".graph", value, rest)
        } else {
            let body = body.trim_ascii_start();
            let end = body.iter().position(u8::is_ascii_whitespace).unwrap_or(body.len());
            let value = match modifier {
                Some(FieldModifier::Hex) => EntryValue::Hex(hex(&body[..end])?),
                _ => EntryValue::Number(decimal(&body[..end])?),
            };
            ("", value, &body[end..])
        };
        names.push(name + suffix);
        values.push(value);
        text = rest;
    }
}

/// Takes ` 44.13`, or `[ERROR]` immediately after the colon.
fn take_percent(body: &[u8]) -> Option<(EntryValue, &[u8])> {
    if let Some(rest) = body.strip_prefix(b"[ERROR]") {
        return Some((EntryValue::Percent(None), rest));
    }
    let body = body.trim_ascii_start();
    let end = body.iter().position(u8::is_ascii_whitespace).unwrap_or(body.len());
    let dot = body[..end].iter().position(|byte| *byte == b'.')?;
    let (whole, hundredths) = (decimal(&body[..dot])?, decimal(&body[dot + 1..end])?);
    let percent = u32::try_from(whole).ok()?.checked_mul(100)?.checked_add(u32::try_from(hundredths).ok()?)?;
    (end - dot == 3).then_some((EntryValue::Percent(Some(percent)), &body[end..]))
}

/// Takes a space and 20 characters, `#` first; the padding may be missing at the end of a line.
fn take_bar(body: &[u8]) -> Option<(EntryValue, &[u8])> {
    let body = body.strip_prefix(b" ").unwrap_or(body);
    let (bar, rest) = body.split_at(body.len().min(BAR_WIDTH));
    let filled = bar.iter().take_while(|byte| **byte == b'#').count();
    bar[filled..].iter().all(|byte| *byte == b' ').then_some((EntryValue::Bar(filled as u8), rest))
}

/// Parses `\tmax:         12  next_comm: x                 prev_pid:          3`.
pub(super) fn parse_track_data(text: &[u8]) -> Option<TrackData> {
    let (handler, rest) = take_name(text.strip_prefix(b"\t")?)?;
    let end = next_name(rest, 0, b"  ").unwrap_or(rest.len());
    let mut tracked = TrackData { handler, value: decimal(&rest[..end])?, saved: Vec::new() };
    let mut rest = &rest[end..];
    while !rest.is_empty() {
        let (name, body) = take_name(rest.strip_prefix(b"  ")?)?;
        let to = |least| next_name(body, least, b"  ").unwrap_or(body.len());
        let (value, end) = match plain_number(&body[..to(0)]) {
            Some(number) => (SavedField::Number(number), to(0)),
            None => {
                let end = to(SAVED_WIDTH.min(body.len()));
                (SavedField::Text(text_of(&body[..end])), end)
            }
        };
        tracked.saved.push((name, value));
        rest = &body[end..];
    }
    Some(tracked)
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    digits.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    digits
        .iter()
        .all(u8::is_ascii_hexdigit)
        .then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .flatten()
}

/// A padded string without its padding, and without its own trailing spaces, which look the same.
fn text_of(text: &[u8]) -> String {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    String::from_utf8_lossy(&text[..end]).into_owned()
}

fn string(text: &[u8]) -> String {
    String::from_utf8_lossy(text.trim_ascii()).into_owned()
}
