//! The text of a trace: what `cat trace`, `cat trace_pipe` and `rtla -t` give.
//!
//! Everything the tracers and the tracepoints of noise print is read; other events are counted. A line that says
//! nothing of these, or is cut, is an [`TraceParseError`] that names it, and the next line is read.

mod event;
mod head;

use std::{fmt, io::BufRead};

use super::record::{KernelFrame, TimerlatEvent, TimerlatRecord};
use event::EventBody;
use head::LineHead;

/// Longest line that is looked at; the kernel's own are shorter than a page (`TRACE_SEQ_BUFFER_SIZE`).
const MAX_LINE: usize = 8192;

/// Functions of a stack that are kept: as many as timerlat keeps (`MAX_CALLS`, kernel/trace/trace_osnoise.c, 5.14 to 7.2).
const MAX_FRAMES: usize = 256;

/// Bytes without a line of a trace after which reading ends: the logs of a whole run of tests are shorter, and what has no
/// end, such as a device, ends too.
const MAX_UNRECOGNIZED: u64 = 16 * 1024 * 1024;

/// The precision of a time stamp in the text: ns. `start` of noise has all of its digits.
pub const RESOLUTION_NS: u64 = 1_000;

/// One thing a trace says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceItem {
    /// A record of the tracers.
    Record(TimerlatRecord),
    /// The kernel had no room for what came before, on one CPU; the number is not always known.
    Lost {
        /// The CPU.
        cpu: u32,
        /// How many events.
        events: Option<u64>,
    },
    /// The ring buffers had been overwritten when the trace was read: the kernel's `entries-written` without what
    /// is `in-buffer`, of all CPUs.
    Overwritten(u64),
    /// An event of another kind.
    Other,
}

/// A line that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParseError {
    /// Its number, from 1.
    pub line: u64,
    /// What it is not.
    pub kind: TraceErrorKind,
    /// How it begins.
    pub found: String,
}

/// What a line is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceErrorKind {
    /// It has no task, CPU and time.
    Foreign,
    /// It has, and then not what the named event prints.
    Broken(&'static str),
}

impl fmt::Display for TraceParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, kind, found } = self;
        match kind {
            TraceErrorKind::Foreign => {
                write!(f, "line {line}: `{found}` is no event; expected `TASK-PID [CPU] FLAGS TIMESTAMP: EVENT`")
            }
            TraceErrorKind::Broken(expected) => {
                write!(f, "line {line}: `{found}` is cut or garbled; expected `{expected}`")
            }
        }
    }
}

impl std::error::Error for TraceParseError {}

/// What a trace says, line by line.
pub struct TraceReader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// Bytes since the last line that was one of a trace.
    unrecognized: u64,
    /// The line has been read and belongs to the next call.
    held: bool,
}

impl<R: BufRead> TraceReader<R> {
    /// The trace in `input`.
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, unrecognized: 0, held: false }
    }

    /// The next thing it says; none at its end.
    ///
    /// # Errors
    /// Those of `input`, and where it goes on and on without a line of a trace. The inner result is an error where a line is
    /// none.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results of results would be worse to read")]
    pub fn next(&mut self) -> std::io::Result<Option<Result<TraceItem, TraceParseError>>> {
        while self.advance()? {
            let said = match read(&self.line) {
                Line::Nothing => continue,
                Line::Lost { cpu, events } => TraceItem::Lost { cpu, events },
                Line::Overwritten(events) => TraceItem::Overwritten(events),
                Line::Foreign => return Ok(Some(Err(self.error(TraceErrorKind::Foreign)))),
                Line::Event(head, body) => {
                    self.unrecognized = 0;
                    match body {
                        EventBody::Event(event) => TraceItem::Record(record(&head, event)),
                        EventBody::Stack => {
                            let frames = self.frames()?;
                            TraceItem::Record(record(&head, TimerlatEvent::Stack { seq: None, frames }))
                        }
                        EventBody::Other => {
                            self.frames()?;
                            TraceItem::Other
                        }
                        EventBody::Broken(expected) => {
                            return Ok(Some(Err(self.error(TraceErrorKind::Broken(expected)))));
                        }
                    }
                }
            };
            return Ok(Some(Ok(said)));
        }
        Ok(None)
    }

    /// The lines ` => FUNCTION` that follow.
    fn frames(&mut self) -> std::io::Result<Vec<KernelFrame>> {
        let mut frames = Vec::new();
        while self.advance()? {
            let Some(frame) = event::frame(&self.line) else {
                self.held = true;
                break;
            };
            if frames.len() < MAX_FRAMES {
                frames.push(frame);
            }
        }
        // A record has room for eight addresses more than it says (`__timerlat_dump_stack`, kernel/trace/trace_osnoise.c,
        // 5.19), and 6.1 prints what is there.
        while matches!(frames.last(), Some(KernelFrame::Symbol(name)) if name == "0") {
            frames.pop();
        }
        Ok(frames)
    }

    /// Reads the next line, as far as it is looked at.
    fn advance(&mut self) -> std::io::Result<bool> {
        if std::mem::take(&mut self.held) {
            return Ok(true);
        }
        self.line.clear();
        let mut any = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
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
                let why =
                    format!("{} MiB without a line of a trace, up to line {}", MAX_UNRECOGNIZED >> 20, self.number + 1);
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
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

    fn error(&self, kind: TraceErrorKind) -> TraceParseError {
        const SHOWN: usize = 60;
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim();
        let mut found: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if text.chars().count() > SHOWN {
            found.push('…');
        }
        TraceParseError { line: self.number, kind, found }
    }
}

fn record(head: &LineHead, event: TimerlatEvent) -> TimerlatRecord {
    TimerlatRecord { at_ns: head.at_ns, cpu: head.cpu, task: Some(head.task), event }
}

/// What one line is.
enum Line {
    Nothing,
    Lost { cpu: u32, events: Option<u64> },
    Overwritten(u64),
    Event(LineHead, EventBody),
    Foreign,
}

fn read(line: &[u8]) -> Line {
    let trimmed = line.trim_ascii();
    if trimmed.is_empty() {
        return Line::Nothing;
    }
    if trimmed.starts_with(b"#") {
        return match head::overwritten(trimmed) {
            Some(events) if events > 0 => Line::Overwritten(events),
            _ => Line::Nothing,
        };
    }
    if let Some((cpu, events)) = head::lost(trimmed) {
        return Line::Lost { cpu, events };
    }
    match LineHead::read(line) {
        Some((head, body)) => Line::Event(head, event::read(body)),
        None => Line::Foreign,
    }
}

#[cfg(test)]
mod tests;
