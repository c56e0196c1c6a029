use std::io::Cursor;

use super::{tests::header, *};
use crate::{
    timeline::testing::{EventStream, task},
    why::testing::TestNames,
};

const SECOND: u64 = 1_000_000_000;

/// When the run began: ns since 1970-01-01 UTC.
const BEGIN: u64 = 1_000 * SECOND;

/// The seconds of the run that a recording has, and whether it begins with the report of the run before and a warm-up.
#[derive(Clone, Copy)]
struct Case {
    first: u64,
    end: u64,
    has_start: bool,
    has_warm_up: bool,
}

/// A recording with a wait, and a cgroup with a name, in each second; each segment has several blocks if `is_long`.
fn recorded(Case { first, end, has_start, has_warm_up }: Case, is_long: bool) -> Vec<u8> {
    let (mut file, mut recorder, mut stream) = (Encoder::default(), Recorder::default(), EventStream::default());
    let reading = |second: u64| Report { start_unix_ns: BEGIN, duration_ns: second * SECOND, ..Report::default() };
    recorder.begin(Header { has_warm_up, ..header() }, &mut file).unwrap();
    if has_start {
        start_run(&reading(first), &mut file).unwrap();
    }
    if has_warm_up {
        for n in 0..5_000 {
            stream.switch(0, n, task(8, "hog"));
            recorder.event(stream.events.last().unwrap(), &TestNames, &mut file).unwrap();
        }
        recorder.warmed_up(&mut file).unwrap();
    }
    for second in first..end {
        for n in 0..if is_long { 2_000 } else { 1 } {
            let (begun, at_ns) = (stream.events.len(), BEGIN + second * SECOND + n * 100);
            stream.end_wait(0, (at_ns, at_ns + 5), task(7, "nginx"));
            for event in &stream.events[begun..] {
                recorder.set_unix_offset(0, &mut file).unwrap();
                recorder.event(event, &TestNames, &mut file).unwrap();
            }
        }
        let report = reading(second + 1);
        if second + 1 == end { recorder.end(&report, &mut file) } else { recorder.reading(&report, &mut file) }
            .unwrap();
    }
    file.bytes().to_vec()
}

/// The seconds of the events in a range, and the lengths at the begin and the end.
fn read(file: &[u8], range: TimeRange, can_seek: bool) -> Result<(Vec<u64>, u64, u64), RecordingError> {
    let mut recording = Recording::open(Cursor::new(file))?.within(range, can_seek)?;
    let (mut seconds, mut seqs, mut begin, mut end) = (Vec::new(), Vec::new(), 0, None);
    while let Some(frame) = recording.frame()? {
        match frame {
            Frame::Start(before) => begin = before.report.duration_ns / SECOND,
            Frame::Event(event) if event.kind.at_ns() >= BEGIN => {
                seconds.push((event.kind.at_ns() - BEGIN) / SECOND);
                seqs.push(event.seq);
            }
            Frame::End(report) => end = Some(report.duration_ns / SECOND),
            _ => {}
        }
    }
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "no event is taken for lost");
    if range.since.is_some_and(|since| since != TimePoint::SinceBegin(0)) {
        assert_eq!(seqs.first(), Some(&1));
    }
    seconds.dedup();
    Ok((seconds, begin, end.expect("an end")))
}

fn cases() -> [(Case, bool); 6] {
    let whole = Case { first: 0, end: 6, has_start: false, has_warm_up: false };
    [
        (whole, false),
        (whole, true),
        (Case { has_warm_up: true, ..whole }, false),
        (Case { has_start: true, ..whole }, false),
        (Case { has_start: true, has_warm_up: true, ..whole }, false),
        (Case { first: 3, end: 9, has_start: true, has_warm_up: false }, false),
    ]
}

#[test]
fn a_range_has_the_segments_between_the_readings_around_it() {
    for (case, is_long) in cases() {
        let file = recorded(case, is_long);
        let first = case.first;
        for can_seek in [true, false] {
            for (from_tenths, to_tenths) in [(0, 60), (20, 40), (25, 35), (5, 10), (10, 11), (50, 60), (59, 999)] {
                let (from, to) = (from_tenths / 10, to_tenths.min(60_u64).div_ceil(10));
                let expected = ((first + from..first + to).collect::<Vec<_>>(), first + to);
                for by_clock in [false, true] {
                    let point = |tenths: u64| {
                        let ns = tenths * SECOND / 10;
                        if by_clock { TimePoint::Unix(BEGIN + first * SECOND + ns) } else { TimePoint::SinceBegin(ns) }
                    };
                    let range = TimeRange { since: Some(point(from_tenths)), until: Some(point(to_tenths)) };
                    let (seconds, begin, end) = read(&file, range, can_seek).unwrap();
                    assert_eq!((seconds, end), expected, "{range:?}");
                    assert_eq!(begin, if from == 0 { first } else { first + from }, "{range:?}");
                }
            }
        }
    }
}

#[test]
fn a_range_outside_of_the_recording_is_an_error() {
    for (case, is_long) in cases() {
        let file = recorded(case, is_long);
        let begin = BEGIN + case.first * SECOND;
        let [since, until] = [
            |since| TimeRange { since: Some(since), until: None },
            |until| TimeRange { since: None, until: Some(until) },
        ];
        for range in [
            since(TimePoint::SinceBegin(6 * SECOND)),
            since(TimePoint::Unix(begin + 6 * SECOND)),
            until(TimePoint::Unix(begin)),
        ] {
            for can_seek in [true, false] {
                let error = read(&file, range, can_seek).expect_err("nothing is in the range");
                assert!(error.to_string().ends_with("and is 6.0 s long") || range.until.is_some(), "{error}");
                assert!(matches!(error, RecordingError::OutsideRange { .. }), "{error}");
            }
        }
    }
}

/// Damage before the range does not matter if it is skipped; damage in it does.
#[test]
fn what_is_before_a_range_is_not_decoded() {
    let mut file = recorded(Case { first: 0, end: 6, has_start: false, has_warm_up: false }, true);
    let range = TimeRange { since: Some(TimePoint::SinceBegin(3 * SECOND)), until: None };
    let second_half = read(&file, range, true).unwrap();
    let damaged_at = file.len() / 10;
    file[damaged_at] ^= 1;
    assert_eq!(read(&file, range, true).unwrap(), second_half);
    assert!(matches!(read(&file, range, false), Err(RecordingError::Damaged { .. })));
    assert!(matches!(read(&file, TimeRange::default(), true), Err(RecordingError::Damaged { .. })));
}

#[test]
fn nothing_after_a_range_is_read() {
    let mut file = recorded(Case { first: 0, end: 6, has_start: false, has_warm_up: false }, true);
    let range =
        TimeRange { since: Some(TimePoint::SinceBegin(SECOND)), until: Some(TimePoint::SinceBegin(3 * SECOND)) };
    let whole = read(&file, range, true).unwrap();
    assert_eq!(whole, (vec![1, 2], 1, 3));
    file.truncate(file.len() * 6 / 10);
    assert_eq!(read(&file, range, true).unwrap(), whole);
    assert_eq!(read(&file, range, false).unwrap(), whole);
}
