//! Why a recording cannot be read.

use std::{fmt, io};

use jiff::Timestamp;

use super::FORMAT;
use crate::report::MissingEnd;

/// Why a recording cannot be read.
#[derive(Debug)]
pub enum RecordingError {
    /// The input cannot be read.
    Io(io::Error),
    /// The input is not a recording.
    NotARecording,
    /// The recording has this format, which is not [`FORMAT`].
    UnsupportedFormat(u32),
    /// The data at this offset is not a valid block.
    Damaged {
        /// Offset from the start of the file: bytes.
        at: u64,
    },
    /// Data follows the end of the recording.
    TrailingData {
        /// Offset from the start of the file: bytes.
        at: u64,
    },
    /// The recording has nothing of the range of time that is read.
    OutsideRange {
        /// When it begins: ns since 1970-01-01 UTC.
        begin_unix_ns: u64,
        /// Its length, if the range begins after its end: ns.
        length_ns: Option<u64>,
    },
    /// The input ends before the end of the recording.
    Truncated {
        /// Offset of the first block that is not whole, from the start of the file: bytes.
        at: u64,
    },
}

impl RecordingError {
    /// What is missing, if everything before it is still valid.
    pub(super) fn missing_end(&self) -> Option<MissingEnd> {
        match *self {
            Self::Damaged { at } => Some(MissingEnd { file: 0, at, is_damaged: true }),
            Self::Truncated { at } => Some(MissingEnd { file: 0, at, is_damaged: false }),
            _ => None,
        }
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotARecording => f.write_str("not a recording; expected a file written by `wakelat record`"),
            Self::UnsupportedFormat(format) => write!(
                f,
                "a recording of format {format}, and this wakelat reads format {FORMAT}; read it with the version that \
                 wrote it, or record again"
            ),
            Self::Damaged { at } => {
                write!(f, "invalid data at byte {at}: the recording is damaged; copy it again, or record again")
            }
            Self::TrailingData { at } => {
                write!(f, "extra data at byte {at}, after the end of the recording; read one recording at a time")
            }
            Self::OutsideRange { begin_unix_ns, length_ns } => {
                let begin = Timestamp::from_nanosecond(i128::from(*begin_unix_ns)).unwrap_or_default();
                write!(f, "nothing was recorded in this range of time: the recording begins at {begin:.0}")?;
                let Some(tenths) = length_ns.map(|ns| ns / 100_000_000) else { return Ok(()) };
                write!(f, " and is {}.{} s long", tenths / 10, tenths % 10)
            }
            Self::Truncated { at } => write!(
                f,
                "truncated at byte {at}: `wakelat record` was killed, or the file is incomplete; record again, or copy it again"
            ),
        }
    }
}

impl std::error::Error for RecordingError {}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
