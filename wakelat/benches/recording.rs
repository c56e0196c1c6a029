//! What user space does with a switch that it records: decode and encode it, with the event and without.

mod numbers;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wakelat_common::timeline::{IDLE_STATE_UNKNOWN, SwitchRecord, SwitchRecordFull, UNSEEN_UNKNOWN, kind};
use wakelat_common::{Class, record_bytes};
use wakelat_core::recording::{Encoder, FrameSink as _, Recorder};
use wakelat_core::timeline::decode::Decoder;

use numbers::Numbers;

/// How many switches a round takes.
const SWITCHES: u32 = 10_000;

/// The records of one CPU on which `tasks` tasks wake each other in turn. Only the first one describes both of its tasks.
fn records(tasks: u32) -> Vec<Vec<u8>> {
    let record = |turn: u32| {
        let (prev_pid, pid) = (turn % tasks + 1, (turn + 1) % tasks + 1);
        let switch = SwitchRecord {
            kind: if turn == 0 { kind::SWITCH_FULL } else { kind::SWITCH },
            class: Class::Wakeup as u8,
            at_ns: u64::from(turn) * 4_000,
            prev_state: 2,
            idle_state: IDLE_STATE_UNKNOWN,
            prev_pid,
            pid,
            tgid: pid,
            prio: 120,
            waker_pid: prev_pid,
            latency_ns: 1_500 + u64::from(turn) * 7 % 700,
            delivery_ns: 300 + u64::from(turn) * 11 % 200,
            cgroup_id: 7,
            comm: *b"a-usual-name\0\0\0\0",
            ..SwitchRecord::default()
        };
        let full =
            SwitchRecordFull { switch, prev_tgid: prev_pid, unseen: UNSEEN_UNKNOWN, ..SwitchRecordFull::default() };
        if turn == 0 { record_bytes::bytes(&full).to_vec() } else { record_bytes::bytes(&switch).to_vec() }
    };
    (0..SWITCHES).map(record).collect()
}

/// Records a segment, and returns its bytes.
fn record(records: &[Vec<u8>], with_events: bool) -> Encoder {
    let (mut decoder, mut recorder, mut file) = (Decoder::default(), Recorder::default(), Encoder::default());
    recorder.set_unix_offset(0, &mut file).expect("a frame has room");
    for record in records {
        if !with_events && decoder.offer_switch(record, |known| recorder.known_switch(known, 0, &mut file)) {
            continue;
        }
        let event = decoder.decode(record).expect("a record");
        recorder.event(&event, &Numbers, &mut file).expect("a frame has room");
        decoder.reuse(event);
    }
    file.end_segment().expect("a segment may end");
    file
}

fn switches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recording");
    group.throughput(Throughput::Elements(SWITCHES.into()));
    for tasks in [2, 100] {
        let records = records(tasks);
        for (how, with_events) in [("events", true), ("known tasks", false)] {
            group.bench_function(format!("switches of {tasks} tasks, by {how}"), |bencher| {
                bencher.iter(|| record(&records, with_events));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, switches);
criterion_main!(benches);
