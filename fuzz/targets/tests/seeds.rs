//! Runs what the fuzzer runs on fixtures, on damaged fixtures and on random bytes; and shows that the fuzzer runs
//! nothing else.

use std::{fs, path::PathBuf};

use fuzz_targets::{hist_trigger, http_request, recording, timeline, timerlat_pages, timerlat_trace, trace_text};
use wakelat_common::{
    record_bytes,
    stack::{StackRecord, role},
    timeline::{InterruptRecord, NO_WAIT, SwitchRecord, SwitchRecordFull, kind, source},
};
use wakelat_core::{
    aggregate::{Groups, key::Key},
    recording::{
        CollectedEvents, Encoder, Header, HistogramRecorder, Kept, MoreEvents, RecordedNames, Recorder,
        block::{self, BlockHead},
    },
    report::{LatencyFrom, Report},
    timeline::{
        decode::Decoder,
        event::EventKind,
        stack_event::StackId,
        stack_frames::{NoSymbols, StackCounts, StackFrames, Symbolize},
    },
    wait::Wait,
};

/// A target, and inputs of which it accepts something.
struct Seeded {
    seeds: Vec<Vec<u8>>,
    check: fn(&[u8]) -> usize,
}

/// Every target by name.
fn targets() -> [(&'static str, Seeded); 7] {
    let core = "wakelat-core/src/osnoise_tracers/fixtures";
    let text = "wakelat-core/src/trace_text/fixtures";
    let pages = "wakelat-tracefs/src/osnoise_tracers/fixtures/pages";
    let histograms = fixtures("wakelat-tracefs/tests/fixtures/hist", ".hist");
    [
        ("hist_trigger", Seeded { seeds: histograms, check: hist_trigger::check }),
        ("http_request", Seeded { seeds: requests(), check: http_request::check }),
        ("recording", Seeded { seeds: recordings(), check: recording::check }),
        ("timeline", Seeded { seeds: vec![with_lengths(&records())], check: timeline::check }),
        ("timerlat_pages", Seeded { seeds: fixtures(pages, ""), check: timerlat_pages::check }),
        ("timerlat_trace", Seeded { seeds: fixtures(core, ".txt"), check: timerlat_trace::check }),
        ("trace_text", Seeded { seeds: fixtures(text, ".txt"), check: trace_text::check }),
    ]
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a directory whose names end so.
fn fixtures(directory: &str, suffix: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(root().join(directory)).expect("the directory exists");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(suffix));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

/// Requests of a scraper, of curl and of a browser.
fn requests() -> Vec<Vec<u8>> {
    let scraper = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    let more = "Accept-Encoding: gzip\r\nUser-Agent: Prometheus/2.42.0\r\nX-Prometheus-Scrape-Timeout-Seconds: 10";
    [
        format!("GET /metrics HTTP/1.1\r\nHost: localhost:9779\r\n{scraper}\r\n{more}\r\n\r\n"),
        "GET /why?last=30s&format=json HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n".to_owned(),
        "HEAD / HTTP/1.0\r\n\r\n".to_owned(),
        "GET http://localhost:9779/report.json HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Records of one CPU: the stacks of a task, a switch that ends a wait, a softirq, and a switch back.
fn records() -> Vec<Vec<u8>> {
    let switch = SwitchRecord {
        kind: kind::SWITCH_FULL,
        at_ns: 1_000_000,
        prev_pid: 9,
        pid: 6,
        tgid: 6,
        prio: 120,
        waker_pid: 9,
        latency_ns: 5_000,
        delivery_ns: 500,
        comm: *b"waits\0\0\0\0\0\0\0\0\0\0\0",
        ..SwitchRecord::default()
    };
    let full = SwitchRecordFull { switch, prev_tgid: 9, prev_prio: 120, ..SwitchRecordFull::default() };
    let stack = StackRecord {
        kind: kind::STACK,
        role: role::WAKEE,
        at_ns: 500_000,
        pid: 6,
        by_pid: 6,
        by_tgid: 6,
        kernel: 3,
        user: 4,
        ..StackRecord::default()
    };
    let softirq = InterruptRecord {
        kind: kind::INTERRUPT,
        source: source::SOFTIRQ,
        from_ns: 1_010_000,
        to_ns: 1_020_000,
        ..InterruptRecord::default()
    };
    let back = SwitchRecord {
        kind: kind::SWITCH,
        class: NO_WAIT,
        at_ns: 1_030_000,
        prev_pid: 6,
        pid: 9,
        tgid: 9,
        ..SwitchRecord::default()
    };
    [record_bytes::bytes(&stack), record_bytes::bytes(&full), record_bytes::bytes(&softirq), record_bytes::bytes(&back)]
        .map(<[u8]>::to_vec)
        .into()
}

fn with_lengths(records: &[Vec<u8>]) -> Vec<u8> {
    let one = |record: &Vec<u8>| {
        let length = u8::try_from(record.len()).expect("a record is shorter than 256 bytes");
        [&[length], &record[..]].concat()
    };
    records.iter().flat_map(one).collect()
}

/// Recordings of events, of waits and of histograms, as the target expects them.
fn recordings() -> Vec<Vec<u8>> {
    let (names, report) = (RecordedNames::default(), Report { duration_ns: 2_000_000, ..Report::default() });
    let header = |kept| {
        let collected = CollectedEvents { irq: true, ..CollectedEvents::default() };
        let more = MoreEvents { wakeups: true, migrations: true, waker_stacks: true, wakee_stacks: true };
        Header { from: LatencyFrom::Waking, collected, has_warm_up: true, kept, more, ..Header::default() }
    };
    let by = vec![Key::Cgroup, Key::Tid];
    let (mut events, mut waits, mut histograms) = (Encoder::default(), Encoder::default(), Encoder::default());
    let (mut of_events, mut of_waits, mut decoder) = (Recorder::default(), Recorder::default(), Decoder::default());
    of_events.begin(header(Kept::Events), &mut events).expect("a header");
    of_waits.begin(header(Kept::Waits), &mut waits).expect("a header");
    let mut of_histograms = HistogramRecorder::default();
    let kept = Kept::Histograms { by: by.clone(), interval_ns: 2_000_000 };
    of_histograms.begin(header(kept), &mut histograms).expect("a header");
    of_events.warmed_up(&mut events).expect("a frame");
    of_waits.warmed_up(&mut waits).expect("a frame");
    of_histograms.warmed_up(&mut histograms).expect("a frame");
    let mut groups = Groups::new(by, false, 16);
    for record in records() {
        let event = decoder.decode(&record).expect("a record");
        if let EventKind::Stack(stack) = &event.kind {
            of_events.stacks(stack, &Symbols, &mut events).expect("a frame");
        }
        of_events.event(&event, &names, &mut events).expect("a frame");
        let EventKind::Switch(switch) = &event.kind else { continue };
        let Some(ended) = &switch.ended_wait else { continue };
        of_waits.wait(&ended.wait, &names, &mut waits).expect("a frame");
        groups.record(&ended.wait);
        groups.record(&Wait { latency_ns: 70_000, ..ended.wait });
    }
    of_histograms.interval(&groups, 7, &names, &mut histograms).expect("a frame");
    of_events.stack_counts(&StackCounts::default(), &mut events).expect("a frame");
    of_events.reading(&report, &mut events).expect("a frame");
    of_events.end(&report, &mut events).expect("a frame");
    of_waits.end(&report, &mut waits).expect("a frame");
    of_histograms.end(&report, &mut histograms).expect("a frame");
    [events, waits, histograms].map(|file| frames_of(file.bytes())).into()
}

/// Names all functions.
struct Symbols;

impl Symbolize for Symbols {
    fn kernel(&self, _: StackId) -> StackFrames {
        StackFrames::Named(vec!["pipe_read".to_owned(), "vfs_read".to_owned()])
    }

    fn user(&self, _: u32, _: StackId) -> StackFrames {
        StackFrames::Unsymbolized(vec!["0x1234".to_owned()], NoSymbols::ProcessExited)
    }
}

/// A recording as the target expects it: without its first bytes, heads of blocks and compression.
fn frames_of(file: &[u8]) -> Vec<u8> {
    const BEFORE_BLOCKS: usize = 12;
    let (mut rest, mut blocks) = (&file[BEFORE_BLOCKS..], Vec::new());
    while let Some((head, after)) = rest.split_first_chunk() {
        let head = BlockHead::parse(*head).expect("a head");
        let (body, after) = after.split_at(head.length as usize);
        let frames = block::frames(body).expect("a body");
        blocks.extend(u32::try_from(frames.len()).expect("a short block").to_le_bytes());
        blocks.extend(frames);
        rest = after;
    }
    blocks
}

/// Pseudo-random numbers, the same in each run: xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[test]
fn every_target_accepts_its_seeds() {
    let accepted = |name, seeded: &Seeded| {
        assert!(!seeded.seeds.is_empty(), "{name} has no seed");
        seeded.seeds.iter().map(|seed| (seeded.check)(seed)).collect::<Vec<_>>()
    };
    for (name, seeded) in targets() {
        let accepted = accepted(name, &seeded);
        println!("{name}: {accepted:?}");
        assert!(accepted.iter().all(|accepted| *accepted > 0), "{name} accepts nothing of a seed: {accepted:?}");
    }
    // All frames: the end of the warm-up, the functions on two stacks, the waiting task's namespace, four events, the counts
    // of stacks, a reading and the report; the end of the warm-up, a wait and the report; and the end of the warm-up, the clock, a group with the name of its task, histograms
    // and the report.
    let [_, _, (_, recording), (_, timeline), ..] = targets();
    assert_eq!((accepted("timeline", &timeline), accepted("recording", &recording)), (vec![4], vec![11, 3, 6]));
}

#[test]
fn no_target_panics_on_damaged_seeds() {
    const DAMAGED: usize = 24;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (_, Seeded { seeds, check }) in targets() {
        for seed in &seeds {
            for _ in 0..DAMAGED {
                let mut damaged = seed.clone();
                damaged.truncate(1 + random.below(seed.len()));
                for _ in 0..random.below(8) {
                    let at = random.below(damaged.len());
                    damaged[at] = random.next() as u8;
                }
                check(&damaged);
            }
        }
    }
}

#[test]
fn no_target_panics_on_random_bytes() {
    const INPUTS: usize = 256;
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for (_, Seeded { check, .. }) in targets() {
        check(&[]);
        for _ in 0..INPUTS {
            let length = random.below(4096);
            let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            check(&bytes);
        }
    }
}

/// The fuzzer itself is not compiled here, so it must consist of nothing that could cease to compile.
#[test]
fn the_fuzzer_only_calls_these_targets() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("the fuzzer's manifest");
    let named: Vec<&str> = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")).collect();
    assert_eq!(named, targets().map(|(name, _)| format!("{name}.rs\"")));
    assert_eq!(fixtures("fuzz/fuzz_targets", "").len(), named.len());
    for (name, _) in targets() {
        let source = fs::read_to_string(root().join(format!("fuzz/fuzz_targets/{name}.rs"))).expect("a source");
        let code: Vec<&str> = source.lines().filter(|line| !line.starts_with("//") && !line.is_empty()).collect();
        let call = format!("    fuzz_targets::{name}::check(bytes);");
        let expected =
            ["#![no_main]", "use libfuzzer_sys::fuzz_target;", "fuzz_target!(|bytes: &[u8]| {", &call, "});"];
        assert_eq!(code, expected, "{name}");
    }
}
