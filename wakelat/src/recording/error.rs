//! Why a file cannot be shown.

use std::{fmt, io};

use super::FORMAT;

/// Why a file cannot be shown.
#[derive(Debug)]
pub enum RecordingError {
    /// It cannot be read.
    Io(io::Error),
    /// It is something else.
    NotARecording,
    /// It has a form that this wakelat does not know.
    UnsupportedFormat(u32),
    /// What stands there is no frame.
    Damaged {
        /// Where: bytes from its start.
        at: u64,
    },
    /// There is something behind its end.
    TrailingData {
        /// Where: bytes from its start.
        at: u64,
    },
    /// It ends before its end.
    Truncated {
        /// Events up to there.
        events: u64,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotARecording => f.write_str("it is no recording; expected a file written by `wakelat record`"),
            Self::UnsupportedFormat(format) => write!(
                f,
                "it is a recording of format {format}, and this wakelat reads format {FORMAT}; show it with the wakelat that \
                 wrote it, or record again"
            ),
            Self::Damaged { at } => {
                write!(f, "it is damaged at byte {at}: what stands there is nothing that `wakelat record` writes")
            }
            Self::TrailingData { at } => write!(
                f,
                "it goes on at byte {at}, behind its end; expected one recording and nothing else: show several one by one"
            ),
            Self::Truncated { events } => write!(
                f,
                "it ends after {events} events, before its end: the run that wrote it was killed, or the file is not all \
                 there; what was lost is not known, so that no figure could be trusted"
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
