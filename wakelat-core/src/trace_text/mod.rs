//! The text of another tool's trace as the frames of a recording: the views need not know the difference. Pure.
//!
//! The text is that of ftrace (`trace`, `trace_pipe`), of `trace-cmd report` or of `perf script`, which is recognized from
//! its lines. `line.rs` and `event.rs` parse them, `waits.rs` computes the waits by the rules of the BPF programs, and
//! `translate.rs` makes frames of both.
//!
//! # What a text lacks
//!
//! A text has no policies, cgroups, namespaces, throttling or steal time, and the process of a thread only in some of its
//! forms. Where `sched_wakeup` is missing, as in the traces of `perf sched record`, waits begin at `sched_waking`, and their
//! delivery is unknown. After a loss, the waits that were pending may have ended unseen: they count as missed.
//!
//! The header says which events the trace has: the reader looks at the first 65,536 before it returns the first frame.

mod error;
mod event;
mod line;
mod origin;
mod translate;
mod waits;

#[cfg(test)]
mod more_events_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io::{BufRead, ErrorKind},
};

use self::{event::TracedEvent, line::TraceLine, origin::Origin, translate::Translator};
use crate::{
    recording::{Frame, Header},
    report::{LatencyFrom, TextCoverage},
    trace_line::{LineHead, TraceLineReader, excerpt},
};

pub use error::TraceTextError;

/// Maximum number of events that are read before the first frame.
const MAX_HEAD_EVENTS: usize = 1 << 16;

/// The text of a trace, read frame by frame.
#[derive(Debug)]
pub struct TraceText<R> {
    lines: TraceLineReader<R>,
    header: Header,
    /// Lines that have been read, but not translated.
    ahead: VecDeque<Item>,
    translator: Translator,
    coverage: TextCoverage,
    ended: bool,
}

/// A line with a meaning.
#[derive(Clone, Copy, Debug)]
enum Item {
    Event(LineHead, TracedEvent),
    Lost(u32, Option<u64>),
    BufferStarted(u32),
}

impl<R: BufRead> TraceText<R> {
    /// Reads the beginning of a trace.
    ///
    /// # Errors
    /// If the input cannot be read, has no event of a trace, or no `sched_switch` among its first events.
    pub fn open(input: R) -> Result<Self, TraceTextError> {
        let mut lines = TraceLineReader::new(input);
        let (mut origin, mut ahead, mut coverage) = (Origin::default(), VecDeque::new(), TextCoverage::default());
        while ahead.len() < MAX_HEAD_EVENTS {
            let is_other = |error: std::io::Error| match error.kind() {
                ErrorKind::InvalidData if ahead.is_empty() => TraceTextError::NotATrace,
                _ => TraceTextError::Io(error),
            };
            match next(&mut lines, &mut origin, &mut coverage).map_err(is_other)? {
                Some(item) => ahead.push_back(item),
                None => break,
            }
        }
        if !origin.has_events() {
            return Err(TraceTextError::NotATrace);
        }
        if !origin.has_switch() {
            return Err(TraceTextError::NoSwitch { among: ahead.len() });
        }
        let header = origin.header();
        let has_delivery = header.text.is_some_and(|text| text.has_delivery);
        let is_waking_only = header.from == LatencyFrom::Waking && !has_delivery;
        let translator = Translator::new(header.from, is_waking_only, origin.kernel());
        Ok(Self { lines, header, ahead, translator, coverage, ended: false })
    }

    /// The input.
    pub fn input(&self) -> &R {
        self.lines.input()
    }

    /// The header: what is known of the trace.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next frame; none after [`Frame::End`].
    ///
    /// # Errors
    /// If the input cannot be read, or goes on for long without a line of a trace.
    pub fn frame(&mut self) -> Result<Option<Frame<'static>>, TraceTextError> {
        loop {
            if let Some(frame) = self.translator.frame() {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            let item = match self.ahead.pop_front() {
                Some(item) => Some(item),
                None => next(&mut self.lines, &mut Origin::default(), &mut self.coverage)?,
            };
            match item {
                Some(Item::Event(head, event)) => self.translator.event(head, &event, &self.coverage),
                Some(Item::Lost(cpu, events)) => self.translator.lose(cpu, events),
                Some(Item::BufferStarted(cpu)) => self.translator.begin_unseen(cpu),
                None => {
                    self.translator.end(&self.coverage);
                    self.ended = true;
                }
            }
        }
    }
}

/// Reads up to the next line with a meaning, and counts those that cannot be parsed. Returns none at the end.
fn next<R: BufRead>(
    lines: &mut TraceLineReader<R>,
    origin: &mut Origin,
    coverage: &mut TextCoverage,
) -> std::io::Result<Option<Item>> {
    while lines.advance()? {
        let why = match line::read(lines.line()) {
            TraceLine::Nothing => {
                origin.comment(lines.line());
                continue;
            }
            TraceLine::Event(kind, head, event) => {
                lines.recognized();
                origin.event(kind, &head, &event);
                return Ok(Some(Item::Event(head, event)));
            }
            TraceLine::Lost(cpu, events) => return Ok(Some(Item::Lost(cpu, events))),
            TraceLine::BufferStarted(cpu) => return Ok(Some(Item::BufferStarted(cpu))),
            TraceLine::Broken(expected) => {
                lines.recognized();
                format!("is truncated or malformed; expected `{expected}`")
            }
            TraceLine::Foreign => "is not an event of a trace".to_owned(),
        };
        coverage.skipped_lines += 1;
        let (number, line) = (lines.number(), lines.line());
        coverage.first_skipped.get_or_insert_with(|| format!("line {number}: `{}` {why}", excerpt(line)));
    }
    Ok(None)
}
