//! A range of time of a recording: the segments outside of it are not decoded.

use std::{
    collections::BTreeMap,
    io::{Read, Seek},
};

use super::{
    super::{
        Frame, Kept, RecordingError, RunBefore,
        block::{self, BlockHead, HEAD_BYTES},
    },
    CurrentBlock, MAX_GROUPS, Recording,
};
use crate::report::Report;

/// A point in the time of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// Time since the begin of the recording: ns.
    SinceBegin(u64),
    /// Time since 1970-01-01 UTC: ns.
    Unix(u64),
}

/// A range of time, which ends at readings: it begins at the last one until `since`, and ends with the first one from
/// `until` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Its begin; none for that of the recording.
    pub since: Option<TimePoint>,
    /// Its end; none for that of the recording.
    pub until: Option<TimePoint>,
}

impl TimePoint {
    /// Whether `reading` is at this time or later; `begin_ns` is the length of the run before the recording.
    fn is_reached(self, reading: &Report, begin_ns: u64) -> bool {
        match self {
            Self::SinceBegin(ns) => reading.duration_ns >= begin_ns.saturating_add(ns),
            Self::Unix(ns) => end_unix_ns(reading) >= ns,
        }
    }

    /// Whether `reading` is after this time.
    fn is_passed(self, reading: &Report, begin_ns: u64) -> bool {
        match self {
            Self::SinceBegin(ns) => reading.duration_ns > begin_ns.saturating_add(ns),
            Self::Unix(ns) => end_unix_ns(reading) > ns,
        }
    }

    /// Whether the recording of `reading` has begun after this time.
    fn is_before(self, reading: &Report, begin_ns: u64) -> bool {
        match self {
            Self::SinceBegin(_) => false,
            Self::Unix(ns) => reading.start_unix_ns.saturating_add(begin_ns) >= ns,
        }
    }
}

impl TimeRange {
    /// Whether the range ends with `reading`, if the run before the recording took `begin_ns`.
    ///
    /// # Errors
    /// If the recording has nothing of the range.
    pub(super) fn ends_with(&self, reading: &Report, begin_ns: u64) -> Result<bool, RecordingError> {
        let Some(until) = self.until else { return Ok(false) };
        if until.is_before(reading, begin_ns) {
            return Err(outside(reading, begin_ns, None));
        }
        Ok(until.is_reached(reading, begin_ns))
    }
}

/// When the time of a report ends: ns since 1970-01-01 UTC.
fn end_unix_ns(report: &Report) -> u64 {
    report.start_unix_ns.saturating_add(report.duration_ns)
}

/// The error for a range outside of the recording with this reading.
fn outside(reading: &Report, begin_ns: u64, length_ns: Option<u64>) -> RecordingError {
    RecordingError::OutsideRange { begin_unix_ns: reading.start_unix_ns.saturating_add(begin_ns), length_ns }
}

/// The error for a range that begins after the end of a recording, whose last reading this is.
fn after_end(last: &Report, begin_ns: u64) -> RecordingError {
    outside(last, begin_ns, Some(last.duration_ns.saturating_sub(begin_ns)))
}

impl<R: Read + Seek> Recording<R> {
    /// Restricts a recording of which only the header has been read to a range of time. `can_seek`: skips what is before
    /// it without reading it.
    ///
    /// # Errors
    /// If the input cannot be read, or ends before the range begins.
    pub fn within(mut self, range: TimeRange, can_seek: bool) -> Result<Self, RecordingError> {
        self.range = range;
        let Some(since) = range.since.filter(|since| *since != TimePoint::SinceBegin(0)) else { return Ok(self) };
        // Histograms need the names of all segments before.
        let has_histograms = matches!(self.header.kept, Kept::Histograms { .. });
        let can_seek = can_seek && !has_histograms;
        let mut names = BTreeMap::new();
        let (mut last, mut has_skipped): (Option<Box<Report>>, _) = (None, false);
        loop {
            let begin = (self.at, self.blocks);
            let body = if can_seek { self.skip_segment() } else { self.read_segment().map(|()| self.last_body()) };
            let body = match (body, &last) {
                (Ok(body), _) => body,
                (Err(error), Some(last)) if error.missing_end().is_some() => {
                    return Err(after_end(last, self.begin_ns));
                }
                (Err(error), _) => return Err(error),
            };
            let mut is_skipped = true;
            // A reading begins a block of its own, the last of its segment.
            match block::frames(&body).and_then(|frames| postcard::from_bytes(&frames).ok()) {
                Some(Frame::Start(before)) => {
                    self.begin_ns = before.report.duration_ns;
                    // Nothing was measured before it.
                    is_skipped = !before.is_empty();
                    last = Some(Box::new(before.report));
                }
                Some(Frame::Reading(reading)) if !since.is_passed(&reading, self.begin_ns) => last = Some(reading),
                Some(Frame::End(end)) if !since.is_passed(&end, self.begin_ns) => {
                    return Err(after_end(&end, self.begin_ns));
                }
                Some(Frame::Reading(_) | Frame::End(_)) => {
                    if can_seek {
                        self.input.seek_relative(begin.0 as i64 - self.at as i64)?;
                        (self.at, self.blocks) = begin;
                    }
                    break;
                }
                // A block of the warm-up.
                _ => {}
            }
            if has_histograms {
                self.keep_names(&mut names)?;
            }
            self.segment.clear();
            has_skipped |= is_skipped;
        }
        self.names_before = names.into_values().collect();
        self.seqs_from_first = has_skipped;
        // It would be skipped, too.
        self.header.has_warm_up &= !has_skipped;
        if let Some(report) = last {
            self.reading = Some(report.clone());
            self.start = Some(Box::new(RunBefore { report: *report, ..RunBefore::default() }));
        }
        Ok(self)
    }

    /// Keeps the names in the segment that has been read, each instead of an earlier one.
    fn keep_names(&mut self, names: &mut BTreeMap<(u8, u64), Frame<'static>>) -> Result<(), RecordingError> {
        while self.begin_block()? {
            let mut rest = &self.current.frames[..];
            while !rest.is_empty() {
                let Some((frame, length)) = self.frames.frame(rest) else {
                    return Err(RecordingError::Damaged { at: self.current.at });
                };
                let id = match &frame {
                    Frame::UnixOffset(_) => Some((0, 0)),
                    Frame::Cgroup { id, .. } => Some((1, *id)),
                    Frame::Task { tid, .. } => Some((2, u64::from(*tid))),
                    Frame::Group { number, .. } if *number >= MAX_GROUPS => {
                        return Err(RecordingError::Damaged { at: self.current.at });
                    }
                    Frame::Group { number, .. } => Some((3, u64::from(*number))),
                    _ => None,
                };
                id.into_iter().for_each(|id| _ = names.insert(id, frame.clone()));
                rest = &rest[length..];
            }
        }
        self.current = CurrentBlock::default();
        Ok(())
    }

    /// Skips a segment, except for the last block. Returns the body of that one.
    fn skip_segment(&mut self) -> Result<Vec<u8>, RecordingError> {
        loop {
            let at = self.at;
            let head = BlockHead::parse(self.bytes::<HEAD_BYTES>(at)?).ok_or(RecordingError::Damaged { at })?;
            let number = self.blocks;
            self.blocks = self.blocks.wrapping_add(1);
            if !head.ends_segment {
                self.input.seek_relative(head.length.into())?;
                self.at += u64::from(head.length);
                continue;
            }
            let mut body = vec![0; head.length as usize];
            self.fill(&mut body, at)?;
            return if head.is_of(number, &body) { Ok(body) } else { Err(RecordingError::Damaged { at }) };
        }
    }

    /// The body of the last block of the segment that has been read.
    fn last_body(&self) -> Vec<u8> {
        self.segment.back().map(|(_, body)| body.clone()).unwrap_or_default()
    }
}
