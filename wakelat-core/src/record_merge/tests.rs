//! The order of merged records, against a simulation of programs, ring buffers and drains.

use std::collections::VecDeque;

use proptest::prelude::*;
use wakelat_common::{record_bytes, timeline::SwitchRecordFull};

use super::*;

/// A record of a program, by the times of its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    stamped_ns: u64,
    reserved_ns: u64,
    submitted_ns: u64,
}

/// Ring buffers at a time that passes while they are read.
#[derive(Default)]
struct Simulation {
    now_ns: u64,
    /// How much time passes with each look at a ring buffer.
    step_ns: u64,
    rings: Vec<VecDeque<Flight>>,
}

impl Simulation {
    fn oldest(&mut self, ring: usize) -> Option<Flight> {
        self.now_ns += self.step_ns;
        let now_ns = self.now_ns;
        self.rings[ring].front().filter(|flight| flight.submitted_ns <= now_ns).copied()
    }
}

fn sample(flight: Flight) -> Sample {
    Sample { kind: KIND_SAMPLE, at_ns: flight.stamped_ns, latency_ns: flight.reserved_ns, ..Sample::default() }
}

impl RecordRings for Simulation {
    fn rings(&self) -> usize {
        self.rings.len()
    }

    fn take_if<T>(&mut self, ring: usize, take: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let flight = self.oldest(ring)?;
        let taken = take(record_bytes::bytes(&sample(flight)));
        if taken.is_some() {
            self.rings[ring].pop_front();
        }
        taken
    }
}

/// The stamps of the records that the drains took, and how many of them the merger counted as late.
struct Merged {
    stamps_ns: Vec<u64>,
    late: u64,
}

impl Merged {
    /// Records that follow one with a later stamp.
    fn behind(&self) -> u64 {
        let mut latest_ns = 0;
        let behind = |stamp_ns: &&u64| {
            let is_behind = **stamp_ns < latest_ns;
            latest_ns = latest_ns.max(**stamp_ns);
            is_behind
        };
        self.stamps_ns.iter().filter(behind).count() as u64
    }
}

/// Drains at the given times, each time up to the stamp that `until_ns` returns for it, and takes the rest at the end.
fn drained(
    rings: Vec<VecDeque<Flight>>,
    step_ns: u64,
    drains_ns: &[u64],
    until_ns: impl Fn(u64) -> u64,
    limit: usize,
) -> Merged {
    let mut simulation = Simulation { now_ns: 0, step_ns, rings };
    let mut merger = RecordMerger::default();
    let mut stamps_ns = Vec::new();
    let mut take = |bytes: &[u8]| {
        stamps_ns.push(stamp_ns(bytes).unwrap());
        Ok::<(), ()>(())
    };
    for drain_ns in drains_ns {
        simulation.now_ns = simulation.now_ns.max(*drain_ns);
        let until_ns = until_ns(simulation.now_ns);
        assert!(merger.merge(&mut simulation, until_ns, limit, &mut take).unwrap() <= limit);
    }
    // The programs have ended.
    simulation.now_ns = u64::MAX / 2;
    while merger.merge(&mut simulation, u64::MAX, limit, &mut take).unwrap() > 0 {}
    Merged { stamps_ns, late: merger.late() }
}

/// Ring buffers with records of one CPU each: the gap before each record, and how long it is in flight before and after
/// its reservation.
fn rings(longest_flight_ns: u64) -> impl Strategy<Value = Vec<VecDeque<Flight>>> {
    let records =
        prop::collection::vec((0..=longest_flight_ns / 2, 0..=longest_flight_ns / 2, 0..=longest_flight_ns / 2), 0..60);
    let ring = records.prop_map(|records| {
        let mut free_ns = 1;
        let flight = |(gap_ns, before_ns, after_ns)| {
            // A CPU makes one record after the other.
            let stamped_ns = free_ns + gap_ns;
            let reserved_ns = stamped_ns + before_ns;
            free_ns = reserved_ns + after_ns;
            Flight { stamped_ns, reserved_ns, submitted_ns: free_ns }
        };
        records.into_iter().map(flight).collect()
    });
    prop::collection::vec(ring, 1..9)
}

fn drains() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..40 * IN_FLIGHT_NS, 0..40).prop_map(|mut drains_ns| {
        drains_ns.sort_unstable();
        drains_ns
    })
}

proptest! {
    /// Fails if a drain takes records that others may still precede.
    #[test]
    fn records_come_in_the_order_of_time(
        rings in rings(IN_FLIGHT_NS), step_ns in 0..IN_FLIGHT_NS / 20, drains_ns in drains(),
        limit in prop_oneof![Just(usize::MAX), 1..20_usize],
    ) {
        let mut expected: Vec<u64> = rings.iter().flatten().map(|flight| flight.stamped_ns).collect();
        expected.sort_unstable();
        let merged = drained(rings, step_ns, &drains_ns, settled_until_ns, limit);
        prop_assert_eq!(merged.stamps_ns, expected);
        prop_assert_eq!(merged.late, 0);
    }

    #[test]
    fn a_record_that_was_in_flight_for_too_long_is_counted_and_not_lost(
        rings in rings(5 * IN_FLIGHT_NS), step_ns in 0..IN_FLIGHT_NS / 20, drains_ns in drains(),
    ) {
        let mut expected: Vec<u64> = rings.iter().flatten().map(|flight| flight.stamped_ns).collect();
        let mut merged = drained(rings, step_ns, &drains_ns, settled_until_ns, usize::MAX);
        prop_assert_eq!(merged.late, merged.behind());
        merged.stamps_ns.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(merged.stamps_ns, expected);
    }
}

fn submitted(stamps_ns: &[u64]) -> VecDeque<Flight> {
    let flight = |at_ns: &u64| Flight { stamped_ns: *at_ns, reserved_ns: 0, submitted_ns: 0 };
    stamps_ns.iter().map(flight).collect()
}

#[test]
fn a_ring_buffer_keeps_its_order() {
    // The second record was stamped first: an interrupt came between its stamp and its reservation.
    let merged = drained(vec![submitted(&[50, 40, 60]), submitted(&[45, 55])], 0, &[], settled_until_ns, usize::MAX);
    assert_eq!((merged.stamps_ns, merged.late), (vec![45, 50, 40, 55, 60], 0));
}

#[test]
fn a_record_that_comes_after_later_ones_is_counted() {
    let slow = Flight { stamped_ns: 100, reserved_ns: 150, submitted_ns: 200 };
    let rings = || vec![VecDeque::from([slow]), submitted(&[120])];
    let at_once = drained(rings(), 0, &[160], |now_ns| now_ns, usize::MAX);
    assert_eq!((at_once.stamps_ns, at_once.late), (vec![120, 100], 1));
    let settled = drained(rings(), 0, &[160], |now_ns| now_ns - 100, usize::MAX);
    assert_eq!((settled.stamps_ns, settled.late), (vec![100, 120], 0));
}

#[test]
fn an_error_removes_the_record_that_caused_it() {
    let mut simulation = Simulation { rings: vec![submitted(&[1, 2])], ..Simulation::default() };
    let mut merger = RecordMerger::default();
    assert_eq!(merger.merge(&mut simulation, 9, 9, |_| Err("wrong")), Err("wrong"));
    assert_eq!(merger.merge(&mut simulation, 9, 9, |_| Ok::<(), ()>(())), Ok(1));
}

#[test]
fn every_kind_of_record_has_its_stamp() {
    let at_ns = 0x0102_0304_0506_0708;
    let stamps = [
        stamp_ns(record_bytes::bytes(&Sample { kind: KIND_SAMPLE, at_ns, ..Sample::default() })),
        stamp_ns(record_bytes::bytes(&SwitchRecord { kind: event::SWITCH, at_ns, ..SwitchRecord::default() })),
        stamp_ns(record_bytes::bytes(&SwitchRecordFull {
            switch: SwitchRecord { kind: event::SWITCH_FULL, at_ns, ..SwitchRecord::default() },
            ..SwitchRecordFull::default()
        })),
        // Sent when the interrupt ends.
        stamp_ns(record_bytes::bytes(&InterruptRecord {
            kind: event::INTERRUPT,
            to_ns: at_ns,
            ..InterruptRecord::default()
        })),
        stamp_ns(record_bytes::bytes(&MigrationRecord { kind: event::MIGRATION, at_ns, ..MigrationRecord::default() })),
        stamp_ns(record_bytes::bytes(&WakeupRecord { kind: event::WAKEUP, at_ns, ..WakeupRecord::default() })),
        stamp_ns(record_bytes::bytes(&WorkItemRecord { kind: event::WORK_ITEM, at_ns, ..WorkItemRecord::default() })),
        stamp_ns(record_bytes::bytes(&ForkExecRecord { kind: event::FORK_EXEC, at_ns, ..ForkExecRecord::default() })),
        stamp_ns(record_bytes::bytes(&StackRecord { kind: event::STACK, at_ns, ..StackRecord::default() })),
    ];
    assert_eq!(stamps, [Some(at_ns); 9]);
    for bytes in [&[][..], &[KIND_SAMPLE], &[KIND_SAMPLE; 15], &[0; 200], &[255; 200]] {
        assert_eq!(stamp_ns(bytes), None, "{bytes:?}");
    }
}
