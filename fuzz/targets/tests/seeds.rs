//! Runs what the fuzzer runs on fixtures, on damaged fixtures and on random bytes; and shows that the fuzzer runs
//! nothing else.

use std::{fs, path::PathBuf};

use fuzz_targets::{hist_trigger, recording, timeline, timerlat_pages, timerlat_trace, trace_text};
use wakelat_common::{
    record_bytes,
    timeline::{InterruptRecord, NO_WAIT, SwitchRecord, SwitchRecordFull, kind, source},
};
use wakelat_core::{
    recording::{
        CollectedEvents, Encoder, Header, RecordedNames, Recorder,
        block::{self, BlockHead},
    },
    report::{LatencyFrom, Report},
    timeline::decode::Decoder,
};

/// A target, and inputs of which it accepts something.
struct Seeded {
    seeds: Vec<Vec<u8>>,
    check: fn(&[u8]) -> usize,
}

/// Every target by name.
fn targets() -> [(&'static str, Seeded); 6] {
    let core = "wakelat-core/src/osnoise_tracers/fixtures";
    let text = "wakelat-core/src/trace_text/fixtures";
    let pages = "wakelat-tracefs/src/osnoise_tracers/fixtures/pages";
    let histograms = fixtures("wakelat-tracefs/tests/fixtures/hist", ".hist");
    [
        ("hist_trigger", Seeded { seeds: histograms, check: hist_trigger::check }),
        ("recording", Seeded { seeds: vec![recording_of(&records())], check: recording::check }),
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

/// Records of one CPU: a switch that ends a wait, a softirq, and a switch back.
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
    [record_bytes::bytes(&full), record_bytes::bytes(&softirq), record_bytes::bytes(&back)].map(<[u8]>::to_vec).into()
}

fn with_lengths(records: &[Vec<u8>]) -> Vec<u8> {
    let one = |record: &Vec<u8>| {
        let length = u8::try_from(record.len()).expect("a record is shorter than 256 bytes");
        [&[length], &record[..]].concat()
    };
    records.iter().flat_map(one).collect()
}

/// A recording of these records, as the target expects it: without its first bytes, heads of blocks and compression.
fn recording_of(records: &[Vec<u8>]) -> Vec<u8> {
    let (mut file, mut recorder, mut decoder) = (Encoder::default(), Recorder::default(), Decoder::default());
    let collected = CollectedEvents { irq: true, ..CollectedEvents::default() };
    let header = Header { from: LatencyFrom::Waking, collected, has_warm_up: true, ..Header::default() };
    let names = RecordedNames::default();
    recorder.begin(header, &mut file).expect("a header");
    recorder.warmed_up(&mut file).expect("a frame");
    for record in records {
        recorder.event(&decoder.decode(record).expect("a record"), &names, &mut file).expect("a frame");
    }
    let report = Report { duration_ns: 2_000_000, ..Report::default() };
    recorder.reading(&report, &mut file).expect("a frame");
    recorder.end(&report, &mut file).expect("a frame");

    const BEFORE_BLOCKS: usize = 12;
    let (mut rest, mut blocks) = (&file.bytes()[BEFORE_BLOCKS..], Vec::new());
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
    // All frames: the end of the warm-up, the waiting task's namespace, three events, a reading and the report.
    let [_, (_, recording), (_, timeline), ..] = targets();
    assert_eq!((accepted("timeline", &timeline), accepted("recording", &recording)), (vec![3], vec![7]));
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
