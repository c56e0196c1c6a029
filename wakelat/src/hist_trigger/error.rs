//! Why an input is not the output of a hist trigger.

use super::lines::MAX_ENTRY;

/// The largest table a trigger can have: `1 << TRACING_MAP_BITS_MAX` (kernel/trace/tracing_map.h).
pub(super) const MAX_ENTRIES: usize = 1 << 17;

/// What to do about an input that is not whole.
const OR_EXCERPT: &str = ", or read what there is with `--excerpt`";

/// Why an input is not the output of a hist trigger.
#[derive(Debug)]
pub struct HistParseError {
    /// The line at fault, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: HistErrorKind,
}

/// What is wrong with a line.
#[derive(Debug)]
pub enum HistErrorKind {
    /// It cannot be read.
    Io(std::io::Error),
    /// It is longer than the kernel writes.
    TooLong,
    /// Something else was expected.
    Unexpected {
        /// What was expected.
        expected: &'static str,
        /// The line's beginning.
        found: String,
    },
    /// The input ends before this was found.
    Cut {
        /// What was expected.
        expected: &'static str,
    },
    /// Entries are missing, or there are some too many.
    Count {
        /// What `Entries:` says.
        declared: u64,
        /// How many were read.
        read: u64,
    },
    /// An entry cannot be read to its end.
    Entry {
        /// What was expected.
        expected: &'static str,
        /// The entry's beginning.
        found: String,
    },
    /// The input is no text.
    Binary,
    /// More entries than the kernel's largest table has.
    TooMany,
}

impl std::fmt::Display for HistParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            HistErrorKind::Io(error) => error.fmt(f),
            HistErrorKind::TooLong => write!(f, "more than {MAX_ENTRY} bytes, which no hist trigger writes"),
            HistErrorKind::Unexpected { expected, found } => write!(f, "expected {expected}, found `{found}`"),
            HistErrorKind::Cut { expected } => {
                write!(f, "the input ends here, before {expected}; save the whole output of `cat events/…/hist`")?;
                f.write_str(OR_EXCERPT)
            }
            HistErrorKind::Count { declared: said, read } => {
                write!(f, "`Entries: {said}`, but {read} were read: lines are missing or were added{OR_EXCERPT}")
            }
            HistErrorKind::Entry { expected, found } => write!(f, "expected {expected}, found `{found}`{OR_EXCERPT}"),
            HistErrorKind::Binary => f.write_str("binary data; expected the output of `cat events/…/hist`"),
            HistErrorKind::TooMany => write!(f, "more than {MAX_ENTRIES} entries, which no hist trigger has"),
        }
    }
}

// The system's own error is part of the text, so it is no source.
impl std::error::Error for HistParseError {}
