//! The pages of a ftrace ring buffer, as `trace_pipe_raw` hands them out, taken apart by the kernel's own description. Pure.
//!
//! A page is a header (`events/header_page`) and entries (`events/header_event`), each a word with its kind and the time
//! since the one before, and what belongs to it (`ring_buffer_event`, include/linux/ring_buffer.h, 5.10 to 7.2). The text of
//! `trace` rounds to µs; here every ns is there.

use std::collections::HashMap;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Where the entries begin: after the time of the first one, and the length of all.
const DATA: usize = 16;

/// The part of the length that is one; above it are flags (`RB_MISSED_EVENTS`, kernel/trace/ring_buffer.c).
const LENGTH: u64 = 0xf_ffff;

/// Set where events were lost before this page.
const MISSED: u64 = 1 << 31;

/// What the kernel calls a kind of entry that is none of these is the length of a record in words.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of the time in an entry's first word.
const DELTA_BITS: u32 = 27;

/// Of an absolute time the topmost five bits are not in the entry (`ts_match_msb`, kernel/trace/trace.h).
const ABSOLUTE_BITS: u32 = 59;

/// The records of a page, each with its time: ns of the buffer's clock.
///
/// # Errors
/// Where events were lost before it, or it is not what the kernel describes.
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
                // The length of a long one stands before it, and counts itself.
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

/// An event's `format` file: its number, and where its fields are.
#[derive(Debug)]
pub struct FtraceFormat {
    /// What its records begin with.
    pub id: u16,
    fields: HashMap<String, (usize, usize)>,
}

impl FtraceFormat {
    /// Reads one. None where it is none.
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

    /// A name of fixed length in `record`.
    pub fn text(&self, record: &[u8], name: &str) -> Option<String> {
        let (offset, size) = *self.fields.get(name)?;
        let bytes = record.get(offset..offset + size)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The number a record begins with: its event's.
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
        page.resize(PAGE, 0xee);
        page
    }

    fn times(page: &[u8]) -> Vec<(u64, usize)> {
        records(page).unwrap().iter().map(|(at_ns, record)| (*at_ns, record.len())).collect()
    }

    #[test]
    fn a_record_comes_so_long_after_the_one_before() {
        let page = page(1_000, 0, &[2, 7, 7, 5 << 5 | 1, 8, 6 << 5 | LONG, 12, 9, 9]);
        assert_eq!(times(&page), [(1_000, 8), (1_005, 4), (1_011, 8)]);
        assert_eq!(records(&page).unwrap()[1].1, [8, 0, 0, 0]);
    }

    #[test]
    fn long_pauses_have_an_entry_of_their_own() {
        assert_eq!(times(&page(10, 0, &[3 << 5 | TIME_EXTEND, 2, 4 << 5 | 1, 0])), [(10 + 3 + (2 << 27) + 4, 4)]);
    }

    #[test]
    fn an_absolute_time_keeps_the_bits_that_it_lacks() {
        let high = 3 << ABSOLUTE_BITS;
        assert_eq!(times(&page(high | 10, 0, &[3 << 5 | TIME_STAMP, 2, 1, 0])), [(high | ((2 << 27) + 3), 4)]);
    }

    #[test]
    fn padding_is_passed_over_and_ends_a_page_where_it_has_no_length() {
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
    fn a_format_tells_where_the_fields_are() {
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
