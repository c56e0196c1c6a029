//! Decodes pages of the kernel's trace ring buffer, as read from `trace_pipe_raw`. Pure: takes bytes,
//! returns records with their times, and never panics.
//!
//! The format of an event is that of include/linux/ring_buffer.h (`struct ring_buffer_event`), unchanged
//! from 6.1 to 7.2. The format of the page comes from the kernel's own `events/header_page`.

use bytes::Buf as _;

use wakelat_kernel::event_format::{EventFormat, FormatError};

/// `time_delta` has 27 bits, next to the 5 bits of `type_len`.
const DELTA_BITS: u32 = 27;
/// A value of `type_len`: padding, or a record that was discarded (`RINGBUF_TYPE_PADDING`).
const PADDING: u32 = 29;
/// A value of `type_len`: more bits of the time delta (`RINGBUF_TYPE_TIME_EXTEND`).
const TIME_EXTEND: u32 = 30;
/// A value of `type_len`: 59 bits of the absolute time (`RINGBUF_TYPE_TIME_STAMP`).
const TIME_STAMP: u32 = 31;
/// The bits of an absolute time. The bits above come from the time of the page.
const STAMP_BITS: u32 = 59;
/// A bit of `commit`: records before this page were overwritten (`RB_MISSED_EVENTS`,
/// kernel/trace/ring_buffer.c).
const MISSED: u64 = 1 << 31;
/// A bit of `commit`: the number of overwritten records follows the data (`RB_MISSED_STORED`).
const MISSED_STORED: u64 = 1 << 30;
/// The bits of `commit` with the length of the data.
const LENGTH: u64 = (1 << 20) - 1;

/// The layout of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The offset of the time of the first record.
    timestamp: usize,
    /// The offset of `commit`.
    commit: usize,
    /// The size of `commit`: 4 or 8 bytes.
    commit_size: usize,
    /// The offset of the records.
    data: usize,
    /// The size of a page.
    pub size: usize,
}

/// A decoded page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The records, oldest first: the time in ns, on the clock of the buffer, and the bytes.
    pub records: Vec<(u64, &'a [u8])>,
    /// Records that were overwritten before they could be read.
    pub missed: MissedEvents,
}

/// Records that were overwritten before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedEvents {
    /// None.
    None,
    /// This number of records.
    Some(u64),
    /// An unknown number of records, because the page had no room for it.
    Unknown,
}

/// Why bytes are not a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageError {
    /// The offset of the error in the page, in bytes.
    pub at: usize,
    /// What is wrong at this offset.
    pub what: &'static str,
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} of a page of the trace buffer: {}", self.at, self.what)
    }
}

impl std::error::Error for PageError {}

impl PageLayout {
    /// Parses `events/header_page`, a list of fields as in a `format` file.
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
            return Err(FormatError { line: 0, expected: "field `data` after the others" });
        }
        Ok(Self {
            timestamp: timestamp.offset as usize,
            commit: commit.offset as usize,
            commit_size: commit.size as usize,
            data: data.offset as usize,
            size: data.offset as usize + data.size as usize,
        })
    }

    /// Decodes a page.
    ///
    /// # Errors
    ///
    /// Fails if a length exceeds the page.
    pub fn read<'a>(&self, page: &'a [u8]) -> Result<Page<'a>, PageError> {
        let number = |at: usize, size: usize| {
            let mut bytes = page.get(at..at + size).ok_or(PageError { at, what: "the page is truncated" })?;
            Ok(if size == 4 { bytes.get_u32_ne().into() } else { bytes.get_u64_ne() })
        };
        let start = number(self.timestamp, 8)?;
        let commit = number(self.commit, self.commit_size)?;
        let end = self.data + (commit & LENGTH) as usize;
        if end > page.len() {
            return Err(PageError { at: self.commit, what: "its length field exceeds its size" });
        }
        let missed = match (commit & MISSED, commit & MISSED_STORED) {
            (0, _) => MissedEvents::None,
            (_, 0) => MissedEvents::Unknown,
            // The number is a `long`. It follows the data, whose length does not include it
            // (`ring_buffer_read_page`, kernel/trace/ring_buffer.c, 5.10 to 7.2).
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
            let mut bytes = page.get(at..at + 4).ok_or(PageError { at, what: "an event is truncated" })?;
            Ok(bytes.get_u32_ne())
        };
        let head = word(at)?;
        // The order of bit fields depends on the byte order: on a little-endian machine the first field has
        // the low bits.
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
                // The upper bits of the page's time may be one too low (`rb_fix_abs_ts`,
                // kernel/trace/ring_buffer.c).
                time = if stamp < base { stamp.wrapping_add(1 << STAMP_BITS) } else { stamp };
                at += 8;
            }
            _ => {
                time = time.wrapping_add(delta);
                let (data, length) = match kind {
                    // The length includes the word that contains it.
                    0 => (at + 8, (word(at + 4)? as usize).checked_sub(4)),
                    words => (at + 4, Some(words as usize * 4)),
                };
                let length = length.ok_or(PageError { at, what: "a record of negative length" })?;
                let record = page.get(data..data + length);
                records.push((time, record.ok_or(PageError { at, what: "a record extends beyond the page" })?));
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
    fn an_impossible_page_layout_is_rejected() {
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
    fn deltas_extensions_and_time_stamps_determine_the_times_of_records() {
        let words = [
            head(2, 5),
            1,
            2, // 8 bytes, 5 ns later
            head(TIME_EXTEND, 3),
            1, // 2^27 + 3 ns later
            head(0, 0),
            12,
            7,
            8,
            head(PADDING, 9),
            8,
            0, // discarded, 9 ns later
            head(1, 1),
            9,
            head(TIME_STAMP, 6),
            1 << 20, // the absolute time
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
    fn the_number_of_overwritten_records_is_known_if_it_is_stored() {
        let words = [head(1, 1), 1, 77, 0];
        let missed = |commit| form().read(&page(0, commit, &words)).unwrap().missed;
        assert_eq!(missed(8), MissedEvents::None);
        assert_eq!(missed(8 | MISSED), MissedEvents::Unknown);
        assert_eq!(missed(8 | MISSED | MISSED_STORED), MissedEvents::Some(77));
    }

    #[test]
    fn a_length_beyond_the_page_is_rejected() {
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
