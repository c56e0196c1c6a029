use super::{tests::header, *};
use crate::{
    aggregate::key::Names as _,
    files::{own_number, own_tid},
    report::CoverageTerms,
    timeline::{
        Timeline,
        event::EventKind,
        testing::{EventStream, task},
    },
    why::testing::TestNames,
};

const SECOND: u64 = 1_000_000_000;

/// How a recording of [`recorded`] differs from others.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// When CLOCK_MONOTONIC was 0: ns since 1970-01-01 UTC.
    boot_unix_ns: i64,
    /// How far the wall clock is set after the first two seconds: ns.
    set_by_ns: i64,
    seconds: u64,
    has_warm_up: bool,
    /// The run began a second earlier, of which the recording has nothing.
    is_last_part: bool,
}

const CASE: Case = Case {
    name: "nginx",
    boot_unix_ns: 1_000 * SECOND as i64,
    set_by_ns: 0,
    seconds: 3,
    has_warm_up: false,
    is_last_part: false,
};

fn reading(case: Case, second: u64) -> Report {
    let waits = second;
    let unix_offset_ns = case.boot_unix_ns + if second < 2 { 0 } else { case.set_by_ns };
    let mut report = Report {
        start_unix_ns: unix_offset_ns as u64 + 10 * SECOND,
        unix_offset_ns,
        duration_ns: second * SECOND,
        kernel: "6.1".to_owned(),
        ..Report::default()
    };
    let terms = CoverageTerms { seen: waits + 1, measured: waits, still_waiting: 1, ..CoverageTerms::default() };
    report.coverage.wakeups = terms;
    report
}

/// A recording from second 10 of its machine on: in each second, thread 7 of this name waits for another one on CPU 0.
fn recorded(case: Case) -> Vec<u8> {
    let (mut file, mut recorder) = (Encoder::default(), Recorder::default());
    let (first, mut stream) = (u64::from(case.is_last_part), EventStream::default());
    recorder.begin(Header { has_warm_up: case.has_warm_up, ..header() }, &mut file).unwrap();
    if case.is_last_part {
        let before = RunBefore { report: reading(case, first), ..RunBefore::default() };
        file.frame(&Frame::Start(Box::new(before))).unwrap();
        file.end_segment().unwrap();
    }
    recorder.set_unix_offset(case.boot_unix_ns, &mut file).unwrap();
    if case.has_warm_up {
        stream.switch(0, 9 * SECOND, task(8, "hog"));
        recorder.event(&stream.events[0], &TestNames, &mut file).unwrap();
        recorder.warmed_up(&mut file).unwrap();
    }
    for second in first..case.seconds {
        recorder.set_unix_offset(reading(case, second).unix_offset_ns, &mut file).unwrap();
        let (begun, at_ns) = (stream.events.len(), (10 + second) * SECOND);
        stream.switch(0, at_ns + 1_000, task(8, "hog"));
        stream.end_wait(0, (at_ns + 2_000, at_ns + 5_000), task(7, case.name));
        for event in &stream.events[begun..] {
            recorder.event(event, &TestNames, &mut file).unwrap();
        }
        let report = reading(case, second + 1);
        if second + 1 == case.seconds {
            recorder.end(&report, &mut file).unwrap();
        } else {
            recorder.reading(&report, &mut file).unwrap();
        }
    }
    file.bytes().to_vec()
}

fn frames(files: &[Vec<u8>], order: FrameOrder) -> Vec<(Frame<'static>, Position)> {
    let open = |file: &Vec<u8>| Recording::open(std::io::Cursor::new(file.clone())).unwrap();
    let mut recordings = Recordings::new(files.iter().map(open).collect(), order);
    std::iter::from_fn(|| recordings.frame().unwrap().map(|frame| (frame, recordings.position()))).collect()
}

/// The end of each wait: its time since 1970, its own TID and CPU, and the names of both in `names`.
fn ends(frames: &[(Frame<'_>, Position)]) -> Vec<(u64, String)> {
    let (mut names, mut timeline) = (RecordedNames::default(), Timeline::default());
    let mut ends = Vec::new();
    for (frame, _) in frames {
        names.learn(frame);
        let Frame::Event(event) = frame else { continue };
        let Some(breakdown) = timeline.push(event) else { continue };
        let wait = &breakdown.ended_wait.wait;
        assert_eq!((own_tid(wait.tid), own_number(wait.cpu)), (7, 0));
        let EventKind::Switch(_) = event.kind else { panic!("{event:?}") };
        assert_eq!(breakdown.components().map(|(_, ns)| ns).sum::<u64>(), wait.latency_ns);
        ends.push((wait.at_ns, names.comm(wait.tid).expect("a name").to_string()));
    }
    assert_eq!(timeline.event_counts().lost, 0);
    ends
}

/// Two machines, of which the second has booted later and has other names for the same IDs.
fn two() -> [Case; 2] {
    [CASE, Case { name: "redis", boot_unix_ns: CASE.boot_unix_ns + 500_000_000, ..CASE }]
}

#[test]
fn recordings_with_the_same_ids_keep_names_and_cpus_apart_and_come_by_wall_clock_time() {
    let files = two().map(recorded);
    for order in [FrameOrder::ByTime, FrameOrder::BySegment] {
        let ends = ends(&frames(&files, order));
        let expected = |second: u64| {
            let at_ns = 1_010 * SECOND + second * SECOND + 5_000;
            [(at_ns, "nginx".to_owned()), (at_ns + 500_000_000, "redis".to_owned())]
        };
        assert_eq!(ends, (0..3).flat_map(expected).collect::<Vec<_>>(), "{order:?}");
    }
}

#[test]
fn readings_add_up_and_each_has_exactly_the_waits_until_there() {
    let mut ends = 0;
    let mut elapsed = Vec::new();
    let all = frames(&two().map(recorded), FrameOrder::BySegment);
    for (frame, position) in &all {
        match frame {
            Frame::Event(event) => {
                let EventKind::Switch(switch) = &event.kind else { continue };
                ends += u64::from(switch.ended_wait.is_some());
            }
            Frame::Reading(report) | Frame::End(report) => {
                assert_eq!((report.coverage.wakeups.measured, report.coverage.wakeups.unaccounted()), (ends, 0));
                assert_eq!(report.duration_ns, ends * SECOND);
                elapsed.push(position.elapsed_ns);
            }
            _ => {}
        }
    }
    // Until the begin of the segment that comes next.
    let halves = [1, 2, 3, 4, 5, 7].map(|halves| halves * SECOND / 2);
    // The second recording begins with its first event.
    assert_eq!(elapsed, [&[halves[0] + 1_000], &halves[1..]].concat());
    let Some((Frame::End(end), _)) = all.last() else { panic!("no end") };
    assert_eq!((end.start_unix_ns, &*end.kernel, end.coverage.wakeups.still_waiting), (1_010 * SECOND, "6.1", 2));
}

#[test]
fn a_wall_clock_that_is_set_changes_neither_the_order_nor_the_length() {
    let [first, second] = two();
    for order in [FrameOrder::ByTime, FrameOrder::BySegment] {
        let shown = |set_by_ns: i64| {
            let all = frames(&[Case { set_by_ns, ..first }, second].map(recorded), order);
            let is_report = |frame: &Frame<'_>| matches!(frame, Frame::Reading(_) | Frame::End(_));
            let readings: Vec<_> = all.iter().filter(|(frame, _)| is_report(frame)).map(|(_, at)| *at).collect();
            (ends(&all), readings)
        };
        let as_it_was = shown(0);
        for set_by_ns in [600, -600].map(|seconds| seconds * SECOND as i64) {
            assert_eq!(shown(set_by_ns), as_it_was, "{order:?}");
        }
    }
}

#[test]
fn all_warm_ups_come_before_the_window() {
    let [first, second] = two();
    let files = [Case { has_warm_up: true, ..first }, Case { has_warm_up: true, ..second }].map(recorded);
    let all = frames(&files, FrameOrder::ByTime);
    let at = all.iter().position(|(frame, _)| matches!(frame, Frame::WarmedUp)).expect("an end of the warm-up");
    let (before, after) = all.split_at(at);
    assert!(!after[1..].iter().any(|(frame, _)| matches!(frame, Frame::WarmedUp)));
    assert_eq!(before.iter().filter(|(frame, _)| matches!(frame, Frame::Event(_))).count(), 2);
    assert_eq!(ends(&all).len(), 6);
}

#[test]
fn the_last_part_of_a_run_counts_from_its_start() {
    let [first, second] = two();
    let all = frames(&[Case { is_last_part: true, ..first }, second].map(recorded), FrameOrder::ByTime);
    let Some((Frame::End(end), _)) = all.last() else { panic!("no end") };
    assert_eq!((end.duration_ns, end.coverage.wakeups.measured, ends(&all).len()), (5 * SECOND, 5, 5));
    assert_eq!(end.coverage.wakeups.unaccounted(), 0);
}

#[test]
fn a_missing_end_is_that_of_its_file() {
    let mut files = two().map(recorded);
    let length = files[1].len();
    files[1].truncate(length - 1);
    let all = frames(&files, FrameOrder::ByTime);
    let Some((Frame::End(end), _)) = all.last() else { panic!("no end") };
    assert_eq!(end.coverage.missing_ends.iter().map(|missing| missing.file).collect::<Vec<_>>(), [1]);
    assert_eq!(end.coverage.wakeups.measured, 5);
    let strict = |file: &Vec<u8>| Recording::open(std::io::Cursor::new(file.clone())).unwrap().strict(true);
    let mut strict = Recordings::new(files.iter().map(strict).collect(), FrameOrder::ByTime);
    let error = std::iter::from_fn(|| Some(strict.frame())).find_map(Result::err).expect("an error");
    assert!(matches!((error.number, error.error), (1, RecordingError::Truncated { .. })));
}

#[test]
fn a_recording_that_ends_in_its_warm_up_does_not_keep_the_others_in_theirs() {
    let (mut killed, mut recorder) = (Encoder::default(), Recorder::default());
    recorder.begin(Header { has_warm_up: true, ..header() }, &mut killed).unwrap();
    recorder.end(&reading(CASE, 0), &mut killed).unwrap();
    let whole = recorded(Case { has_warm_up: true, ..CASE });
    for order in [FrameOrder::BySegment, FrameOrder::ByTime] {
        for files in [[whole.clone(), killed.bytes().to_vec()], [killed.bytes().to_vec(), whole.clone()]] {
            let warmed_up: Vec<_> =
                frames(&files, order).into_iter().filter(|(frame, _)| matches!(frame, Frame::WarmedUp)).collect();
            assert_eq!(warmed_up.len(), 1, "{order:?}");
        }
    }
}
