//! Parses the pages of an ftrace ring buffer, as `trace_pipe_raw` returns them, by the kernel's own
//! description. Pure.
//!
//! A page is a header (`events/header_page`) and entries (`events/header_event`). Each entry is a word
//! with its kind and the time since the previous entry, followed by its data (`ring_buffer_event`,
//! include/linux/ring_buffer.h, 5.10 to 7.2). The text of `trace` rounds to µs; the pages have ns.

use std::collections::HashMap;

/// Offset of the entries: after the time of the first one and the length of all.
const DATA: usize = 16;

/// Bits of the length field that are the length; the bits above are flags (`RB_MISSED_EVENTS`,
/// kernel/trace/ring_buffer.c).
const LENGTH: u64 = 0xf_ffff;

/// Set if events were lost before this page.
const MISSED: u64 = 1 << 31;

/// Kinds of entries; any other kind is the length of a record in words.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Number of bits of the time in an entry's first word.
const DELTA_BITS: u32 = 27;

/// Number of bits of an absolute time in an entry; the topmost five are missing (`ts_match_msb`,
/// kernel/trace/trace.h).
const ABSOLUTE_BITS: u32 = 59;

/// The records of a page, each with its time: ns of the buffer's clock.
///
/// # Errors
/// If events were lost before the page, or if it does not match the kernel's description.
pub fn records(page: &[u8]) -> Result<Vec<(u64, &[u8])>, String> {
    let word = |at: usize| u32_at(page, at).ok_or_else(|| format!("the page ends before byte {at}"));
    let long = |at: usize| Ok::<_, String>(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
    let (mut at_ns, commit) = (long(0)?, long(8)?);
    if commit & MISSED != 0 {
        return Err("events were lost before a page".to_owned());
    }
    let end = DATA + (commit & LENGTH) as usize;
    let (mut at, mut records) = (DATA, Vec::new());
    while at < end {
        let head = word(at)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let body = at + 4;
        let length = match kind {
            PADDING if delta == 0 => break,
            PADDING => word(body)? as usize,
            TIME_EXTEND => {
                at_ns += delta | u64::from(word(body)?) << DELTA_BITS;
                4
            }
            TIME_STAMP => {
                let low = delta | u64::from(word(body)?) << DELTA_BITS;
                at_ns = at_ns >> ABSOLUTE_BITS << ABSOLUTE_BITS | low;
                4
            }
            _ => {
                at_ns += delta;
                // The length of a long record is in the word before it, and includes that word.
                let (from, length) =
                    if kind == LONG { (body + 4, word(body)? as usize) } else { (body, kind as usize * 4) };
                let record = page.get(from..body + length).ok_or_else(|| format!("a record of {length} bytes"))?;
                records.push((at_ns, record));
                length
            }
        };
        at = body + length;
    }
    Ok(records)
}

/// An event's `format` file: its ID, and where its fields are.
#[derive(Debug)]
pub struct FtraceFormat {
    /// The number that its records begin with.
    pub id: u16,
    fields: HashMap<String, (usize, usize)>,
}

impl FtraceFormat {
    /// Parses a `format` file. None if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            let name = parts.next()?.rsplit(' ').next()?.split('[').next()?.to_owned();
            let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
            let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
            Some((name, (offset, size)))
        });
        Some(Self { id, fields: fields.collect() })
    }

    /// A number in `record`: 4 bytes, or the lower 4 of 8.
    pub fn number(&self, record: &[u8], name: &str) -> Option<u32> {
        u32_at(record, self.fields.get(name)?.0)
    }

    /// A fixed-length string in `record`.
    pub fn text(&self, record: &[u8], name: &str) -> Option<String> {
        let (offset, size) = *self.fields.get(name)?;
        let bytes = record.get(offset..offset + size)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The number that a record begins with: the ID of its event.
pub fn id(record: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(record.get(..2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(at_ns: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = at_ns.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(4096, 0xee);
        page
    }

    fn times(page: &[u8]) -> Vec<(u64, usize)> {
        records(page).unwrap().iter().map(|(at_ns, record)| (*at_ns, record.len())).collect()
    }

    #[test]
    fn the_time_of_a_record_is_relative_to_the_previous_one() {
        let page = page(1_000, 0, &[2, 7, 7, 5 << 5 | 1, 8, 6 << 5 | LONG, 12, 9, 9]);
        assert_eq!(times(&page), [(1_000, 8), (1_005, 4), (1_011, 8)]);
        assert_eq!(records(&page).unwrap()[1].1, [8, 0, 0, 0]);
    }

    #[test]
    fn long_gaps_have_an_entry_of_their_own() {
        assert_eq!(times(&page(10, 0, &[3 << 5 | TIME_EXTEND, 2, 4 << 5 | 1, 0])), [(10 + 3 + (2 << 27) + 4, 4)]);
    }

    #[test]
    fn an_absolute_time_keeps_the_topmost_bits_of_the_previous_one() {
        let high = 3 << ABSOLUTE_BITS;
        assert_eq!(times(&page(high | 10, 0, &[3 << 5 | TIME_STAMP, 2, 1, 0])), [(high | ((2 << 27) + 3), 4)]);
    }

    #[test]
    fn padding_is_skipped_and_ends_a_page_if_it_has_no_length() {
        let padded = page(1, 0, &[1 << 5 | PADDING, 8, 0, 1, 0, PADDING, 1, 0]);
        assert_eq!(times(&padded), [(1, 4)]);
    }

    #[test]
    fn lost_events_and_cut_pages_are_errors() {
        assert!(records(&page(1, MISSED, &[1, 0])).is_err());
        assert!(records(&page(1, 0, &[28, 0])[..40]).is_err());
        assert!(records(&[0; 3]).is_err());
    }

    #[test]
    fn a_format_has_the_offsets_of_the_fields() {
        let text = "name: x\nID: 306\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
        let format = FtraceFormat::parse(text).unwrap();
        let mut record = vec![50, 1, 0, 0, 0, 0, 0, 0];
        record.extend(b"wl-ping\0stale...");
        record.extend(77u32.to_le_bytes());
        assert_eq!((id(&record), format.id), (Some(306), 306));
        assert_eq!(format.text(&record, "comm").as_deref(), Some("wl-ping"));
        assert_eq!((format.number(&record, "pid"), format.number(&record, "prio")), (Some(77), None));
        assert_eq!(format.number(&record[..20], "pid"), None);
        assert!(FtraceFormat::parse("garbage").is_none());
    }
}
