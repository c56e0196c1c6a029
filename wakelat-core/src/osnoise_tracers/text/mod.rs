//! Parses the text of a trace, as from `cat trace`, `cat trace_pipe` or `rtla -t`.
//!
//! All events of the tracers and of the noise tracepoints are parsed; other events are counted. A line that
//! is not an event, or is truncated, is a [`TraceParseError`] that identifies it, and parsing goes on with
//! the next line.

mod event;

use std::{fmt, io::BufRead};

use super::record::{KernelFrame, TimerlatEvent, TimerlatRecord, TracedTask};
use crate::trace_line::{self, LineHead, TraceLineReader, excerpt};
use event::EventBody;

/// Maximum number of functions kept of a stack, as in timerlat itself (`MAX_CALLS`,
/// kernel/trace/trace_osnoise.c, 5.14 to 7.2).
const MAX_FRAMES: usize = 256;

/// The precision of a time stamp in the text: ns. The `start` of noise has full precision.
pub const RESOLUTION_NS: u64 = 1_000;

/// An item of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceItem {
    /// A record of a tracer.
    Record(TimerlatRecord),
    /// Events of one CPU were lost before this item. Their number is not always known.
    Lost {
        /// The CPU.
        cpu: u32,
        /// The number of events.
        events: Option<u64>,
    },
    /// The number of events that were overwritten before the trace was read, on all CPUs: the kernel's
    /// `entries-written` minus `entries-in-buffer`.
    Overwritten(u64),
    /// An event of another kind.
    Other,
}

/// A line that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParseError {
    /// The number of the line, from 1.
    pub line: u64,
    /// What is wrong with the line.
    pub kind: TraceErrorKind,
    /// The beginning of the line.
    pub found: String,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceErrorKind {
    /// The line has no task, CPU and time.
    Foreign,
    /// The line has a task, CPU and time, but not the text that its event prints, given here.
    Broken(&'static str),
}

impl fmt::Display for TraceParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, kind, found } = self;
        match kind {
            TraceErrorKind::Foreign => {
                write!(f, "line {line}: `{found}` is not an event; expected `TASK-PID [CPU] FLAGS TIMESTAMP: EVENT`")
            }
            TraceErrorKind::Broken(expected) => {
                write!(f, "line {line}: `{found}` is truncated or malformed; expected `{expected}`")
            }
        }
    }
}

impl std::error::Error for TraceParseError {}

/// Parses a trace, line by line.
pub struct TraceReader<R> {
    lines: TraceLineReader<R>,
    /// Whether the line has been read, but belongs to the next item.
    held: bool,
}

impl<R: BufRead> TraceReader<R> {
    /// Creates a parser of the trace in `input`.
    pub fn new(input: R) -> Self {
        Self { lines: TraceLineReader::new(input), held: false }
    }

    /// Returns the next item, or `None` at the end. The inner result is an error if a line could not be
    /// parsed.
    ///
    /// # Errors
    ///
    /// Fails if `input` does, or after 16 MiB without a line of a trace.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results of results would be worse to read")]
    pub fn next(&mut self) -> std::io::Result<Option<Result<TraceItem, TraceParseError>>> {
        while self.advance()? {
            let item = match read(self.lines.line()) {
                Line::Nothing => continue,
                Line::Lost { cpu, events } => TraceItem::Lost { cpu, events },
                Line::Overwritten(events) => TraceItem::Overwritten(events),
                Line::Foreign => return Ok(Some(Err(self.error(TraceErrorKind::Foreign)))),
                Line::Event(head, body) => {
                    self.lines.recognized();
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
            return Ok(Some(Ok(item)));
        }
        Ok(None)
    }

    /// Reads the lines ` => FUNCTION` that follow.
    fn frames(&mut self) -> std::io::Result<Vec<KernelFrame>> {
        let mut frames = Vec::new();
        while self.advance()? {
            let Some(frame) = event::frame(self.lines.line()) else {
                self.held = true;
                break;
            };
            if frames.len() < MAX_FRAMES {
                frames.push(frame);
            }
        }
        // A record has room for eight more addresses than its count (`__timerlat_dump_stack`,
        // kernel/trace/trace_osnoise.c, 5.19), and 6.1 prints whatever is there.
        while matches!(frames.last(), Some(KernelFrame::Symbol(name)) if name == "0") {
            frames.pop();
        }
        Ok(frames)
    }

    /// Reads the next line. Returns whether there is one.
    fn advance(&mut self) -> std::io::Result<bool> {
        if std::mem::take(&mut self.held) {
            return Ok(true);
        }
        self.lines.advance()
    }

    fn error(&self, kind: TraceErrorKind) -> TraceParseError {
        TraceParseError { line: self.lines.number(), kind, found: excerpt(self.lines.line()) }
    }
}

fn record(head: &LineHead, event: TimerlatEvent) -> TimerlatRecord {
    let task = TracedTask { tid: head.tid, comm: head.comm };
    TimerlatRecord { at_ns: head.at_ns, cpu: head.cpu, task: Some(task), event }
}

/// A parsed line.
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
        return match trace_line::overwritten(trimmed) {
            Some(events) if events > 0 => Line::Overwritten(events),
            _ => Line::Nothing,
        };
    }
    if let Some((cpu, events)) = trace_line::lost(trimmed) {
        return Line::Lost { cpu, events };
    }
    match LineHead::read(line) {
        Some((head, body)) => Line::Event(head, event::read(body)),
        None => Line::Foreign,
    }
}

#[cfg(test)]
mod tests;
