//! Reports and waits for the tests of all renderers.

use std::collections::BTreeMap;

use wakelat_common::{Class, sample::KernelCounts};

use crate::{
    aggregate::distribution::{Distribution, Maximum},
    files::Files,
    report::{Coverage, CoverageTerms, Group, GroupClass, KeyPart, KeyValue, LatencyFrom, Mode, Report},
    wait::{Comm, Wait},
};

/// 2023-11-14 22:13:20 UTC.
pub const START_UNIX_NS: u64 = 1_700_000_000_000_000_000;

/// CLOCK_MONOTONIC at that time.
pub const START_NS: u64 = 123_456_000_000_000;

/// A distribution of these latencies, in ns.
pub fn distribution(values: impl IntoIterator<Item = u64>) -> Distribution {
    let mut distribution = Distribution::default();
    for (index, latency_ns) in values.into_iter().enumerate() {
        let at_ns = START_NS + index as u64 * 1_234_567;
        let tid = 1234 + index as u32 % 4;
        distribution.record(Maximum { latency_ns, at_ns, tid, comm: Comm::new(b"nginx"), cpu: index as u32 % 2 });
    }
    distribution
}

/// A group with this key and class, and waits of these latencies in ns.
pub fn group(key: &[(&'static str, KeyValue)], class: Class, values: impl IntoIterator<Item = u64>) -> Group {
    Group {
        key: key.iter().map(|(name, value)| KeyPart { name, value: value.clone() }).collect(),
        class: GroupClass::One(class),
        distribution: distribution(values).into(),
        run_ns: None,
        worst: Vec::new(),
        wakers: BTreeMap::new(),
    }
}

/// The key of a group by name.
pub fn comm(name: &str) -> [(&'static str, KeyValue); 1] {
    [("comm", KeyValue::Text(name.to_owned()))]
}

/// A report of groups in which every wait was measured.
pub fn report(groups: Vec<Group>) -> Report {
    let measured = groups.iter().map(|group| group.distribution.count()).sum();
    Report {
        kernel: "6.1.0-18-amd64".to_owned(),
        start_unix_ns: START_UNIX_NS,
        duration_ns: 10_000_000_000,
        requested_ns: Some(10_000_000_000),
        skipped_intervals: 0,
        reader_waited_ns: Some(1_000_000),
        not_written: 0,
        unix_offset_ns: (START_UNIX_NS - START_NS) as i64,
        from: LatencyFrom::Wakeup,
        mode: Mode::Samples,
        groups,
        files: Files::default(),
        coverage: Coverage {
            wakeups: CoverageTerms { seen: measured + 50, measured, already_running: 50, ..CoverageTerms::default() },
            missed: Some(0),
            ..Coverage::default()
        },
        threshold: None,
        overhead: None,
        sampling: None,
    }
}

/// Returns `count` latencies with a typical distribution, a hump with a long tail, and the same for each
/// call.
pub fn usual(count: u64, middle_ns: u64) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count)
        .map(|_| {
            let normal = (0..12).map(|_| random()).sum::<f64>() - 6.0;
            let tail = if random() < 0.02 { 1.0 / (random() + 0.003) } else { 1.0 };
            (middle_ns as f64 * (normal * 0.6).exp() * tail) as u64
        })
        .collect()
}

/// A wait with every field known.
pub fn wait() -> Wait {
    Wait {
        class: Class::Wakeup,
        at_ns: START_NS + 789_012_345,
        latency_ns: 3_100_000,
        delivery_ns: Some(2_345),
        tid: 1234,
        pid: 1230,
        comm: Comm::new(b"nginx"),
        cgroup_id: Some(4242),
        prio: 120,
        policy: 0,
        cpu: 1,
        prev_cpu: Some(0),
        waker_tid: Some(77),
        prev_tid: 4711,
        prev_comm: Comm::new(b"cc1plus"),
        prev_prio: 120,
        kernel_counts: KernelCounts::Yes,
        sampling_shift: 0,
    }
}
