//! Reads lines of limited length, so that memory use does not depend on the size of the input.

use std::io::BufRead;

use super::error::{HistErrorKind, HistParseError, MAX_ENTRY};

/// Reads lines of limited length and counts them.
pub(super) struct LineReader<R> {
    input: R,
    /// The last line read, without its line break.
    pub line: Vec<u8>,
    /// The number of the last line read, counted from 1.
    pub number: u64,
    /// Whether [`Self::next`] returns the last line once more.
    pub held: bool,
    /// Whether lines end with a carriage return, as on a serial console, that is to be removed.
    pub carriage_returns: bool,
}

impl<R: BufRead> LineReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, held: false, carriage_returns: false }
    }

    /// The next line without its line break; none at the end of the input.
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

/// The beginning of a text for an error message, on one line and without control characters.
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
