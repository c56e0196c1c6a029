//! Reads lines with bounded memory, whatever the input.

use std::io::{BufRead, Error, ErrorKind, Result};

/// Maximum number of bytes of a line that are parsed. Lines of the kernel are shorter than a page
/// (`TRACE_SEQ_BUFFER_SIZE`).
const MAX_LINE: usize = 8192;

/// Maximum number of bytes without a line of a trace. The logs of a whole test run are shorter, and input
/// without an end, such as a device, has to fail.
const MAX_UNRECOGNIZED: u64 = 16 * 1024 * 1024;

/// Reads the lines of a trace.
#[derive(Debug)]
pub(crate) struct TraceLineReader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// Bytes since the last line of a trace.
    unrecognized: u64,
}

impl<R: BufRead> TraceLineReader<R> {
    /// The input.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// Reads the lines of `input`.
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, unrecognized: 0 }
    }

    /// The current line, without its end.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The number of the current line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Notes that the current line is one of a trace.
    pub(crate) fn recognized(&mut self) {
        self.unrecognized = 0;
    }

    /// Reads the next line, up to [`MAX_LINE`] bytes of it. Returns whether there is one.
    ///
    /// # Errors
    /// If `input` fails, or after [`MAX_UNRECOGNIZED`] bytes without a line of a trace ([`ErrorKind::InvalidData`]).
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.line.clear();
        let mut any = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            self.unrecognized += taken as u64;
            if self.unrecognized > MAX_UNRECOGNIZED {
                let why = format!(
                    "no trace event in {} MiB, up to line {}; expected the output of `cat trace`",
                    MAX_UNRECOGNIZED >> 20,
                    self.number + 1
                );
                return Err(Error::new(ErrorKind::InvalidData, why));
            }
            let kept = taken.min(MAX_LINE - self.line.len());
            self.line.extend_from_slice(&chunk[..kept]);
            self.input.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(any);
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(any)
    }
}

/// The beginning of a line, for messages: one line of text without control characters.
pub(crate) fn excerpt(line: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    let mut found: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > SHOWN {
        found.push('…');
    }
    found
}
