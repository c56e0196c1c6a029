//! Lines of limited length, so that an input of any size costs no memory.

use std::io::BufRead;

use super::error::{HistErrorKind, HistParseError};

/// Longest line, and longest entry of several lines, that is read. The kernel's own limit for a symbol is 512 characters
/// and for a stack 16 of them (`HIST_STACKTRACE_DEPTH`, kernel/trace/trace.h).
pub(super) const MAX_ENTRY: usize = 64 * 1024;

/// Lines of limited length with their numbers.
pub(super) struct LineReader<R> {
    input: R,
    /// The line read last, without its end.
    pub line: Vec<u8>,
    /// Its number, counted from 1.
    pub number: u64,
    /// Whether it is to be read once more.
    pub held: bool,
    /// Whether lines end with a carriage return, as a serial console writes them: it is no part of the line.
    pub carriage_returns: bool,
}

impl<R: BufRead> LineReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, held: false, carriage_returns: false }
    }

    /// The next line without its end; none at the end of the input.
    pub fn next(&mut self) -> Result<Option<&[u8]>, HistParseError> {
        if std::mem::take(&mut self.held) {
            return Ok(Some(&self.line));
        }
        self.line.clear();
        let mut begun = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(HistParseError { line: self.number + 1, kind: HistErrorKind::Io(error) }),
            };
            if chunk.is_empty() && !begun {
                return Ok(None);
            }
            self.number += u64::from(!begun);
            begun = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            if self.line.len() + taken > MAX_ENTRY {
                return Err(self.error(HistErrorKind::TooLong));
            }
            self.line.extend_from_slice(&chunk[..taken]);
            let last = end.is_some() || chunk.is_empty();
            self.input.consume(taken + usize::from(end.is_some()));
            if last {
                if self.carriage_returns && self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
                return Ok(Some(&self.line));
            }
        }
    }
}

impl<R> LineReader<R> {
    pub fn error(&self, kind: HistErrorKind) -> HistParseError {
        HistParseError { line: self.number, kind }
    }

    pub fn cut(&self, expected: &'static str) -> HistParseError {
        self.error(HistErrorKind::Cut { expected })
    }

    pub fn unexpected(&self, expected: &'static str) -> HistParseError {
        self.error(HistErrorKind::Unexpected { expected, found: beginning(&self.line) })
    }
}

/// As much of a text as an error message bears, on one line and without control characters.
pub(super) fn beginning(text: &[u8]) -> String {
    const SHOWN: usize = 60;
    let shown = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]);
    let mut beginning: String =
        shown.chars().take(SHOWN).map(|character| if character.is_control() { ' ' } else { character }).collect();
    if shown.chars().count() > SHOWN {
        beginning.push('…');
    }
    beginning
}
