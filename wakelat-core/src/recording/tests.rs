use super::{
    block::{BlockHead, HEAD_BYTES},
    *,
};
use crate::{
    aggregate::key::{Key, Names},
    report::{LatencyFrom, SwitchInTerms},
    timeline::{
        event::{EventKind, WorkItemEvent},
        testing::{EventStream, task},
    },
    why::{
        self,
        testing::{TestNames, report, stories, summary},
    },
};

pub(super) fn header() -> Header {
    Header {
        version: "0.0.0".to_owned(),
        from: LatencyFrom::Waking,
        merged: true,
        collected: CollectedEvents { irq: true, workqueue: true, ..CollectedEvents::default() },
        more: MoreEvents { wakeups: true, migrations: true, ..MoreEvents::default() },
        ..Header::default()
    }
}

/// The report of these events.
fn report_of(events: &[Event]) -> Report {
    report(&summary(events, LatencyFrom::Waking, &[]))
}

/// A recording with a reading after each `interval` events.
fn recorded_with_readings(events: &[Event], interval: usize) -> Vec<u8> {
    let mut file = Encoder::default();
    let mut recorder = Recorder::default();
    recorder.begin(header(), &mut file).unwrap();
    for (n, event) in (1..).zip(events) {
        recorder.event(event, &TestNames, &mut file).unwrap();
        if n % interval == 0 {
            recorder.reading(&report_of(&events[..n]), &mut file).unwrap();
        }
    }
    recorder.end(&report_of(events), &mut file).unwrap();
    file.bytes().to_vec()
}

fn recorded(events: &[Event]) -> Vec<u8> {
    recorded_with_readings(events, usize::MAX)
}

/// What a reader gets from a recording.
struct Replayed {
    events: Vec<Event>,
    names: RecordedNames,
    end: Option<Report>,
}

fn try_replay(file: &[u8], is_strict: bool) -> Result<Replayed, RecordingError> {
    let mut recording = Recording::open(file)?.strict(is_strict);
    let mut replayed = Replayed { events: Vec::new(), names: RecordedNames::default(), end: None };
    while let Some(frame) = recording.frame()? {
        replayed.names.learn(&frame);
        match frame {
            Frame::Event(event) => replayed.events.push(event.into_owned()),
            Frame::End(report) => replayed.end = Some(*report),
            _ => {}
        }
    }
    Ok(replayed)
}

/// All events, all names, and the report at the end.
fn replayed(file: &[u8]) -> (Vec<Event>, RecordedNames, Option<Report>) {
    assert_eq!(Recording::open(file).unwrap().header(), &header());
    let Replayed { events, names, end } = try_replay(file, true).unwrap();
    (events, names, end)
}

/// The result of reading a file to its end, which must not be missing.
fn read(file: &[u8]) -> Result<(), RecordingError> {
    try_replay(file, true).map(drop)
}

/// The blocks of a file, each with its head.
fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut blocks) = (&file[12..], Vec::new());
    while let Some(head) = rest.first_chunk() {
        let length = BlockHead::parse(*head).unwrap().length as usize;
        let (block, after) = rest.split_at(HEAD_BYTES + length);
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

fn file_of(blocks: &[Vec<u8>]) -> Vec<u8> {
    [&MAGIC[..], &FORMAT.to_le_bytes(), &blocks.concat()].concat()
}

/// A file of blocks with these frames, each a segment, with valid heads.
fn sealed(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut file = file_of(&[]);
    (0..).zip(contents).for_each(|(number, frames)| block::append(number, true, frames, &mut file));
    file
}

/// The frames of each block of a file.
fn contents(file: &[u8]) -> Vec<Vec<u8>> {
    blocks(file).iter().map(|block| block::frames(&block[HEAD_BYTES..]).unwrap()).collect()
}

/// The JSON document of `why` for some events.
fn recorded_lines(events: &[Event]) -> String {
    let summary = summary(events, LatencyFrom::Waking, &[Key::Comm]);
    let mut json = Vec::new();
    why::render::json(&summary, &report(&summary), &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    json_schemas::assert_valid(&json);
    json
}

#[test]
fn a_recording_gives_the_same_result_as_the_original_events() {
    for (name, stream) in stories() {
        let (events, _, end) = replayed(&recorded(&stream.events));
        assert_eq!(events, stream.events, "{name}");
        assert_eq!(recorded_lines(&events), recorded_lines(&stream.events), "{name}");
        let (end, report) =
            (end.expect("the recording has an end"), report(&summary(&events, LatencyFrom::Waking, &[])));
        let counts = |report: Report| (report.coverage, report.duration_ns, report.overhead);
        assert_eq!(counts(end), counts(report));
    }
}

#[test]
fn names_are_those_of_the_recorded_machine() {
    let (_, names, _) = replayed(&recorded(&stories()["worker"].events));
    assert_eq!(names.function(0xa).as_deref(), Some("vmstat_update"));
    let (_, names, _) = replayed(&recorded(&stories()["one_hog"].events));
    assert_eq!(names.cgroup(7), TestNames.cgroup(7));
}

/// Checks what a reader gets from a file that differs from the recording of `whole` from `changed_at` on: an error, or all
/// segments before, with the place. Returns whether it got segments.
fn assert_whole_segments_or_an_error(changed: &[u8], changed_at: usize, whole: &[Event], interval: usize) -> bool {
    let Ok(Replayed { events, end, .. }) = try_replay(changed, false) else { return false };
    let end = end.expect("an end");
    assert_eq!(events, whole[..events.len()], "{changed_at}");
    assert!(!events.is_empty() && events.len().is_multiple_of(interval), "{changed_at}: {}", events.len());
    let expected = report_of(&events);
    assert_eq!((end.duration_ns, end.coverage.wakeups), (expected.duration_ns, expected.coverage.wakeups));
    let missing = end.coverage.missing_ends.first().unwrap_or_else(|| panic!("{changed_at}: no note"));
    assert!(missing.at <= changed_at as u64, "{changed_at}: {missing:?}");
    read(changed).expect_err("a strict reader refuses it");
    true
}

#[test]
fn a_file_cut_anywhere_gives_all_whole_segments_or_an_error() {
    let stories = stories();
    // Every length is read from its beginning: half of the events take a quarter of the time.
    let events = &stories["one_hog"].events[..40];
    let file = recorded_with_readings(events, 2);
    let segments = (0..file.len()).filter(|length| {
        let cut = &file[..*length];
        match Recording::open(cut) {
            Err(RecordingError::NotARecording) => assert!(*length < 8, "{length}"),
            Err(RecordingError::Truncated { .. }) | Ok(_) => assert!(*length >= 8, "{length}"),
            other => panic!("{length}: {other:?}"),
        }
        assert_whole_segments_or_an_error(cut, *length, events, 2)
    });
    assert!(segments.count() > file.len() / 4);
}

#[test]
fn a_recording_can_be_read_from_the_moment_at_which_it_began() {
    let events = &stories()["one_hog"].events;
    let (mut file, mut recorder) = (Encoder::default(), Recorder::default());
    recorder.begin(header(), &mut file).unwrap();
    start_run(&Report { start_unix_ns: 5, ..Report::default() }, &mut file).unwrap();
    let began = file.bytes().len();
    events.iter().for_each(|event| recorder.event(event, &TestNames, &mut file).unwrap());
    recorder.end(&report_of(events), &mut file).unwrap();
    let file = file.bytes();
    assert_eq!(replayed(file).0, *events);
    for length in began..file.len() {
        let Replayed { events, end, .. } = try_replay(&file[..length], false).unwrap();
        let end = end.map(|end| (end.start_unix_ns, end.duration_ns, end.coverage.missing_ends.len()));
        assert_eq!((events.len(), end), (0, Some((5, 0, 1))), "{length}");
        assert!(matches!(read(&file[..length]), Err(RecordingError::Truncated { .. })), "{length}");
    }
}

#[test]
fn a_file_that_is_not_a_recording_is_rejected() {
    let file = recorded(&stories()["two_hogs"].events);
    assert!(matches!(Recording::open(&b"# tracer: nop\n#\n"[..]), Err(RecordingError::NotARecording)));
    for format in [FORMAT - 1, FORMAT + 1] {
        let mut other = file.clone();
        other[8..12].copy_from_slice(&format.to_le_bytes());
        let error = Recording::open(&other[..]).unwrap_err();
        assert!(matches!(error, RecordingError::UnsupportedFormat(found) if found == format), "{error}");
    }
    let mut longer = file.clone();
    longer[12..16].fill(0xff);
    assert!(matches!(Recording::open(&longer[..]), Err(RecordingError::Damaged { at: 12 })));
}

#[test]
fn a_recording_says_which_events_it_has_besides_those_that_explain_waits() {
    let events = &stories()["worker"].events;
    let none = MoreEvents::default();
    let both = MoreEvents { wakeups: true, migrations: true, ..none };
    for more in [none, MoreEvents { wakeups: true, ..none }, MoreEvents { migrations: true, ..none }, both] {
        let (mut file, mut recorder) = (Encoder::default(), Recorder::default());
        recorder.begin(Header { more, ..header() }, &mut file).unwrap();
        events.iter().for_each(|event| recorder.event(event, &TestNames, &mut file).unwrap());
        recorder.end(&report_of(events), &mut file).unwrap();
        assert_eq!(Recording::open(file.bytes()).unwrap().header(), &Header { more, ..header() });
        assert_eq!(try_replay(file.bytes(), true).unwrap().events, *events);
    }
}

#[test]
fn a_file_with_any_bit_flipped_gives_all_whole_segments_before_it_or_an_error() {
    let events = &stories()["worker"].events[..6];
    let file = recorded_with_readings(events, 2);
    read(&file).unwrap();
    let segments = (0..file.len() * 8).filter(|bit| {
        let mut changed = file.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_whole_segments_or_an_error(&changed, bit / 8, events, 2)
    });
    assert!(segments.count() > file.len() * 2);
}

#[test]
fn a_missing_repeated_or_misplaced_block_is_damage() {
    let blocks = blocks(&recorded_with_readings(&stories()["one_hog"].events[..6], 1));
    read(&file_of(&blocks)).unwrap();
    for at in 1..blocks.len() - 1 {
        let mut missing = blocks.clone();
        missing.remove(at);
        let mut twice = blocks.clone();
        twice.insert(at, blocks[at].clone());
        for changed in [missing, twice] {
            assert!(matches!(read(&file_of(&changed)), Err(RecordingError::Damaged { .. })), "{at}");
        }
        let mut swapped = blocks.clone();
        swapped.swap(at, at + 1);
        assert!(matches!(read(&file_of(&swapped)), Err(RecordingError::Damaged { .. })), "{at}");
    }
}

#[test]
fn data_after_the_end_is_rejected() {
    let file = recorded(&stories()["one_hog"].events);
    for more in [&file[..], &[0]] {
        let length = file.len() as u64;
        let longer = [&file, more].concat();
        for is_strict in [false, true] {
            let read = try_replay(&longer, is_strict).map(drop);
            assert!(matches!(read, Err(RecordingError::TrailingData { at }) if at == length), "{read:?}");
        }
    }
    let mut contents = contents(&file);
    let warmed_up = postcard::to_stdvec(&Frame::WarmedUp).unwrap();
    contents.last_mut().unwrap().extend(&warmed_up);
    assert!(matches!(read(&sealed(&contents)), Err(RecordingError::TrailingData { .. })));
}

#[test]
fn bytes_between_the_frames_of_a_block_are_damage() {
    let mut content = postcard::to_stdvec(&Frame::Header(Box::new(header()))).unwrap();
    assert_eq!(Recording::open(&sealed(&[content.clone()])[..]).unwrap().header(), &header());
    content.push(0xff);
    let file = sealed(&[content]);
    assert!(matches!(try_replay(&file, false), Err(RecordingError::Damaged { at: 12 })));
}

#[test]
fn a_long_warm_up_takes_no_memory_of_the_reader() {
    let events = &stories()["one_hog"].events;
    let (mut file, mut recorder) = (Encoder::default(), Recorder::default());
    recorder.begin(Header { has_warm_up: true, ..header() }, &mut file).unwrap();
    for event in std::iter::repeat_n(events, 2_000).flatten() {
        recorder.event(event, &TestNames, &mut file).unwrap();
    }
    recorder.warmed_up(&mut file).unwrap();
    recorder.end(&report_of(events), &mut file).unwrap();
    let blocks = blocks(file.bytes());
    assert!(blocks.len() > 10, "{}", blocks.len());
    assert!(blocks.iter().all(|block| BlockHead::parse(*block.first_chunk().unwrap()).unwrap().ends_segment));
}

#[test]
fn a_recording_takes_less_than_forty_bytes_an_event() {
    let mut stream = EventStream::default();
    for n in 0..10_000 {
        let tid = 100 + n as u32 % 50;
        stream.end_wait(n as u32 % 8, (n * 7_001, n * 7_001 + n % 900), task(tid, "nginx"));
    }
    let file = recorded(&stream.events);
    assert!(file.len() < 40 * stream.events.len(), "{} of {} events", file.len(), stream.events.len());
}

#[test]
fn no_content_of_a_block_causes_a_panic() {
    let mut contents = contents(&recorded_with_readings(&stories()["worker"].events[..6], 2));
    read(&sealed(&contents)).unwrap();
    for at in 0..contents.len() {
        for byte in 0..contents[at].len() {
            contents[at][byte] ^= 0x55;
            // A changed number is read as that number; bytes that are no frame any more are reported as
            // damage.
            if let Err(error) = read(&sealed(&contents)) {
                assert!(
                    matches!(
                        error,
                        RecordingError::Damaged { .. }
                            | RecordingError::Truncated { .. }
                            | RecordingError::TrailingData { .. }
                    ),
                    "{error}"
                );
            }
            contents[at][byte] ^= 0x55;
        }
    }
}

#[test]
fn a_frame_that_no_reader_accepts_is_not_written() {
    let event =
        Event { cpu: 0, seq: 1, kind: EventKind::WorkItem(WorkItemEvent { at_ns: 1, tid: 2, function: Some(0xa) }) };
    struct Long;
    impl Names for Long {
        fn cgroup(&self, _: u64) -> String {
            String::new()
        }
        fn comm(&self, _: u32) -> Option<Comm> {
            None
        }
        fn namespace(&self, _: u32) -> Option<Namespace> {
            None
        }
        fn function(&self, _: u64) -> Option<String> {
            Some("a".repeat(MAX_FRAME_BYTES as usize))
        }
    }
    let (mut recorder, mut file) = (Recorder::default(), Encoder::default());
    let refused = recorder.event(&event, &Long, &mut file).unwrap_err();
    assert!(refused.to_string().contains("the limit is 65536"), "{refused}");
    assert!(file.frames.is_empty() && file.bytes() == Encoder::default().bytes());
}

#[test]
fn the_terms_of_switch_ins_are_those_of_the_report() {
    let events = &stories()["one_hog"].events;
    let mut report = report(&summary(events, LatencyFrom::Queued, &[]));
    let terms = SwitchInTerms { seen: 7, measured: 5, unknown_start: 2, still_waiting: Some(1), ..Default::default() };
    report.coverage.switch_ins = Some(terms);
    let (mut file, mut recorder) = (Encoder::default(), Recorder::default());
    recorder.begin(header(), &mut file).unwrap();
    recorder.end(&report, &mut file).unwrap();
    let (_, _, end) = replayed(file.bytes());
    assert_eq!(end.unwrap().coverage.switch_ins, Some(terms));
}
