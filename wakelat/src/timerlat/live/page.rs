//! Pages of the kernel's trace ring buffer, as `trace_pipe_raw` hands them out. Pure: bytes in, records with their times
//! out, never a panic.
//!
//! The form of an event is that of include/linux/ring_buffer.h (`struct ring_buffer_event`), the same from 6.1 to 7.2; the
//! form of the page is the kernel's own `events/header_page`.

use bytes::Buf as _;

use crate::kernel::format::{EventFormat, FormatError};

/// `time_delta` has 27 bits beside the 5 of `type_len`.
const DELTA_BITS: u32 = 27;
/// Of `type_len`: filler, or a record that was taken back (`RINGBUF_TYPE_PADDING`).
const PADDING: u32 = 29;
/// Of `type_len`: more bits of the delta (`RINGBUF_TYPE_TIME_EXTEND`).
const TIME_EXTEND: u32 = 30;
/// Of `type_len`: 59 bits of the time itself (`RINGBUF_TYPE_TIME_STAMP`).
const TIME_STAMP: u32 = 31;
/// Bits of an absolute time; those above are the page's.
const STAMP_BITS: u32 = 59;
/// Of `commit`: records before this page were overwritten (`RB_MISSED_EVENTS`, kernel/trace/ring_buffer.c).
const MISSED: u64 = 1 << 31;
/// Of `commit`: how many stands behind the data (`RB_MISSED_STORED`).
const MISSED_STORED: u64 = 1 << 30;
/// Of `commit`: the length of the data.
const LENGTH: u64 = (1 << 20) - 1;

/// Where a page has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the time of its first record.
    timestamp: usize,
    /// Offset of `commit`.
    commit: usize,
    /// How long that is: 4 or 8 bytes.
    commit_size: usize,
    /// Offset of the records.
    data: usize,
    /// The length of a page.
    pub size: usize,
}

/// A page, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Its records, oldest first: the time, in ns of the buffer's clock, and the bytes.
    pub records: Vec<(u64, &'a [u8])>,
    /// What was overwritten before it could be read.
    pub missed: MissedEvents,
}

/// Records that were overwritten before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedEvents {
    /// None.
    None,
    /// So many.
    Some(u64),
    /// Some; the page had no room for the number.
    Unknown,
}

/// Why bytes are no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageError {
    /// Where, in bytes from its beginning.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} of a page of the trace buffer: {}", self.at, self.what)
    }
}

impl std::error::Error for PageError {}

impl PageLayout {
    /// Reads `events/header_page`, a list of fields as in a `format` file.
    ///
    /// # Errors
    /// Where it is not of that form.
    pub fn parse(header_page: &str) -> Result<Self, FormatError> {
        let format = EventFormat::parse(&format!("name: header_page\nID: 0\nformat:\n{header_page}"))?;
        let field = |name, expected| format.field(name).ok_or(FormatError { line: 0, expected });
        let (timestamp, commit) = (field("timestamp", "field `timestamp`")?, field("commit", "field `commit`")?);
        let data = field("data", "field `data`")?;
        if ![4, 8].contains(&commit.size) {
            return Err(FormatError { line: 0, expected: "field `commit` of 4 or 8 bytes" });
        }
        if timestamp.size != 8 {
            return Err(FormatError { line: 0, expected: "field `timestamp` of 8 bytes" });
        }
        if [timestamp, commit].iter().any(|field| u64::from(field.offset) + u64::from(field.size) > data.offset.into())
        {
            return Err(FormatError { line: 0, expected: "field `data` behind the others" });
        }
        Ok(Self {
            timestamp: timestamp.offset as usize,
            commit: commit.offset as usize,
            commit_size: commit.size as usize,
            data: data.offset as usize,
            size: data.offset as usize + data.size as usize,
        })
    }

    /// Takes a page apart.
    ///
    /// # Errors
    /// Where a length leads out of it.
    pub fn read<'a>(&self, page: &'a [u8]) -> Result<Page<'a>, PageError> {
        let number = |at: usize, size: usize| {
            let mut bytes = page.get(at..at + size).ok_or(PageError { at, what: "the page is cut short" })?;
            Ok(if size == 4 { bytes.get_u32_ne().into() } else { bytes.get_u64_ne() })
        };
        let start = number(self.timestamp, 8)?;
        let commit = number(self.commit, self.commit_size)?;
        let end = self.data + (commit & LENGTH) as usize;
        if end > page.len() {
            return Err(PageError { at: self.commit, what: "it says it is longer than it is" });
        }
        let missed = match (commit & MISSED, commit & MISSED_STORED) {
            (0, _) => MissedEvents::None,
            (_, 0) => MissedEvents::Unknown,
            // The number is a `long`, and stands behind the data, whose length is without it (`ring_buffer_read_page`,
            // kernel/trace/ring_buffer.c, 5.10 to 7.2).
            _ => number(end, self.commit_size).map_or(MissedEvents::Unknown, MissedEvents::Some),
        };
        Ok(Page { records: records(&page[..end], self.data, start)?, missed })
    }
}

fn records(page: &[u8], mut at: usize, mut time: u64) -> Result<Vec<(u64, &[u8])>, PageError> {
    let base = time;
    let mut records = Vec::new();
    while at < page.len() {
        let word = |at: usize| {
            let mut bytes = page.get(at..at + 4).ok_or(PageError { at, what: "an event is cut short" })?;
            Ok(bytes.get_u32_ne())
        };
        let head = word(at)?;
        // The order of bit fields is the machine's: on a little-endian one the first has the low bits.
        let (kind, delta) = if cfg!(target_endian = "little") {
            (head & 31, head >> 5)
        } else {
            (head >> DELTA_BITS, head & ((1 << DELTA_BITS) - 1))
        };
        let delta = u64::from(delta);
        match kind {
            PADDING if delta == 0 => break,
            PADDING => {
                time = time.wrapping_add(delta);
                at += 4 + word(at + 4)? as usize;
            }
            TIME_EXTEND => {
                time = time.wrapping_add(u64::from(word(at + 4)?) << DELTA_BITS | delta);
                at += 8;
            }
            TIME_STAMP => {
                let low = u64::from(word(at + 4)?) << DELTA_BITS | delta;
                let stamp = base >> STAMP_BITS << STAMP_BITS | low & ((1 << STAMP_BITS) - 1);
                // The page's upper bits may be one behind (`rb_fix_abs_ts`, kernel/trace/ring_buffer.c).
                time = if stamp < base { stamp.wrapping_add(1 << STAMP_BITS) } else { stamp };
                at += 8;
            }
            _ => {
                time = time.wrapping_add(delta);
                let (data, length) = match kind {
                    // The length includes the word it stands in.
                    0 => (at + 8, (word(at + 4)? as usize).checked_sub(4)),
                    words => (at + 4, Some(words as usize * 4)),
                };
                let length = length.ok_or(PageError { at, what: "a record that is shorter than nothing" })?;
                let record = page.get(data..data + length);
                records.push((time, record.ok_or(PageError { at, what: "a record leads out of the page" })?));
                at = data + length;
            }
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

    fn form() -> PageLayout {
        PageLayout::parse(HEADER_PAGE).unwrap()
    }

    fn page(start: u64, commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = [start.to_ne_bytes(), commit.to_ne_bytes()].concat();
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page.resize(4096, 0);
        page
    }

    fn head(kind: u32, delta: u32) -> u32 {
        if cfg!(target_endian = "little") { kind | delta << 5 } else { kind << DELTA_BITS | delta }
    }

    #[test]
    fn a_form_that_no_page_can_have_is_refused() {
        assert_eq!(form().size, 4096);
        for (right, wrong) in [
            ("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:2"),
            ("timestamp;\toffset:0;\tsize:8", "timestamp;\toffset:0;\tsize:4"),
            ("timestamp;\toffset:0;", "timestamp;\toffset:9;"),
            ("data;\toffset:16;", "data;\toffset:15;"),
            ("data;", "others;"),
        ] {
            assert!(HEADER_PAGE.contains(right), "{right}");
            assert!(PageLayout::parse(&HEADER_PAGE.replace(right, wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn records_have_the_times_that_deltas_extensions_and_stamps_give_them() {
        let words = [
            head(2, 5),
            1,
            2, // 8 bytes, 5 ns later
            head(TIME_EXTEND, 3),
            1, // 2^27 + 3 later
            head(0, 0),
            12,
            7,
            8,
            head(PADDING, 9),
            8,
            0, // taken back, 9 later
            head(1, 1),
            9,
            head(TIME_STAMP, 6),
            1 << 20, // the time itself
            head(1, 0),
            10,
        ];
        let bytes = page(1000, words.len() as u64 * 4, &words);
        let page = form().read(&bytes).unwrap();
        let later = 1005 + (1 << 27) + 3;
        let times: Vec<u64> = page.records.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [1005, later, later + 10, (1 << 47) + 6]);
        let lengths: Vec<usize> = page.records.iter().map(|(_, record)| record.len()).collect();
        assert_eq!(lengths, [8, 8, 4, 4]);
        assert_eq!(page.missed, MissedEvents::None);
    }

    #[test]
    fn padding_without_a_time_ends_the_page() {
        let words = [head(1, 1), 1, head(PADDING, 0), 0, head(1, 1), 1];
        assert_eq!(form().read(&page(0, 24, &words)).unwrap().records.len(), 1);
    }

    #[test]
    fn what_was_overwritten_is_told_with_its_number_where_there_was_room_for_it() {
        let words = [head(1, 1), 1, 77, 0];
        let missed = |commit| form().read(&page(0, commit, &words)).unwrap().missed;
        assert_eq!(missed(8), MissedEvents::None);
        assert_eq!(missed(8 | MISSED), MissedEvents::Unknown);
        assert_eq!(missed(8 | MISSED | MISSED_STORED), MissedEvents::Some(77));
    }

    #[test]
    fn a_length_that_leads_out_of_the_page_is_refused() {
        assert!(form().read(&page(0, 8, &[head(28, 1), 1])).is_err());
        assert!(form().read(&page(0, 8, &[head(0, 1), 3])).is_err());
        assert!(form().read(&page(0, LENGTH, &[])).is_err());
        assert!(form().read(&[0; 10]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512), length in 0u64..512) {
            let mut bytes = bytes;
            if bytes.len() >= 16 {
                bytes[8..16].copy_from_slice(&length.to_ne_bytes());
            }
            let _ = form().read(&bytes);
        }
    }
}
