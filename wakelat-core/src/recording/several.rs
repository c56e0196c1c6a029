//! Several recordings as one: each frame with IDs that no other recording has, and times of the Unix epoch.

use std::{collections::VecDeque, io::Read};

use super::{Frame, Header, Recording, RecordingError, translate::Translation};
use crate::{files::FileIds, report::Report};

/// The most frames that are read ahead: names of more than a segment of any recording has.
const MAX_AHEAD: usize = 1 << 16;

/// Which of several recordings comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOrder {
    /// The one with the earliest event, by wall-clock time.
    ByTime,
    /// The one whose next segment begins the earliest: all of it. Then all are at a reading at each reading, and the
    /// events until there are exactly those of the coverage.
    BySegment,
}

/// How far several recordings have been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How much of the time since the first recording began is complete: ns.
    pub elapsed_ns: u64,
    /// When the next frame was recorded: ns since 1970-01-01 UTC.
    pub unix_ns: u64,
}

/// Several recordings, read as one.
#[derive(Debug)]
pub struct Recordings<R> {
    files: Vec<FileFrames<R>>,
    order: FrameOrder,
    /// The file whose segment is not over.
    current: Option<usize>,
    /// The offset to the Unix epoch of the last event: ns.
    unix_offset_ns: i64,
    /// An event that comes after its offset.
    event: Option<Frame<'static>>,
}

/// One of several recordings.
#[derive(Debug)]
struct FileFrames<R> {
    recording: Recording<R>,
    ids: FileIds,
    /// Frames up to the next one with a time.
    ahead: VecDeque<Frame<'static>>,
    /// The time of the last of them: ns since 1970-01-01 UTC.
    at_unix_ns: u64,
    /// When its next segment begins, or the current one has begun: ns since 1970-01-01 UTC.
    segment_unix_ns: Option<u64>,
    /// When it began, once a reading shows it: ns since 1970-01-01 UTC.
    begun_unix_ns: Option<u64>,
    /// The first offset to the Unix epoch, by which all times are shifted, and the current one: ns.
    shift_ns: Option<i64>,
    unix_offset_ns: i64,
    is_warming_up: bool,
    /// The report of the run before the recording.
    before: Option<Box<Report>>,
    /// The last report that was read.
    reading: Option<Report>,
    /// Everything has been read, as far as it is not ahead.
    has_ended: bool,
}

/// An error of one of several recordings.
#[derive(Debug)]
pub struct FileError {
    /// The number of the recording.
    pub number: usize,
    /// What is wrong with it.
    pub error: RecordingError,
}

impl<R: Read> Recordings<R> {
    /// These recordings, at most [`crate::files::MAX_FILES`], in this order.
    pub fn new(recordings: Vec<Recording<R>>, order: FrameOrder) -> Self {
        let files = recordings.into_iter().enumerate().map(|(number, recording)| FileFrames::new(number, recording));
        Self { files: files.collect(), order, current: None, unix_offset_ns: 0, event: None }
    }

    /// The header of each recording.
    pub fn headers(&self) -> impl Iterator<Item = &Header> {
        self.files.iter().map(|file| file.recording.header())
    }

    /// How far all of them have been read; after a reading.
    pub fn position(&self) -> Position {
        let next = self.files.iter().filter(|file| !file.is_over()).map(FileFrames::segment_unix_ns).min();
        let end = || self.files.iter().map(FileFrames::segment_unix_ns).max();
        let unix_ns = next.or_else(end).unwrap_or(0);
        let begun_at = |file: &FileFrames<R>| file.begun_unix_ns.unwrap_or_else(|| file.segment_unix_ns());
        let begun_at_unix_ns = self.files.iter().map(begun_at).min().unwrap_or(unix_ns);
        Position { elapsed_ns: unix_ns.saturating_sub(begun_at_unix_ns), unix_ns }
    }

    /// The next frame; none after [`Frame::End`]. Readings and the end have the sums of all recordings.
    ///
    /// # Errors
    /// Errors of [`Recording::frame`].
    pub fn frame(&mut self) -> Result<Option<Frame<'static>>, FileError> {
        if let Some(event) = self.event.take() {
            return Ok(Some(event));
        }
        loop {
            self.look_ahead()?;
            let Some(number) = self.next_file() else { return Ok(None) };
            let file = &mut self.files[number];
            let Some(mut frame) = file.ahead.pop_front() else { return Ok(None) };
            if let Frame::Reading(report) | Frame::End(report) = &frame {
                let before_ns = file.before.as_ref().map_or(0, |before| before.duration_ns);
                file.begun_unix_ns = Some(file.unix_ns(report, before_ns));
                file.segment_unix_ns = Some(file.unix_ns(report, report.duration_ns));
            }
            file.translation().frame(&mut frame);
            match frame {
                Frame::Start(before) => file.before = Some(Box::new(before.report)),
                Frame::Header(_) => {}
                Frame::UnixOffset(ns) => file.unix_offset_ns = ns.saturating_sub(file.shift_ns.unwrap_or(0)),
                Frame::WarmedUp => {
                    file.is_warming_up = false;
                    self.current = None;
                    if !self.files.iter().any(|file| file.is_warming_up) {
                        return Ok(Some(Frame::WarmedUp));
                    }
                }
                Frame::Event(_) | Frame::Wait(_) => {
                    self.current = Some(number).filter(|_| self.order == FrameOrder::BySegment);
                    let unix_offset_ns = file.unix_offset_ns;
                    if std::mem::replace(&mut self.unix_offset_ns, unix_offset_ns) != unix_offset_ns {
                        self.event = Some(frame);
                        return Ok(Some(Frame::UnixOffset(unix_offset_ns)));
                    }
                    return Ok(Some(frame));
                }
                Frame::Reading(report) | Frame::End(report) => {
                    let since = file.before.as_ref().map(|before| report.since(before));
                    file.reading = Some(since.unwrap_or(*report));
                    self.current = None;
                    // For the position.
                    self.look_ahead()?;
                    let has_ended = self.files.iter().all(FileFrames::is_over);
                    let report = Box::new(self.report());
                    let frame = if has_ended { Frame::End(report) } else { Frame::Reading(report) };
                    // A recording that ends in its warm-up does not keep the others in theirs.
                    let file = &mut self.files[number];
                    let was_warming_up = file.is_warming_up && file.is_over();
                    file.is_warming_up &= !was_warming_up;
                    if was_warming_up && !has_ended && !self.files.iter().any(|file| file.is_warming_up) {
                        self.event = Some(frame);
                        return Ok(Some(Frame::WarmedUp));
                    }
                    return Ok(Some(frame));
                }
                Frame::Histograms(_) => {
                    // They belong to the reading that follows.
                    self.current = Some(number);
                    return Ok(Some(frame));
                }
                Frame::Cgroup { .. }
                | Frame::Task { .. }
                | Frame::Namespace { .. }
                | Frame::Function { .. }
                | Frame::Group { .. }
                | Frame::Stack { .. }
                | Frame::StackCounts(_) => return Ok(Some(frame)),
            }
        }
    }

    /// The sum of the last readings of all recordings.
    fn report(&self) -> Report {
        Report::sum((0..).zip(&self.files).filter_map(|(number, file)| Some((number, file.reading.as_ref()?))))
    }

    fn look_ahead(&mut self) -> Result<(), FileError> {
        for (number, file) in self.files.iter_mut().enumerate() {
            file.look_ahead().map_err(|error| FileError { number, error })?;
        }
        Ok(())
    }

    /// The file whose frame comes next: of those in their warm-up, or else of all, the one with the earliest time.
    fn next_file(&self) -> Option<usize> {
        let has_more = |number: &usize| !self.files[*number].ahead.is_empty();
        let order = |number: &usize| {
            let file = &self.files[*number];
            let by_time = self.order == FrameOrder::ByTime;
            (!file.is_warming_up, if by_time { file.at_unix_ns } else { file.segment_unix_ns() })
        };
        self.current.filter(has_more).or_else(|| (0..self.files.len()).filter(has_more).min_by_key(order))
    }
}

impl<R: Read> FileFrames<R> {
    fn new(number: usize, recording: Recording<R>) -> Self {
        Self {
            is_warming_up: recording.header().has_warm_up,
            recording,
            ids: FileIds::new(number),
            ahead: VecDeque::new(),
            at_unix_ns: 0,
            segment_unix_ns: None,
            begun_unix_ns: None,
            shift_ns: None,
            unix_offset_ns: 0,
            before: None,
            reading: None,
            has_ended: false,
        }
    }

    fn translation(&self) -> Translation {
        Translation { ids: self.ids, shift_ns: self.shift_ns.unwrap_or(0) }
    }

    fn segment_unix_ns(&self) -> u64 {
        self.segment_unix_ns.unwrap_or(self.at_unix_ns)
    }

    fn is_over(&self) -> bool {
        self.has_ended && self.ahead.is_empty()
    }

    /// The time `since_begin_ns` after the begin of the run of `report`, as if the wall clock had not been set since
    /// the first event: the times of all events are shifted by the offset of that one, so that their order stays the
    /// same.
    fn unix_ns(&self, report: &Report, since_begin_ns: u64) -> u64 {
        let set_by_ns = self.shift_ns.map_or(0, |shift_ns| report.unix_offset_ns.saturating_sub(shift_ns));
        let at_unix_ns = report.start_unix_ns.saturating_add(since_begin_ns);
        at_unix_ns.saturating_add_signed(set_by_ns.saturating_neg())
    }

    /// Reads until the next frame with a time, if none is ahead.
    fn look_ahead(&mut self) -> Result<(), RecordingError> {
        if !self.ahead.is_empty() {
            return Ok(());
        }
        while !self.has_ended && self.ahead.len() < MAX_AHEAD {
            let Some(frame) = self.recording.frame()? else {
                self.has_ended = true;
                break;
            };
            let time = match &frame {
                Frame::UnixOffset(ns) => {
                    self.shift_ns.get_or_insert(*ns);
                    None
                }
                Frame::Start(before) => {
                    self.segment_unix_ns = Some(self.unix_ns(&before.report, before.report.duration_ns));
                    None
                }
                Frame::Event(event) => Some(event.kind.at_ns().saturating_add_signed(self.shift_ns.unwrap_or(0))),
                Frame::Wait(wait) => Some(wait.at_ns.saturating_add_signed(self.shift_ns.unwrap_or(0))),
                Frame::Reading(report) | Frame::End(report) => Some(self.unix_ns(report, report.duration_ns)),
                Frame::WarmedUp => Some(self.at_unix_ns),
                _ => None,
            };
            let is_end = matches!(frame, Frame::End(_));
            self.ahead.push_back(frame);
            if let Some(at_unix_ns) = time {
                // Events of several CPUs are only nearly in order.
                self.at_unix_ns = self.at_unix_ns.max(at_unix_ns);
                self.segment_unix_ns.get_or_insert(at_unix_ns);
                self.has_ended |= is_end;
                break;
            }
        }
        Ok(())
    }
}
