//! Reads recordings.

mod range;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{ErrorKind, Read},
};

pub use self::range::{TimePoint, TimeRange};
use super::{
    FORMAT, Frame, Header, MAGIC, RecordingError, RunBefore,
    block::{self, BlockHead, HEAD_BYTES},
    frame_reader::FrameReader,
    histograms::MAX_GROUPS,
};
use crate::report::Report;

/// The longest segment: bytes. A second of events takes a small part of it; a longer one is no recording, and would take
/// as much memory.
const MAX_SEGMENT_BYTES: usize = 256 << 20;

/// A recording, read frame by frame.
#[derive(Debug)]
pub struct Recording<R> {
    input: R,
    at: u64,
    /// Number of blocks so far.
    blocks: u32,
    /// The rest of the current segment: offset and body of each block.
    segment: VecDeque<(u64, Vec<u8>)>,
    current: CurrentBlock,
    frames: FrameReader,
    ended: bool,
    /// The number of the last event of each CPU before the recording.
    seqs_before: BTreeMap<u32, u32>,
    /// Events of each CPU before its first one are not lost ones, because they were skipped.
    seqs_from_first: bool,
    /// The part that is returned.
    range: TimeRange,
    /// The run before that part, until it is returned.
    start: Option<Box<RunBefore>>,
    /// The length of the run before the recording: ns.
    begin_ns: u64,
    /// The report at the end of the last whole segment.
    reading: Option<Box<Report>>,
    /// A missing end is an error.
    is_strict: bool,
    /// Frames that come next, because what they are in is skipped.
    names_before: VecDeque<Frame<'static>>,
    header: Box<Header>,
}

/// The block whose frames come next.
#[derive(Debug, Default)]
struct CurrentBlock {
    /// Its offset from the start of the file: bytes.
    at: u64,
    frames: Vec<u8>,
    /// Bytes of `frames` that have been returned.
    decoded: usize,
}

impl<R: Read> Recording<R> {
    /// Reads the header of a recording.
    ///
    /// # Errors
    /// If the input cannot be read, or is not a recording of format [`FORMAT`].
    pub fn open(mut input: R) -> Result<Self, RecordingError> {
        let mut magic = [0; MAGIC.len()];
        match input.read_exact(&mut magic) {
            Ok(()) if magic == MAGIC => Self::open_after_magic(input),
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(RecordingError::Io(error)),
            _ => Err(RecordingError::NotARecording),
        }
    }

    /// Reads the header of a recording whose first bytes, [`MAGIC`], have been read.
    ///
    /// # Errors
    /// If the input cannot be read, or is not a recording of format [`FORMAT`].
    pub fn open_after_magic(input: R) -> Result<Self, RecordingError> {
        let mut recording = Self {
            input,
            at: MAGIC.len() as u64,
            blocks: 0,
            segment: VecDeque::new(),
            current: CurrentBlock::default(),
            frames: FrameReader::default(),
            ended: false,
            seqs_before: BTreeMap::new(),
            seqs_from_first: false,
            range: TimeRange::default(),
            start: None,
            begin_ns: 0,
            reading: None,
            is_strict: false,
            names_before: VecDeque::new(),
            header: Box::default(),
        };
        let format = u32::from_le_bytes(recording.bytes(0)?);
        if format != FORMAT {
            return Err(RecordingError::UnsupportedFormat(format));
        }
        let at = recording.at;
        recording.read_segment()?;
        recording.begin_block()?;
        match recording.frame()? {
            Some(Frame::Header(header)) => Ok(Self { header, ..recording }),
            _ => Err(RecordingError::Damaged { at }),
        }
    }

    /// Begins the next block of the segment. Returns whether there is one.
    fn begin_block(&mut self) -> Result<bool, RecordingError> {
        let Some((at, body)) = self.segment.pop_front() else { return Ok(false) };
        let frames = block::frames(&body).ok_or(RecordingError::Damaged { at })?;
        self.current = CurrentBlock { at, frames, decoded: 0 };
        self.frames.begin_block();
        Ok(true)
    }

    /// Makes a missing end an error.
    #[must_use]
    pub fn strict(self, is_strict: bool) -> Self {
        Self { is_strict, ..self }
    }

    /// The input.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// The header: how the recording was measured.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next frame; none after [`Frame::End`]. If the end is missing and the recording is not strict, the last reading
    /// is the end.
    ///
    /// # Errors
    /// If the input cannot be read, continues after [`Frame::End`], or is no recording; if it has no end and no reading,
    /// or is strict.
    pub fn frame(&mut self) -> Result<Option<Frame<'static>>, RecordingError> {
        loop {
            match self.next_frame()? {
                // It is only in the file so that a reader has a report before the first reading.
                Some(Frame::Start(before)) if before.is_empty() => {}
                frame => return Ok(frame),
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<Frame<'static>>, RecordingError> {
        if let Some(start) = self.start.take() {
            return Ok(Some(Frame::Start(start)));
        }
        if let Some(name) = self.names_before.pop_front() {
            return Ok(Some(name));
        }
        loop {
            if self.current.decoded < self.current.frames.len() {
                return self.decode().map(Some);
            }
            if self.begin_block()? {
                continue;
            }
            if self.ended {
                return Ok(None);
            }
            if let Err(error) = self.read_segment() {
                return self.without_end(error).map(Some);
            }
        }
    }

    /// The next frame of the current block.
    fn decode(&mut self) -> Result<Frame<'static>, RecordingError> {
        let CurrentBlock { at, frames, decoded } = &mut self.current;
        let Some((mut frame, length)) = self.frames.frame(&frames[*decoded..]) else {
            return Err(RecordingError::Damaged { at: *at });
        };
        *decoded += length;
        match &mut frame {
            Frame::Start(before) => {
                self.begin_ns = before.report.duration_ns;
                self.seqs_before = std::mem::take(&mut before.last_seqs);
                self.reading = Some(Box::new(before.report.clone()));
            }
            Frame::Event(event) => {
                if self.seqs_from_first {
                    self.seqs_before.entry(event.cpu).or_insert(event.seq.wrapping_sub(1));
                }
                if let Some(before) = self.seqs_before.get(&event.cpu) {
                    event.to_mut().seq = event.seq.wrapping_sub(*before);
                }
            }
            Frame::Reading(report) if self.range.ends_with(report, self.begin_ns)? => {
                let end = std::mem::take(report);
                self.ended = true;
                self.segment.clear();
                self.current = CurrentBlock::default();
                return Ok(Frame::End(end));
            }
            Frame::Reading(report) => self.reading = Some(report.clone()),
            Frame::End(_) => self.end()?,
            Frame::Group { number, .. } if *number >= MAX_GROUPS => return Err(RecordingError::Damaged { at: *at }),
            _ => {}
        }
        Ok(frame)
    }

    /// Reads the blocks of the next segment.
    fn read_segment(&mut self) -> Result<(), RecordingError> {
        let mut bytes = 0;
        loop {
            let at = self.at;
            let head = BlockHead::parse(self.bytes::<HEAD_BYTES>(at)?).ok_or(RecordingError::Damaged { at })?;
            let mut body = vec![0; head.length as usize];
            self.fill(&mut body, at)?;
            bytes += body.len();
            if !head.is_of(self.blocks, &body) || bytes > MAX_SEGMENT_BYTES {
                return Err(RecordingError::Damaged { at });
            }
            self.blocks = self.blocks.wrapping_add(1);
            self.segment.push_back((at, body));
            if head.ends_segment {
                return Ok(());
            }
        }
    }

    /// What the reader gets instead of a segment that is not whole: the last reading as the end, if there is one.
    fn without_end(&mut self, error: RecordingError) -> Result<Frame<'static>, RecordingError> {
        self.segment.clear();
        self.ended = true;
        match (error.missing_end(), self.reading.take()) {
            (Some(missing), Some(mut report)) if !self.is_strict => {
                report.coverage.missing_ends.push(missing);
                Ok(Frame::End(report))
            }
            _ => Err(error),
        }
    }

    /// Ends the recording, after which no data may follow.
    fn end(&mut self) -> Result<(), RecordingError> {
        self.ended = true;
        let at = self.at;
        if self.current.decoded < self.current.frames.len() || !self.segment.is_empty() {
            return Err(RecordingError::TrailingData { at: self.current.at });
        }
        match self.bytes::<1>(at) {
            Ok(_) => Err(RecordingError::TrailingData { at }),
            Err(error) if is_end(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next bytes; `at` is the place that an error names.
    fn bytes<const N: usize>(&mut self, at: u64) -> Result<[u8; N], RecordingError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, at)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], at: u64) -> Result<(), RecordingError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => RecordingError::Truncated { at },
            _ => RecordingError::Io(error),
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn is_end(error: &RecordingError) -> bool {
    matches!(error, RecordingError::Truncated { .. })
}
