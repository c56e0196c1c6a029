use super::*;
use crate::{
    aggregate::key::{Key, Names as _},
    report::From,
    why::{
        self,
        fixtures::{Paths, report, stories, summary},
    },
};

fn header() -> Header {
    Header {
        version: "0.0.0".to_owned(),
        from: From::Waking,
        merged: true,
        parts: Parts { noise: true, works: true, ..Parts::default() },
    }
}

fn recorded(events: &[Event]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut recorder = Recorder::default();
    recorder.begin(header(), &mut file).unwrap();
    events.iter().for_each(|event| recorder.event(event, &Paths, &mut file).unwrap());
    recorder.end(&report(&summary(events, From::Waking, &[])), &mut file).unwrap();
    file
}

/// All events, the names up to the end, and how it ended.
fn replayed(file: &[u8]) -> (Vec<Event>, Recorded, Option<Report>) {
    let mut recording = Recording::open(file).unwrap();
    assert_eq!(recording.header(), &header());
    let (mut events, mut names, mut end) = (Vec::new(), Recorded::default(), None);
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

/// All that `why` says of some events.
fn said(events: &[Event]) -> String {
    let summary = summary(events, From::Waking, &[Key::Comm]);
    let mut json = Vec::new();
    why::sink::json(&summary, &report(&summary), &mut json).unwrap();
    String::from_utf8(json).unwrap()
}

#[test]
fn a_recording_says_what_was_said_when_it_was_recorded() {
    for (name, stream) in stories() {
        let (events, _, end) = replayed(&recorded(&stream.events));
        assert_eq!(events, stream.events, "{name}");
        assert_eq!(said(&events), said(&stream.events), "{name}");
        let (end, report) = (end.expect("an end"), report(&summary(&events, From::Waking, &[])));
        let account = |report: Report| (report.coverage, report.duration_ns, report.overhead);
        assert_eq!(account(end), account(report));
    }
}

#[test]
fn names_are_those_of_the_machine_it_was_recorded_on() {
    let (_, names, _) = replayed(&recorded(&stories()["worker"].events));
    assert_eq!(names.function(0xa).as_deref(), Some("vmstat_update"));
    let (_, names, _) = replayed(&recorded(&stories()["one_hog"].events));
    assert_eq!(names.cgroup(7), Paths.cgroup(7));
}

#[test]
fn a_file_that_is_not_all_there_is_refused() {
    let file = recorded(&stories()["one_hog"].events);
    for length in 0..file.len() {
        let read = Recording::open(&file[..length]).and_then(|mut recording| {
            while recording.frame()?.is_some() {}
            Ok(())
        });
        match read {
            Err(Error::NotARecording) => assert!(length < 8, "{length}"),
            Err(Error::CutShort { .. }) => assert!(length >= 8, "{length}"),
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_recording_is_refused_and_no_damage_is_a_panic() {
    let file = recorded(&stories()["two_hogs"].events);
    assert!(matches!(Recording::open(&b"# tracer: nop\n#\n"[..]), Err(Error::NotARecording)));
    let mut other = file.clone();
    other[8] = 9;
    assert!(matches!(Recording::open(&other[..]), Err(Error::OtherFormat(9))));
    let mut longer = file.clone();
    longer[12..16].fill(0xff);
    assert!(matches!(Recording::open(&longer[..]), Err(Error::Damaged { at: 12 })));
    // Whatever a byte becomes: an end, or an error. There is no checksum: a figure that has become another is read as that.
    for at in 12..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x55;
        if let Ok(mut recording) = Recording::open(&changed[..]) {
            while let Ok(Some(_)) = recording.frame() {}
        }
    }
}
