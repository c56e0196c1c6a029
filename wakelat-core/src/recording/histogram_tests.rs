//! Recordings of histograms.

use std::{collections::BTreeMap, io::Cursor};

use proptest::prelude::*;
use wakelat_common::{Class, bucket};

use super::{histograms::MAX_GROUPS, *};
use crate::{
    aggregate::{
        Groups,
        distribution::Distribution,
        key::{Key, KeyValues},
    },
    render::testing::wait,
    report::{CoverageTerms, LatencyFrom},
    why::testing::TestNames,
};

const SECOND: u64 = 1_000_000_000;

fn header(by: &[Key]) -> Header {
    let kept = Kept::Histograms { by: by.to_vec(), interval_ns: SECOND };
    Header { from: LatencyFrom::Wakeup, classes: Class::ALL.into(), kept, ..Header::default() }
}

/// A wait of one of a few groups.
fn any_wait() -> impl Strategy<Value = Wait> {
    let latency_ns = any::<u64>().prop_map(|bits| bits >> (8 + bits % 56));
    (1u32..4, 1u64..4, 0u32..3, latency_ns, prop::sample::select(Class::ALL.to_vec())).prop_map(
        |(tid, cgroup_id, cpu, latency_ns, class)| {
            let comm = Comm::new(format!("task-{tid}").as_bytes());
            Wait { tid, pid: tid, comm, cgroup_id: Some(cgroup_id), cpu, latency_ns, class, ..wait() }
        },
    )
}

/// The report of a run of `seconds` with these waits.
fn reading(seconds: u64, waits: u64) -> Report {
    let mut report = Report { duration_ns: seconds * SECOND, start_unix_ns: 7 * SECOND, ..Report::default() };
    report.coverage.wakeups = CoverageTerms { seen: waits, measured: waits, ..CoverageTerms::default() };
    report
}

/// A recording of these intervals, with groups by `by`.
fn recorded(by: &[Key], intervals: &[Vec<Wait>]) -> Vec<u8> {
    let (mut recorder, mut file) = (HistogramRecorder::default(), Encoder::default());
    recorder.begin(header(by), &mut file).unwrap();
    let (mut groups, mut count) = (Groups::new(by.to_vec(), false, 64), 0);
    for (seconds, waits) in (1..).zip(intervals) {
        waits.iter().for_each(|wait| groups.record(wait));
        count += waits.len() as u64;
        recorder.interval(&groups, 5, &TestNames, &mut file).unwrap();
        groups.clear();
        let reading = reading(seconds, count);
        if seconds == intervals.len() as u64 {
            recorder.end(&reading, &mut file).unwrap();
        } else {
            recorder.reading(&reading, &mut file).unwrap();
        }
    }
    file.bytes().to_vec()
}

/// Count, sum, minimum and maximum of a group, and the counts of its buckets.
type Figures = (u64, u128, u64, u64, Vec<(u64, u64)>);

/// The figures of each group in an interval, and the report at its end.
type Interval = (BTreeMap<RecordedKey, Figures>, Report);

fn figures(waits: &Distribution) -> Figures {
    let buckets = waits.buckets().iter().map(|bucket| (bucket.from_ns, bucket.count)).collect();
    (waits.count(), waits.sum_ns(), waits.min_ns(), waits.max_ns(), buckets)
}

/// What a reader gets of each interval: the figures of each group, and the report at its end.
fn read<R: std::io::Read>(mut recording: Recording<R>) -> Result<Vec<Interval>, RecordingError> {
    let (mut keys, mut names) = (BTreeMap::new(), RecordedNames::default());
    let (mut intervals, mut current) = (Vec::new(), BTreeMap::new());
    while let Some(frame) = recording.frame()? {
        names.learn(&frame);
        match frame {
            Frame::Group { number, key } => _ = keys.insert(number, key),
            Frame::Histograms(histograms) => {
                for histogram in histograms.iter() {
                    let Some(key) = keys.get(&histogram.group) else { continue };
                    let mut waits = Distribution::default();
                    histogram.add_to(&mut waits, &names);
                    current.insert(*key, figures(&waits));
                }
            }
            Frame::Reading(report) | Frame::End(report) => intervals.push((std::mem::take(&mut current), *report)),
            _ => {}
        }
    }
    Ok(intervals)
}

/// The figures of waits, computed from them one by one.
fn oracle<'a>(waits: impl Iterator<Item = &'a Wait>) -> Figures {
    let mut all: Vec<u64> = waits.map(|wait| wait.latency_ns).collect();
    all.sort_unstable();
    let mut buckets = BTreeMap::new();
    all.iter().for_each(|ns| *buckets.entry(bucket::lower(bucket::index(*ns))).or_insert(0) += 1);
    let sum = all.iter().map(|ns| u128::from(*ns)).sum();
    (all.len() as u64, sum, all[0], all[all.len() - 1], buckets.into_iter().collect())
}

/// The key of a wait's group.
fn key_of(wait: &Wait, by: &[Key]) -> RecordedKey {
    let has = |key| by.contains(&key);
    RecordedKey::Values(KeyValues {
        class: wait.class,
        tid: if has(Key::Tid) { wait.tid } else { 0 },
        pid: if has(Key::Pid) { wait.pid } else { 0 },
        comm: if has(Key::Comm) { wait.comm } else { Comm::default() },
        cgroup_id: if has(Key::Cgroup) { wait.cgroup_id.unwrap() } else { 0 },
        cpu: if has(Key::Cpu) { wait.cpu } else { 0 },
        file: 0,
    })
}

fn any_keys() -> impl Strategy<Value = Vec<Key>> {
    prop::sample::subsequence(vec![Key::Tid, Key::Pid, Key::Comm, Key::Cgroup, Key::Cpu], 0..=5)
}

fn any_intervals(longest: usize) -> impl Strategy<Value = Vec<Vec<Wait>>> {
    prop::collection::vec(prop::collection::vec(any_wait(), 0..longest), 1..6)
}

proptest! {
    #[test]
    fn each_interval_of_a_recording_has_the_figures_of_its_waits(by in any_keys(), intervals in any_intervals(60)) {
        let read = read(Recording::open(&recorded(&by, &intervals)[..]).unwrap().strict(true)).unwrap();
        prop_assert_eq!(read.len(), intervals.len());
        for ((groups, _), waits) in read.iter().zip(&intervals) {
            let mut expected: BTreeMap<_, Vec<&Wait>> = BTreeMap::new();
            waits.iter().for_each(|wait| expected.entry(key_of(wait, &by)).or_default().push(wait));
            let expected: BTreeMap<_, _> =
                expected.into_iter().map(|(key, waits)| (key, oracle(waits.into_iter()))).collect();
            prop_assert_eq!(groups, &expected);
        }
    }

    /// A range has the names and groups that were written before it.
    #[test]
    fn a_range_has_the_intervals_of_the_whole(by in any_keys(), intervals in any_intervals(30), since in 1u64..5, can_seek: bool) {
        let file = recorded(&by, &intervals);
        let whole = read(Recording::open(&file[..]).unwrap()).unwrap();
        let range = TimeRange { since: Some(TimePoint::SinceBegin(since * SECOND)), until: None };
        let Ok(recording) = Recording::open(Cursor::new(&file)).unwrap().within(range, can_seek) else {
            prop_assert!(since >= intervals.len() as u64);
            return Ok(());
        };
        let part = read(recording).unwrap();
        let groups = |intervals: &[Interval]| {
            intervals.iter().map(|(groups, _)| groups.clone()).collect::<Vec<_>>()
        };
        prop_assert_eq!(groups(&part), groups(&whole[since as usize..]));
    }

    /// What a view shows of any of the recorded keys are the waits that it would have grouped itself.
    #[test]
    fn groups_by_a_part_of_the_keys_have_the_waits_of_all_their_groups(
        by in any_keys(),
        intervals in any_intervals(40),
        selected in prop::collection::vec(any::<bool>(), 5),
        merged: bool,
    ) {
        let part: Vec<Key> = by.iter().zip(selected).filter(|(_, is)| *is).map(|(key, _)| *key).collect();
        let options = WindowOptions {
            by: part.clone(),
            merged,
            max_groups: 64,
            from: LatencyFrom::Wakeup,
            classes: Class::ALL.into_iter().fold(wakelat_common::Classes::NONE, wakelat_common::Classes::with),
            threshold_ns: None,
            has_filter: false,
            with_run_times: false,
        };
        let has_names = part.contains(&Key::Comm);
        let mut window = RecordedWindow::new(options);
        let mut direct = Groups::new(part, merged, 64);
        let (mut keys, mut names, mut end) = (BTreeMap::new(), RecordedNames::default(), None);
        let file = recorded(&by, &intervals);
        let mut recording = Recording::open(&file[..]).unwrap();
        while let Some(frame) = recording.frame().unwrap() {
            names.learn(&frame);
            match frame {
                Frame::Group { number, key } => _ = keys.insert(number, key),
                Frame::Histograms(histograms) => histograms.iter().for_each(|one| {
                    window.record_group(keys[&one.group], one, &names);
                }),
                Frame::End(report) => end = Some(report),
                _ => {}
            }
        }
        intervals.iter().flatten().for_each(|wait| direct.record(wait));
        let shown = window.report(&end.unwrap(), &names).groups;
        let expected = direct.report(&TestNames, None);
        let of = |groups: &[crate::report::Group]| groups.iter().map(|group| {
            let key: Vec<_> = group.key.iter().filter(|part| part.name != "comm" || has_names).cloned().collect();
            (group.class, key, figures(&group.distribution))
        }).collect::<Vec<_>>();
        prop_assert_eq!(of(&shown), of(&expected));
        for (group, of_waits) in shown.iter().zip(&expected) {
            // Over the whole recording, the task of the longest wait is known.
            let (known, max) = (group.distribution.max().unwrap(), of_waits.distribution.max().unwrap());
            prop_assert_eq!(known.latency_ns, max.latency_ns);
        }
    }

    #[test]
    fn no_bytes_are_misread(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let Ok(histograms) = IntervalHistograms::try_from(bytes) else { return Ok(()) };
        for histogram in histograms.iter() {
            let mut waits = Distribution::default();
            histogram.add_to(&mut waits, &RecordedNames::default());
            prop_assert!(histogram.group < MAX_GROUPS && waits.count() > 0);
            prop_assert!(waits.min_ns() <= waits.max_ns());
            waits.percentile_ns(crate::aggregate::percentile_rank::Percentile::P99);
        }
        prop_assert_eq!(IntervalHistograms::try_from(Vec::<u8>::from(histograms.clone())), Ok(histograms));
    }

    #[test]
    fn a_file_cut_anywhere_or_with_a_bit_flipped_gives_whole_intervals_or_an_error(
        intervals in any_intervals(6),
        place in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let by = [Key::Cgroup, Key::Comm];
        let file = recorded(&by, &intervals);
        let whole = read(Recording::open(&file[..]).unwrap()).unwrap();
        let bit = place.index(file.len() * 8);
        let mut changed = file.clone();
        if is_cut { changed.truncate(bit / 8) } else { changed[bit / 8] ^= 1 << (bit % 8) }
        let Ok(read) = Recording::open(&changed[..]).and_then(read) else { return Ok(()) };
        // The last reading is the end, too, and has no further interval.
        let (end, part) = read.split_last().unwrap();
        prop_assert!(end.0.is_empty() && part.len() < whole.len());
        for ((groups, report), (expected, reading)) in part.iter().zip(&whole) {
            prop_assert_eq!((groups, report.duration_ns), (expected, reading.duration_ns));
        }
        prop_assert_eq!(end.1.duration_ns, part.last().unwrap().1.duration_ns);
        prop_assert_eq!(end.1.coverage.missing_ends.len(), 1);
    }
}

#[test]
fn a_name_is_written_once_and_again_only_if_it_changes() {
    let waits = |name: &str, cgroup_id| {
        vec![Wait { tid: 1, pid: 1, comm: Comm::new(name.as_bytes()), cgroup_id: Some(cgroup_id), ..wait() }]
    };
    let intervals = [waits("a", 7), waits("a", 7), waits("a", 8), waits("a", 7)];
    let file = recorded(&[Key::Cgroup], &intervals);
    let (mut recording, mut written) = (Recording::open(&file[..]).unwrap(), Vec::new());
    while let Some(frame) = recording.frame().unwrap() {
        match frame {
            Frame::Group { number, .. } => written.push(format!("group {number}")),
            Frame::Cgroup { id, .. } => written.push(format!("cgroup {id}")),
            Frame::Task { comm, .. } => written.push(format!("task {comm}")),
            _ => {}
        }
    }
    // The task of the longest wait has a name.
    assert_eq!(written, ["cgroup 7", "group 0", "task a", "cgroup 8", "group 1"]);
}

#[test]
fn a_group_of_a_recording_without_events_has_a_few_bytes() {
    const GROUPS: u64 = 200;
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut interval = || -> Vec<Wait> {
        let of =
            |cgroup_id, latency_ns| Wait { cgroup_id: Some(cgroup_id), class: Class::Wakeup, latency_ns, ..wait() };
        // Two waits each, of some microseconds.
        (1..=GROUPS).flat_map(|id| [of(id, 4_000 + random() % 8_000), of(id, 4_000 + random() % 8_000)]).collect()
    };
    let intervals: Vec<_> = (0..100).map(|_| interval()).collect();
    let bytes = recorded(&[Key::Cgroup], &intervals).len() as u64;
    let per_group = bytes / (GROUPS * intervals.len() as u64);
    assert!((3..=6).contains(&per_group), "{per_group}");
}

#[test]
fn more_groups_than_a_recording_can_name_at_once_are_named_again() {
    let by = [Key::Tid];
    let waits =
        |first: u32| (first..first + 40_000).map(|tid| Wait { tid, class: Class::New, ..wait() }).collect::<Vec<_>>();
    let intervals = [waits(1), waits(40_001), waits(1)];
    let (mut recorder, mut file) = (HistogramRecorder::default(), Encoder::default());
    recorder.begin(header(&by), &mut file).unwrap();
    let mut groups = Groups::new(by.to_vec(), false, 1 << 16);
    for waits in &intervals {
        waits.iter().for_each(|wait| groups.record(wait));
        recorder.interval(&groups, 5, &TestNames, &mut file).unwrap();
        groups.clear();
        recorder.reading(&reading(1, 1), &mut file).unwrap();
    }
    recorder.end(&reading(1, 1), &mut file).unwrap();
    let read = read(Recording::open(file.bytes()).unwrap()).unwrap();
    for ((groups, _), waits) in read.iter().zip(&intervals) {
        assert_eq!(groups.len(), waits.len());
        assert!(waits.iter().all(|wait| groups.contains_key(&key_of(wait, &by))));
    }
}
