//! What user space does with a sample, and with a window of them: merge by time, decode, find its group, find its bucket,
//! report.

mod numbers;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wakelat_common::sample::{COMM_LEN, KIND_SAMPLE};
use wakelat_common::{Class, Sample, bucket, record_bytes};
use wakelat_core::aggregate::Groups;
use wakelat_core::aggregate::key::Key;
use wakelat_core::decode::decode;
use wakelat_core::record_merge::{RecordMerger, RecordRings};
use wakelat_core::render::PERCENTILES;

use numbers::Numbers;

/// How many samples a round takes.
const SAMPLES: usize = 10_000;

/// Groups kept apart: as many as by default.
const LIMIT: usize = 16_384;

/// A name as the kernel keeps it.
const COMM: &[u8; COMM_LEN] = b"a-usual-name\0\0\0\0";

/// xorshift64 (Marsaglia 2003): the same values in every run.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Latencies over nine octaves, as they come: ns.
fn latencies() -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d;
    (0..SAMPLES).map(|_| (1 << (9 + random(&mut state) % 9)) + random(&mut state) % 512).collect()
}

/// Records as they lie in the ring buffer, of `threads` threads in turn.
fn records(threads: u32) -> Vec<Vec<u8>> {
    let record = |(index, latency_ns): (usize, u64)| {
        let sample = Sample {
            kind: KIND_SAMPLE,
            class: Class::Wakeup as u8,
            at_ns: index as u64 * 1000,
            latency_ns,
            pid: index as u32 % threads + 1,
            comm: *COMM,
            ..Sample::default()
        };
        record_bytes::bytes(&sample).to_vec()
    };
    latencies().into_iter().enumerate().map(record).collect()
}

fn groups_of(records: &[Vec<u8>], keys: &[Key]) -> Groups {
    let mut groups = Groups::new(keys.to_vec(), false, LIMIT);
    for record in records {
        groups.record(&decode(record).expect("a record"));
    }
    groups
}

fn sample(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sample");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    let one = records(1);
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            for record in &one {
                let _ = black_box(decode(black_box(record)));
            }
        });
    });
    for threads in [1, 1000] {
        let records = records(threads);
        let mut groups = groups_of(&records, &[Key::Tid]);
        // The groups are there already, as in all but the first moments of a run.
        group.bench_function(format!("decode and aggregate, {threads} groups"), |bencher| {
            bencher.iter(|| {
                for record in &records {
                    groups.record(&decode(black_box(record)).expect("a record"));
                }
            });
        });
    }
    let latencies = latencies();
    group.bench_function("bucket", |bencher| {
        bencher.iter(|| latencies.iter().map(|latency_ns| bucket::index(black_box(*latency_ns))).sum::<usize>());
    });
    group.finish();
}

fn window(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("window");
    for threads in [1, 1000] {
        let mut groups = groups_of(&records(threads), &[Key::Tid]);
        group.bench_function(format!("report of {threads} groups with percentiles"), |bencher| {
            bencher.iter(|| {
                let report = groups.report(&Numbers, None);
                for group in &report {
                    for (percent, _) in PERCENTILES {
                        black_box(group.distribution.percentile_ns(percent));
                    }
                }
                report
            });
        });
    }
    group.finish();
}

/// Ring buffers over the same records: those of `rings` CPUs in turn, the worst order for a merge.
struct TurnRings<'a> {
    records: &'a [Vec<u8>],
    rings: usize,
    /// How many records of each ring buffer are taken.
    taken: Vec<usize>,
}

impl TurnRings<'_> {
    fn oldest(&self, ring: usize) -> Option<&[u8]> {
        self.records.get(ring + self.taken[ring] * self.rings).map(Vec::as_slice)
    }
}

impl RecordRings for TurnRings<'_> {
    fn rings(&self) -> usize {
        self.rings
    }

    fn take_if<T>(&mut self, ring: usize, take: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let taken = self.oldest(ring).and_then(take);
        self.taken[ring] += usize::from(taken.is_some());
        taken
    }
}

fn merge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    let records = records(1);
    for count in [1, 2, 8, 64, 256] {
        group.bench_function(format!("{count} ring buffers"), |bencher| {
            bencher.iter(|| {
                let mut rings = TurnRings { records: &records, rings: count, taken: vec![0; count] };
                let mut merger = RecordMerger::default();
                let take = |record: &[u8]| {
                    black_box(record);
                    Ok::<(), ()>(())
                };
                merger.merge(&mut rings, u64::MAX, usize::MAX, take)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, sample, window, merge);
criterion_main!(benches);
