use proptest::prelude::*;
use wakelat_common::{pending_wait::PrevState, record_bytes};

use super::*;

fn named(name: &[u8]) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    comm
}

fn a_switch() -> SwitchRecord {
    SwitchRecord {
        kind: kind::SWITCH_FULL,
        sampling_shift: 1,
        class: 0,
        preempted_sleeping: 0,
        cpu: 1,
        at_ns: 2,
        lost: 20,
        prev_state: 2,
        flags: flag::REMOTE | flag::NEXT_WANTED,
        idle_state: 4,
        migrations: 5,
        prev_pid: 9,
        pid: 6,
        tgid: 7,
        prio: -1,
        policy: 6,
        wait_cpu: 3,
        waker_cpu: 2,
        waker_pid: 11,
        prev_cpu: 12,
        reserved: 0,
        latency_ns: 3,
        delivery_ns: 4,
        throttled_ns: 8,
        stolen_ns: 9,
        cgroup_id: 5,
        comm: named(b"waits"),
    }
}

fn a_full_switch(switch: SwitchRecord) -> SwitchRecordFull {
    SwitchRecordFull {
        switch,
        prev_tgid: 6,
        prev_prio: 120,
        prev_policy: 1,
        unseen: 0,
        switched_in_ns: 1,
        prev_cgroup_id: 7,
        prev_comm: named(b"ran"),
    }
}

fn decoded(switch: SwitchRecord) -> SwitchEvent {
    match Decoder::default().decode(record_bytes::bytes(&a_full_switch(switch))).unwrap().kind {
        EventKind::Switch(switch) => *switch,
        other => panic!("{other:?}"),
    }
}

/// The bytes of one of the shorter records.
fn short(kind: u8, [first, second]: [u8; 2], words: [u32; 3], longs: [u64; 2], name: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![kind, first, second, 0];
    words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    longs.iter().for_each(|long| bytes.extend(long.to_ne_bytes()));
    bytes.extend(name);
    bytes
}

/// Two 32-bit fields as one word in the machine's byte order.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

const NAME: [u8; 16] = *b"eth0\0...........";

#[test]
fn every_field_of_a_switch_arrives() {
    let event = Decoder::default().decode(record_bytes::bytes(&a_full_switch(a_switch()))).unwrap();
    assert_eq!((event.cpu, event.seq), (1, 21));
    let EventKind::Switch(switch) = event.kind else { panic!("{event:?}") };
    assert_eq!(
        (switch.at_ns, switch.prev_state, switch.idle_state, switch.rt_throttled),
        (2, PrevState::Sleeping, Some(4), false)
    );
    let prev = switch.prev;
    assert_eq!((prev.tid, prev.pid, prev.prio, prev.policy), (9, 6, 120, 1));
    assert_eq!((prev.cgroup_id, prev.wanted, prev.comm), (Some(7), false, Comm::new(b"ran")));
    let next = switch.next;
    assert_eq!((next.tid, next.pid, next.prio, next.policy), (6, 7, -1, 6));
    assert_eq!((next.cgroup_id, next.wanted, next.comm), (Some(5), true, Comm::new(b"waits")));
    let waited = switch.ended_wait.unwrap();
    let wait = waited.wait;
    assert_eq!(
        (wait.class, wait.cpu, wait.at_ns, wait.latency_ns, wait.delivery_ns),
        (Class::Wakeup, 1, 2, 3, Some(4))
    );
    assert_eq!((wait.tid, wait.pid, wait.prio, wait.policy, wait.cgroup_id), (6, 7, -1, 6, Some(5)));
    assert_eq!(
        (wait.comm, wait.waker_tid, wait.prev_cpu, wait.sampling_shift),
        (Comm::new(b"waits"), Some(11), Some(12), 1)
    );
    assert_eq!((wait.prev_tid, wait.prev_comm, wait.prev_prio), (9, Comm::new(b"ran"), 120));
    assert_eq!((waited.cpu, waited.waker_cpu, waited.remote, waited.migrations), (Some(3), Some(2), true, 5));
    assert_eq!((waited.throttled_ns, waited.throttled_at_start, waited.stolen_ns), (Some(8), false, 9));
}

#[test]
fn a_switch_without_a_wait_still_has_its_tasks() {
    let mut without = a_switch();
    without.class = NO_WAIT;
    without.idle_state = IDLE_STATE_UNKNOWN;
    without.flags = flag::RT_THROTTLED | flag::PREV_WANTED;
    let switch = decoded(without);
    assert_eq!((switch.ended_wait, switch.idle_state, switch.rt_throttled), (None, None, true));
    assert_eq!((switch.prev.wanted, switch.next.wanted, switch.next.tid), (true, false, 6));
}

#[test]
fn throttling_that_the_kernel_does_not_report_is_unknown() {
    let unknown = SwitchRecord { flags: flag::THROTTLING_UNKNOWN, waker_cpu: u32::MAX, ..a_switch() };
    let waited = decoded(unknown).ended_wait.unwrap();
    assert_eq!((waited.throttled_ns, waited.waker_cpu), (None, None));
}

#[test]
fn the_outgoing_task_of_a_short_record_is_the_one_switched_in_before() {
    let mut decoder = Decoder::default();
    let mut prev = |record: &[u8]| match decoder.decode(record)?.kind {
        EventKind::Switch(switch) => Ok((switch.prev.tid, switch.prev.comm, switch.prev.wanted, switch.unseen)),
        other => panic!("{other:?}"),
    };
    let short = |cpu, prev_pid| {
        let flags = flag::PREV_WANTED;
        record_bytes::bytes(&SwitchRecord {
            kind: kind::SWITCH,
            cpu,
            prev_pid,
            pid: 8,
            comm: named(b"next"),
            flags,
            ..a_switch()
        })
        .to_vec()
    };
    assert_eq!(prev(&short(1, 6)), Err(DecodeError::UnknownPrev(6)));
    assert_eq!(prev(record_bytes::bytes(&a_full_switch(a_switch()))), Ok((9, Comm::new(b"ran"), false, None)));
    assert_eq!(prev(&short(0, 6)), Err(DecodeError::UnknownPrev(6)));
    assert_eq!(prev(&short(1, 9)), Err(DecodeError::UnknownPrev(9)));
    assert_eq!(prev(&short(1, 6)), Ok((6, Comm::new(b"waits"), true, None)));
    assert_eq!(prev(&short(1, 8)), Ok((8, Comm::new(b"next"), true, None)));
}

#[test]
fn unseen_switches_are_decoded() {
    let unseen = |unseen, switched_in_ns| {
        let full = SwitchRecordFull { unseen, switched_in_ns, ..a_full_switch(a_switch()) };
        match Decoder::default().decode(record_bytes::bytes(&full)).unwrap().kind {
            EventKind::Switch(switch) => switch.unseen,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(unseen(0, 7), None);
    assert_eq!(unseen(3, 7), Some(Unseen { switches: Some(3), switched_in_ns: Some(7) }));
    assert_eq!(unseen(UNSEEN_UNKNOWN, 0), Some(Unseen { switches: None, switched_in_ns: None }));
}

#[test]
fn every_field_of_an_interrupt_arrives() {
    let of = |source| short(kind::INTERRUPT, [source, 0], [1, 0, 7], [10, 20], NAME);
    let source = |bytes: &[u8]| match Decoder::default().decode(bytes).unwrap().kind {
        EventKind::Interrupt(InterruptEvent { source, from_ns: 10, to_ns: 20 }) => source,
        other => panic!("{other:?}"),
    };
    assert_eq!(source(&of(source::IRQ)), InterruptSource::Irq { number: 7, name: Comm::new(b"eth0") });
    assert_eq!(source(&of(source::VECTOR)), InterruptSource::Vector(7));
    assert_eq!(source(&of(source::SOFTIRQ)), InterruptSource::Softirq(7));
    assert_eq!(Decoder::default().decode(&of(3)), Err(DecodeError::Source(3)));
}

#[test]
fn every_field_of_a_migration_and_of_a_wakeup_arrives() {
    let migration = short(kind::MIGRATION, [1, 0], [1, 0, 42], [10, pair(2, 3)], NAME);
    let comm = Comm::new(b"eth0");
    let expected = MigrationEvent { at_ns: 10, tid: 42, comm, waiting: true, from_cpu: 2, to_cpu: 3 };
    assert_eq!(Decoder::default().decode(&migration).unwrap().kind, EventKind::Migration(expected));
    let woken = short(kind::WAKEUP, [1, 1], [1, 0, 42], [10, pair(2, 3)], NAME);
    let expected = WakeupEvent { at_ns: 10, tid: 42, comm, new: true, running: true, target_cpu: 2, waker_tid: 3 };
    assert_eq!(Decoder::default().decode(&woken).unwrap().kind, EventKind::Wakeup(expected));
    let preempted = short(kind::WAKEUP, [2, 1], [1, 0, 42], [10, 0], NAME);
    assert_eq!(Decoder::default().decode(&preempted), Err(DecodeError::Class(2)));
}

#[test]
fn a_lost_record_is_a_step_in_the_numbers_of_its_cpu_only() {
    let mut decoder = Decoder::default();
    let mut seq = |cpu, lost| {
        decoder.decode(&short(kind::INTERRUPT, [source::SOFTIRQ, 0], [cpu, lost, 0], [1, 2], NAME)).unwrap().seq
    };
    assert_eq!([seq(0, 0), seq(0, 0), seq(1, 0), seq(0, 3), seq(1, 0), seq(0, 3)], [1, 2, 1, 6, 2, 7]);
}

/// An interrupt between the reservation of a record and its count of lost records: its record comes later and has a
/// lower count.
#[test]
fn a_lower_count_of_lost_records_is_no_further_loss() {
    let mut decoder = Decoder::default();
    let mut seq =
        |lost| decoder.decode(&short(kind::INTERRUPT, [source::SOFTIRQ, 0], [0, lost, 0], [1, 2], NAME)).unwrap().seq;
    assert_eq!([seq(0), seq(2), seq(1), seq(2), seq(3)], [1, 4, 5, 6, 8]);
}

#[test]
fn each_kind_of_record_has_its_own_length_and_need_not_be_aligned() {
    let kinds = [
        (kind::SWITCH, size_of::<SwitchRecord>()),
        (kind::SWITCH_FULL, size_of::<SwitchRecordFull>()),
        (kind::INTERRUPT, size_of::<InterruptRecord>()),
        (kind::MIGRATION, size_of::<MigrationRecord>()),
        (kind::WAKEUP, size_of::<WakeupRecord>()),
        (kind::WORK_ITEM, size_of::<WorkItemRecord>()),
        (kind::FORK_EXEC, size_of::<ForkExecRecord>()),
        (kind::STACK, size_of::<StackRecord>()),
    ];
    for (kind, expected) in kinds {
        for skipped in 0..8 {
            let mut bytes = vec![0; skipped + expected + 1];
            bytes[skipped] = kind;
            let decode = |length| Decoder::default().decode(&bytes[skipped..skipped + length]);
            for found in [expected - 1, expected + 1] {
                assert_eq!(decode(found), Err(DecodeError::Length { found, expected }), "kind {kind}");
            }
            assert!(!matches!(decode(expected), Err(DecodeError::Length { .. })), "kind {kind}");
        }
    }
}

#[test]
fn a_short_a_long_and_an_unknown_record_are_refused() {
    let (full, short) = (a_full_switch(a_switch()), SwitchRecord { kind: kind::SWITCH, ..a_switch() });
    let (full, short) = (record_bytes::bytes(&full), record_bytes::bytes(&short));
    for good in [full, short] {
        for length in 0..good.len() {
            let refused = Decoder::default().decode(&good[..length]);
            assert!(matches!(refused, Err(DecodeError::Length { found, .. }) if found == length), "{refused:?}");
        }
    }
    assert_eq!((full.len(), short.len()), (168, 120));
    let long = [full, &[0]].concat();
    assert_eq!(Decoder::default().decode(&long), Err(DecodeError::Length { found: 169, expected: 168 }));
    assert_eq!(Decoder::default().decode(&[1, 0, 0]), Err(DecodeError::Kind(1)));
    let unknown = a_full_switch(SwitchRecord { prev_state: 4, ..a_switch() });
    assert_eq!(Decoder::default().decode(record_bytes::bytes(&unknown)), Err(DecodeError::PrevState(4)));
}

proptest! {
    #[test]
    fn any_bytes_are_an_event_or_an_error(kind in 0u8..8, rest in prop::collection::vec(any::<u8>(), 0..180)) {
        let record = [&[kind][..], &rest].concat();
        let mut decoder = Decoder::default();
        _ = decoder.decode(&record);
        for length in [48, 120, 168] {
            let mut record = record.clone();
            record.resize(length, 0);
            _ = decoder.decode(&record);
        }
    }
}

#[test]
fn every_field_of_a_fork_and_of_an_exec_arrives() {
    let fork_exec = |exec, child| short(kind::FORK_EXEC, [exec, 0], [1, 0, 42], [10, pair(child, 0)], NAME);
    let expected = |child| EventKind::ForkExec(ForkExecEvent { at_ns: 10, tid: 42, comm: Comm::new(b"eth0"), child });
    assert_eq!(Decoder::default().decode(&fork_exec(0, 43)).unwrap().kind, expected(Some(43)));
    assert_eq!(Decoder::default().decode(&fork_exec(1, 0)).unwrap().kind, expected(None));
}

#[test]
fn every_field_of_a_stack_arrives() {
    let bytes = |role: u8, kernel: i32, user: i32| {
        let mut bytes = vec![kind::STACK, role, 0, 0];
        bytes.extend([1u32, 0, 42].map(u32::to_ne_bytes).concat());
        bytes.extend(10u64.to_ne_bytes());
        bytes.extend([7u32, 8].map(u32::to_ne_bytes).concat());
        bytes.extend([kernel, user].map(i32::to_ne_bytes).concat());
        bytes
    };
    let expected = |role, kernel, user| {
        EventKind::Stack(StackEvent { at_ns: 10, role, tid: 42, by_tid: 7, by_pid: 8, kernel, user })
    };
    let event = Decoder::default().decode(&bytes(1, 77, -14)).unwrap();
    assert_eq!((event.cpu, event.kind), (1, expected(Role::Waker, StackId::Id(77), StackId::Missing)));
    let event = Decoder::default().decode(&bytes(2, -17, -12)).unwrap();
    assert_eq!(event.kind, expected(Role::Wakee, StackId::MapFull, StackId::MapFull));
    assert_eq!(Decoder::default().decode(&bytes(3, 0, 0)), Err(DecodeError::Role(3)));
}

#[test]
fn every_field_of_a_work_item_arrives() {
    let bytes = |function| short(kind::WORK_ITEM, [0, 0], [1, 0, 42], [10, function], NAME)[..32].to_vec();
    let expected = |function| EventKind::WorkItem(WorkItemEvent { at_ns: 10, tid: 42, function });
    let begins = bytes(0xffff_ffff_8100_0123);
    assert_eq!(Decoder::default().decode(&begins).unwrap().kind, expected(Some(0xffff_ffff_8100_0123)));
    assert_eq!(Decoder::default().decode(&bytes(0)).unwrap().kind, expected(None));
    let short = Decoder::default().decode(&begins[..31]);
    assert_eq!(short, Err(DecodeError::Length { found: 31, expected: 32 }));
}

#[test]
fn stolen_time_is_that_of_the_wait_if_the_records_have_the_total_of_the_cpu() {
    let mut decoder = Decoder::default();
    let mut stolen_ns = |at_ns, total_ns, latency_ns, migrations, class| {
        let flags = flag::STOLEN_TOTAL;
        let switch = SwitchRecord { at_ns, stolen_ns: total_ns, latency_ns, migrations, class, flags, ..a_switch() };
        let event = decoder.decode(record_bytes::bytes(&a_full_switch(switch))).unwrap();
        let EventKind::Switch(switch) = event.kind else { panic!("{event:?}") };
        switch.ended_wait.map(|waited| waited.stolen_ns)
    };
    let wakeup = Class::Wakeup as u8;
    assert_eq!(stolen_ns(1_000, 70_000, 500, 0, wakeup), Some(0), "nothing is known before the first switch");
    assert_eq!(stolen_ns(2_000, 70_100, 0, 0, NO_WAIT), None);
    assert_eq!(stolen_ns(3_000, 70_130, 500, 0, wakeup), Some(30));
    assert_eq!(stolen_ns(4_000, 70_130, 3_000, 0, wakeup), Some(130));
    assert_eq!(stolen_ns(5_000, 70_130, 3_000, 1, wakeup), Some(0), "the part on this CPU is not known");
}
