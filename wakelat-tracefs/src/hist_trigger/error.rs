//! Why an input is not the output of a hist trigger.

/// Maximum length in bytes of a line, and of an entry of several lines. The kernel's own limits are 512
/// characters for a symbol and 16 symbols for a stack (`HIST_STACKTRACE_DEPTH`, kernel/trace/trace.h).
pub(super) const MAX_ENTRY: usize = 64 * 1024;

/// Maximum number of entries of a trigger's table: `1 << TRACING_MAP_BITS_MAX` (kernel/trace/tracing_map.h).
pub(super) const MAX_ENTRIES: usize = 1 << 17;

/// Hint for incomplete input.
const OR_EXCERPT: &str = "; `--excerpt` accepts incomplete input";

/// Why an input is not the output of a hist trigger.
#[derive(Debug)]
pub struct HistParseError {
    /// The faulty line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: HistErrorKind,
}

/// What is wrong with the line.
#[derive(Debug)]
pub enum HistErrorKind {
    /// The line cannot be read.
    Io(std::io::Error),
    /// The line is longer than any that the kernel writes.
    TooLong,
    /// Something else was expected.
    Unexpected {
        /// What was expected.
        expected: &'static str,
        /// The line's beginning.
        found: String,
    },
    /// The input ends too early.
    Cut {
        /// What was expected.
        expected: &'static str,
    },
    /// The number of entries differs from the one after `Entries:`.
    Count {
        /// The number after `Entries:`.
        declared: u64,
        /// The number of entries read.
        read: u64,
    },
    /// An entry is malformed or incomplete.
    Entry {
        /// What was expected.
        expected: &'static str,
        /// The entry's beginning.
        found: String,
    },
    /// The input is binary data.
    Binary,
    /// The input has more entries than the kernel's largest table.
    TooMany,
}

impl std::fmt::Display for HistParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            HistErrorKind::Io(error) => error.fmt(f),
            HistErrorKind::TooLong => write!(f, "longer than {MAX_ENTRY} bytes, the limit for a hist trigger entry"),
            HistErrorKind::Unexpected { expected, found } => write!(f, "expected {expected}, found `{found}`"),
            HistErrorKind::Cut { expected } => {
                write!(f, "the input ends here, before {expected}; save the whole output of `cat events/…/hist`")?;
                f.write_str(OR_EXCERPT)
            }
            HistErrorKind::Count { declared, read } => {
                write!(
                    f,
                    "`Entries: {declared}`, but the input has {read}: lines are missing or were added{OR_EXCERPT}"
                )
            }
            HistErrorKind::Entry { expected, found } => write!(f, "expected {expected}, found `{found}`{OR_EXCERPT}"),
            HistErrorKind::Binary => f.write_str("binary data; expected the output of `cat events/…/hist`"),
            HistErrorKind::TooMany => write!(f, "more than {MAX_ENTRIES} entries, the limit for a hist trigger"),
        }
    }
}

// `Display` already includes the I/O error, so it is not also a `source`.
impl std::error::Error for HistParseError {}
