use std::cell::Cell;

use wakelat_common::{Class, pending_wait::PrevState};

use super::*;
use crate::{
    aggregate::key::{Key, Names},
    render::testing,
    report::LatencyFrom,
    timeline::{
        event::{EventKind, SwitchEvent, WorkItemEvent},
        testing::{EventStream, idle, task},
    },
    why::{
        self,
        testing::{TestNames, report, stories, summary},
    },
};

fn header() -> Header {
    Header {
        version: "0.0.0".to_owned(),
        from: LatencyFrom::Waking,
        merged: true,
        collected: CollectedEvents { irq: true, workqueue: true, ..CollectedEvents::default() },
    }
}

fn recorded(events: &[Event]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut recorder = Recorder::default();
    recorder.begin(header(), &mut file).unwrap();
    events.iter().for_each(|event| recorder.event(event, &TestNames, &mut file).unwrap());
    recorder.end(&report(&summary(events, LatencyFrom::Waking, &[])), &mut file).unwrap();
    file
}

/// All events, all names, and the report at the end.
fn replayed(file: &[u8]) -> (Vec<Event>, RecordedNames, Option<Report>) {
    let mut recording = Recording::open(file).unwrap();
    assert_eq!(recording.header(), &header());
    let (mut events, mut names, mut end) = (Vec::new(), RecordedNames::default(), None);
    while let Some(frame) = recording.frame().unwrap() {
        names.learn(&frame);
        match frame {
            Frame::Event(event) => events.push(event.into_owned()),
            Frame::End(report) => end = Some(*report),
            _ => {}
        }
    }
    (events, names, end)
}

/// The result of reading a file to its end.
fn read(file: &[u8]) -> Result<(), RecordingError> {
    let mut recording = Recording::open(file)?;
    while recording.frame()?.is_some() {}
    Ok(())
}

/// The frames of a file, each with its length and checksum.
fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut frames) = (&file[12..], Vec::new());
    while let Some(length) = rest.first_chunk() {
        let (frame, after) = rest.split_at(8 + u32::from_le_bytes(*length) as usize);
        frames.push(frame.to_owned());
        rest = after;
    }
    frames
}

fn file_of(frames: &[Vec<u8>]) -> Vec<u8> {
    [&MAGIC[..], &FORMAT.to_le_bytes(), &frames.concat()].concat()
}

/// A file of frames with these contents, with valid lengths and checksums.
fn sealed(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut checksum = crc32fast::Hasher::new();
    let frame = |content: &Vec<u8>| {
        checksum.update(content);
        let numbers = [content.len() as u32, checksum.clone().finalize()].map(u32::to_le_bytes);
        [&numbers.concat()[..], content].concat()
    };
    file_of(&contents.iter().map(frame).collect::<Vec<_>>())
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

#[test]
fn a_truncated_file_is_rejected() {
    let file = recorded(&stories()["one_hog"].events);
    for length in 0..file.len() {
        match read(&file[..length]) {
            Err(RecordingError::NotARecording) => assert!(length < 8, "{length}"),
            Err(RecordingError::Truncated { .. }) => assert!(length >= 8, "{length}"),
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn a_file_that_is_not_a_recording_is_rejected() {
    let file = recorded(&stories()["two_hogs"].events);
    assert!(matches!(Recording::open(&b"# tracer: nop\n#\n"[..]), Err(RecordingError::NotARecording)));
    for format in [OLDEST_FORMAT - 1, FORMAT + 1] {
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
fn a_file_with_any_bit_flipped_is_rejected() {
    let file = recorded(&stories()["worker"].events[..6]);
    read(&file).unwrap();
    for bit in 0..file.len() * 8 {
        let mut changed = file.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        read(&changed).expect_err(&format!("bit {bit} of {}", file.len() * 8));
    }
}

#[test]
fn a_missing_repeated_or_misplaced_frame_is_damage() {
    let frames = frames(&recorded(&stories()["one_hog"].events[..6]));
    read(&file_of(&frames)).unwrap();
    for at in 1..frames.len() - 1 {
        let mut missing = frames.clone();
        missing.remove(at);
        let mut twice = frames.clone();
        twice.insert(at, frames[at].clone());
        for changed in [missing, twice] {
            assert!(matches!(read(&file_of(&changed)), Err(RecordingError::Damaged { .. })), "{at}");
        }
        let mut swapped = frames.clone();
        swapped.swap(at, at + 1);
        assert!(matches!(read(&file_of(&swapped)), Err(RecordingError::Damaged { .. })), "{at}");
    }
}

#[test]
fn data_after_the_end_is_rejected() {
    let file = recorded(&stories()["one_hog"].events);
    for more in [&file[..], &[0]] {
        let length = file.len() as u64;
        assert!(matches!(read(&[&file, more].concat()), Err(RecordingError::TrailingData { at }) if at == length));
    }
}

#[test]
fn data_after_the_content_of_a_frame_is_rejected() {
    let mut content = postcard::to_stdvec(&Frame::Header(header())).unwrap();
    assert_eq!(Recording::open(&sealed(&[content.clone()])[..]).unwrap().header(), &header());
    content.push(0);
    assert!(matches!(Recording::open(&sealed(&[content])[..]), Err(RecordingError::Damaged { at: 12 })));
}

#[test]
fn no_content_of_a_frame_causes_a_panic() {
    let frames = frames(&recorded(&stories()["worker"].events[..6]));
    let mut contents: Vec<Vec<u8>> = frames.iter().map(|frame| frame[8..].to_owned()).collect();
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
    let (mut recorder, mut file) = (Recorder::default(), Vec::new());
    let refused = recorder.event(&event, &Long, &mut file).unwrap_err();
    assert!(refused.to_string().contains("the limit is 65536"), "{refused}");
    assert!(file.is_empty());
}

/// A machine on which a thread id is given to one task after another.
struct Reused(Cell<Option<Namespace>>);

impl Names for Reused {
    fn cgroup(&self, _: u64) -> String {
        String::new()
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        (tid == 77).then(|| Comm::new(if self.0.get().is_some() { b"inside" } else { b"outside" }))
    }

    fn namespace(&self, _: u32) -> Option<Namespace> {
        self.0.get()
    }

    fn function(&self, _: u64) -> Option<String> {
        None
    }
}

/// Records waits of thread 5, each woken by thread 77, and returns what a reader knows about both after
/// each wait.
fn known_after_each_wait(
    reused: &Reused,
    owners: &[(Option<Namespace>, &[SwitchEvent])],
) -> Vec<(Option<Namespace>, Option<Comm>)> {
    let (mut recorder, mut file) = (Recorder::default(), Vec::new());
    recorder.begin(header(), &mut file).unwrap();
    for (namespace, switches) in owners {
        reused.0.set(*namespace);
        for switch in *switches {
            let event = Event { cpu: 0, seq: 1, kind: EventKind::Switch(Box::new(switch.clone())) };
            recorder.event(&event, reused, &mut file).unwrap();
        }
    }
    recorder.end(&testing::report(Vec::new()), &mut file).unwrap();
    let (mut recording, mut names, mut known) =
        (Recording::open(&file[..]).unwrap(), RecordedNames::default(), Vec::new());
    while let Some(frame) = recording.frame().unwrap() {
        names.learn(&frame);
        if let Frame::Event(event) = frame
            && let EventKind::Switch(switch) = &event.kind
            && switch.ended_wait.is_some()
        {
            known.push((names.namespace(5), names.comm(77)));
        }
    }
    known
}

#[test]
fn names_of_a_reused_tid_are_looked_up_again() {
    let of = |pid_ns, tid| Some(Namespace { pid_ns: Some(pid_ns), tid });
    let waits = |class: Class| {
        let mut stream = EventStream::default();
        let waited = stream.end_wait(0, (10, 20), task(5, "waits"));
        (waited.wait.class, waited.wait.waker_tid) = (class, Some(77));
        match stream.events.remove(0).kind {
            EventKind::Switch(switch) => *switch,
            other => panic!("{other:?}"),
        }
    };
    let dies = |tid: u32| SwitchEvent {
        prev: task(tid, "dies"),
        next: idle(),
        ended_wait: None,
        prev_state: PrevState::Dead,
        ..waits(Class::New)
    };
    let (inside, outside) = (Some(Comm::new(b"inside")), Some(Comm::new(b"outside")));
    let owners: [(Option<Namespace>, &[SwitchEvent]); 3] = [
        (of(1, 10), &[waits(Class::Wakeup), waits(Class::Wakeup), dies(77), dies(5)]),
        (None, &[waits(Class::Wakeup), dies(5)]),
        (of(3, 30), &[waits(Class::Preempted)]),
    ];
    let known = known_after_each_wait(&Reused(Cell::default()), &owners);
    assert_eq!(known, [(of(1, 10), inside), (of(1, 10), inside), (None, outside), (of(3, 30), outside)]);
    // The exit of the first owner was not seen.
    let owners: [(Option<Namespace>, &[SwitchEvent]); 2] =
        [(of(1, 10), &[waits(Class::Wakeup)]), (None, &[waits(Class::New)])];
    let known = known_after_each_wait(&Reused(Cell::default()), &owners);
    assert_eq!(known, [(of(1, 10), inside), (None, inside)]);
}

#[test]
fn the_terms_of_switch_ins_are_those_of_the_report() {
    let events = &stories()["one_hog"].events;
    let mut report = report(&summary(events, LatencyFrom::Queued, &[]));
    let terms = SwitchInTerms { seen: 7, measured: 5, unknown_start: 2, still_waiting: Some(1), ..Default::default() };
    report.coverage.switch_ins = Some(terms);
    let (mut file, mut recorder) = (Vec::new(), Recorder::default());
    recorder.begin(header(), &mut file).unwrap();
    recorder.end(&report, &mut file).unwrap();
    let (_, _, end) = replayed(&file);
    assert_eq!(end.unwrap().coverage.switch_ins, Some(terms));
    // Without its last frame but one, the file is as in the format before.
    let frames = frames(&file);
    let [header, _, end] = &frames[..] else { panic!("{} frames", frames.len()) };
    let mut older = sealed(&[header[8..].to_vec(), end[8..].to_vec()]);
    older[8..12].copy_from_slice(&OLDEST_FORMAT.to_le_bytes());
    assert_eq!(replayed(&older).2.unwrap().coverage.switch_ins, None);
}
