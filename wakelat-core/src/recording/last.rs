//! The last part of a run, kept in memory.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Write},
    sync::Arc,
};

use super::{Encoder, FORMAT, Frame, FrameSink, Header, MAGIC, RunBefore, block};
use crate::{report::Report, timeline::decode::KnownSwitch};

/// Keeps the last segments of a recording, compressed: those of a length of time, as far as they have room.
#[derive(Debug)]
pub struct LastSegments {
    /// How much of the run is kept at least, if there is room: ns.
    length_ns: u64,
    /// The most that the segments take: bytes.
    max_bytes: usize,
    encoder: Encoder,
    segments: VecDeque<Segment>,
    /// Length of all segments: bytes.
    bytes: usize,
    /// The run until the first segment; `None` if that is the begin of the run.
    before: Option<Box<RunBefore>>,
    /// The number of the last event of each CPU.
    last_seqs: BTreeMap<u32, u32>,
    /// The report at the end of the current segment, once it is there.
    reading: Option<Box<Report>>,
}

#[derive(Debug)]
struct Segment {
    blocks: Arc<Vec<u8>>,
    /// The run until its end.
    run: Box<RunBefore>,
}

/// A recording of the last part of a run.
#[derive(Clone, Debug)]
pub struct LastPart {
    before: Option<Box<RunBefore>>,
    segments: Vec<Arc<Vec<u8>>>,
    end: Box<Report>,
}

impl LastSegments {
    /// Keeps the segments of the last `length_ns`, or of less if these take more than `max_bytes`.
    pub fn new(length_ns: u64, max_bytes: usize) -> Self {
        let mut encoder = Encoder::default();
        encoder.clear();
        Self {
            length_ns,
            max_bytes,
            encoder,
            segments: VecDeque::new(),
            bytes: 0,
            before: None,
            last_seqs: BTreeMap::new(),
            reading: None,
        }
    }

    /// Whether the current segment alone takes all the room: further frames have none.
    pub fn is_full(&self) -> bool {
        self.encoder.bytes().len() >= self.max_bytes
    }

    /// The part that is kept; `None` before the first segment has ended.
    pub fn part(&self) -> Option<LastPart> {
        let end = Box::new(self.segments.back()?.run.report.clone());
        let segments = self.segments.iter().map(|segment| Arc::clone(&segment.blocks)).collect();
        Some(LastPart { before: self.before.clone(), segments, end })
    }

    /// Drops segments that are too old, or have no room.
    fn drop_first(&mut self) {
        let until_ns = self.segments.back().map_or(0, |last| last.run.report.duration_ns);
        let is_too_much = |this: &Self| {
            let first = this.segments.front().filter(|_| this.segments.len() > 1)?;
            let is_old = first.run.report.duration_ns.saturating_add(this.length_ns) <= until_ns;
            (is_old || this.bytes > this.max_bytes).then_some(())
        };
        while is_too_much(self).is_some() {
            let Some(first) = self.segments.pop_front() else { return };
            self.bytes -= first.blocks.len();
            self.before = Some(first.run);
        }
    }
}

impl FrameSink for LastSegments {
    fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        match frame {
            // Each file has a header of its own.
            Frame::Header(_) => return Ok(()),
            Frame::Event(event) => _ = self.last_seqs.insert(event.cpu, event.seq),
            Frame::Reading(report) | Frame::End(report) => self.reading = Some(report.clone()),
            _ => {}
        }
        match frame {
            Frame::End(report) => self.encoder.frame(&Frame::Reading(report.clone())),
            frame => self.encoder.frame(frame),
        }
    }

    fn known_switch(&mut self, known: &KnownSwitch<'_>) -> bool {
        let is_taken = self.encoder.known_switch(known);
        if is_taken {
            self.last_seqs.insert(known.record.cpu, known.seq);
        }
        is_taken
    }

    fn end_segment(&mut self) -> io::Result<()> {
        // Without a reading, these are the header's.
        let Some(reading) = self.reading.take() else { return Ok(()) };
        self.encoder.end_segment()?;
        let blocks = Arc::new(self.encoder.bytes().to_vec());
        self.encoder.clear();
        self.bytes += blocks.len();
        let run = Box::new(RunBefore { report: *reading, last_seqs: self.last_seqs.clone() });
        self.segments.push_back(Segment { blocks, run });
        self.drop_first();
        Ok(())
    }
}

impl LastPart {
    /// Its length: ns.
    pub fn length_ns(&self) -> u64 {
        self.end.duration_ns.saturating_sub(self.before.as_ref().map_or(0, |before| before.report.duration_ns))
    }

    /// Writes it as a recording.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        let segment = |frame: &Frame<'_>| {
            let mut encoder = Encoder::default();
            encoder.clear();
            encoder.frame(frame)?;
            encoder.end_segment()?;
            Ok::<_, io::Error>(encoder.bytes().to_vec())
        };
        out.write_all(&MAGIC)?;
        out.write_all(&FORMAT.to_le_bytes())?;
        let start = self.before.as_ref().map(|before| segment(&Frame::Start(before.clone()))).transpose()?;
        let head = [segment(&Frame::Header(Box::new(header.clone())))?, start.unwrap_or_default()];
        let end = segment(&Frame::End(self.end.clone()))?;
        let (mut number, mut renumbered) = (0, Vec::new());
        for blocks in head.iter().chain(self.segments.iter().map(AsRef::as_ref)).chain([&end]) {
            number = block::append_renumbered(number, blocks, &mut renumbered);
            out.write_all(&renumbered)?;
            renumbered.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recording::{Recorder, Recording},
        timeline::testing::{EventStream, task},
        why::testing::TestNames,
    };

    const SECOND: u64 = 1_000_000_000;

    /// The parts after each of `seconds` seconds, each with one wait, of which the last `length_ns` are kept in
    /// `max_bytes`.
    fn parts(seconds: u64, length_ns: u64, max_bytes: usize) -> Vec<LastPart> {
        let (mut recorder, mut last) = (Recorder::default(), LastSegments::new(length_ns, max_bytes));
        recorder.begin(Header::default(), &mut last).unwrap();
        assert!(last.part().is_none());
        let mut stream = EventStream::default();
        let second = |n| {
            let begun = stream.events.len();
            stream.end_wait(0, (n * SECOND, n * SECOND + n), task(7, "nginx"));
            for event in &stream.events[begun..] {
                recorder.event(event, &TestNames, &mut last).unwrap();
            }
            recorder.reading(&Report { duration_ns: (n + 1) * SECOND, ..Report::default() }, &mut last).unwrap();
            last.part().expect("a part")
        };
        (0..seconds).map(second).collect()
    }

    /// The seconds whose waits a reader gets, and the seconds between the reports at the begin and the end.
    fn read(part: &LastPart) -> (Vec<u64>, u64) {
        let mut file = Vec::new();
        part.write(&Header { trigger: Some("a test".to_owned()), ..Header::default() }, &mut file).unwrap();
        let mut recording = Recording::open(&file[..]).unwrap().strict(true);
        assert_eq!(recording.header().trigger.as_deref(), Some("a test"));
        let (mut seconds, mut seqs, mut start, mut end) = (Vec::new(), Vec::new(), 0, None);
        while let Some(frame) = recording.frame().unwrap() {
            match frame {
                Frame::Event(event) => {
                    seconds.push(event.kind.at_ns() / SECOND);
                    seqs.push(event.seq);
                }
                Frame::Start(before) => {
                    assert!(seconds.is_empty(), "before the first event");
                    start = before.report.duration_ns;
                }
                Frame::End(report) => end = Some(report.duration_ns),
                _ => {}
            }
        }
        assert!(seqs.iter().copied().eq(1..=seqs.len() as u32), "{seqs:?}");
        seconds.dedup();
        (seconds, (end.expect("an end") - start) / SECOND)
    }

    #[test]
    fn a_part_has_the_last_segments_between_the_reports_around_them() {
        let parts = parts(6, 3 * SECOND, usize::MAX);
        assert_eq!(read(&parts[0]), (vec![0], 1));
        assert_eq!(read(&parts[2]), (vec![0, 1, 2], 3));
        assert_eq!(read(&parts[5]), (vec![3, 4, 5], 3));
        assert_eq!(parts[5].length_ns(), 3 * SECOND);
    }

    #[test]
    fn a_part_takes_no_more_room_than_it_may() {
        let all = parts(50, u64::MAX, usize::MAX);
        let of = |part: &LastPart| part.segments.iter().map(|blocks| blocks.len()).sum::<usize>();
        let limit = of(&all[9]) + 20;
        for part in parts(50, u64::MAX, limit) {
            assert!(of(&part) <= limit);
            read(&part);
        }
        // The last segment is there, however little room it has.
        assert_eq!(read(parts(3, u64::MAX, 1).last().unwrap()), (vec![2], 1));
    }
}
