//! Records of what happens on each CPU to events: where the kernel's words become the user's. Never panics, whatever the
//! bytes.

use std::collections::HashMap;

use bytes::Buf;
use wakelat_common::{
    Class, Sample,
    timeline::{self, IDLE_STATE_UNKNOWN, NO_WAIT, flag, kind, leaving_of, source},
};

use super::event::{Event, Moved, Noise, Occupant, Source, Spawn, Turn, Waited, What, Woken, Work};
use crate::{
    decode::{DecodeError, expect_length, known_cgroup, known_cpu, name, sample, wait},
    wait::Comm,
};

/// Decodes records, and counts each CPU's: a record itself carries how many were lost before it.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    decoded: HashMap<u32, u32>,
}

impl Decoder {
    /// Decodes one record, in the machine's byte order.
    ///
    /// # Errors
    /// Where it is not one: too short, too long, or of a kind, class, source or end that is not known.
    pub fn decode(&mut self, mut record: &[u8]) -> Result<Event, DecodeError> {
        let kind = match record {
            [kind, ..] => *kind,
            [] => return Err(DecodeError::Length { found: 0, expected: size_of::<timeline::Turn>() }),
        };
        let expected = match kind {
            kind::TURN => size_of::<timeline::Turn>(),
            kind::NOISE => size_of::<timeline::Noise>(),
            kind::MOVED => size_of::<timeline::Moved>(),
            kind::WOKEN => size_of::<timeline::Woken>(),
            kind::WORK => size_of::<timeline::Work>(),
            kind::SPAWN => size_of::<timeline::Spawn>(),
            other => return Err(DecodeError::Kind(other)),
        };
        expect_length(record, expected)?;
        let (cpu, lost, what) = match kind {
            kind::TURN => turn(&mut record)?,
            kind::NOISE => noise(&mut record)?,
            kind::MOVED => moved(&mut record),
            kind::WORK => work(&mut record),
            kind::SPAWN => spawn(&mut record),
            _ => woken(&mut record)?,
        };
        let decoded = self.decoded.entry(cpu).or_default();
        *decoded = decoded.wrapping_add(1);
        Ok(Event { cpu, seq: decoded.wrapping_add(lost), what })
    }
}

/// What each kind takes: the CPU, its records lost so far, and what happened.
type Told = (u32, u32, What);

fn turn(record: &mut &[u8]) -> Result<Told, DecodeError> {
    let sample = sample(record);
    let lost = record.get_u32_ne();
    let [wait_cpu, waker_cpu] = [record.get_u32_ne(), record.get_u32_ne()].map(known_cpu);
    let leaving = record.get_u8();
    let leaving = leaving_of(leaving).ok_or(DecodeError::Leaving(leaving))?;
    let flags = record.get_u8();
    let idle_state = record.get_u8();
    let moves = record.get_u8();
    let prev_tgid = record.get_u32_ne();
    let prev_policy = record.get_u32_ne();
    let prev_cgroup_id = record.get_u64_ne();
    let throttled_ns = record.get_u64_ne();
    let stolen_ns = record.get_u64_ne();
    let is = |flag| flags & flag != 0;
    let waited = if sample.class == NO_WAIT {
        None
    } else {
        let wait = wait(&sample)?;
        Some(Waited {
            wait,
            cpu: wait_cpu,
            waker_cpu: if wait.class == Class::Wakeup { waker_cpu } else { None },
            remote: is(flag::REMOTE),
            moves,
            throttled_ns: (!is(flag::THROTTLING_UNKNOWN)).then_some(throttled_ns),
            throttled_at_start: is(flag::THROTTLED_AT_START),
            stolen_ns,
        })
    };
    let turn = Turn {
        at_ns: sample.at_ns,
        prev: Occupant {
            tid: sample.prev_pid,
            pid: prev_tgid,
            comm: Comm::new(&sample.prev_comm),
            prio: sample.prev_prio,
            policy: prev_policy,
            cgroup_id: known_cgroup(prev_cgroup_id),
            wanted: is(flag::PREV_WANTED),
        },
        leaving,
        next: occupant(&sample, is(flag::NEXT_WANTED)),
        waited,
        idle_state: (idle_state != IDLE_STATE_UNKNOWN).then_some(idle_state),
        rt_throttled: is(flag::RT_THROTTLED),
    };
    Ok((sample.cpu, lost, What::Turn(Box::new(turn))))
}

/// The task that a sample is about.
fn occupant(sample: &Sample, wanted: bool) -> Occupant {
    Occupant {
        tid: sample.pid,
        pid: sample.tgid,
        comm: Comm::new(&sample.comm),
        prio: sample.prio,
        policy: sample.policy,
        cgroup_id: known_cgroup(sample.cgroup_id),
        wanted,
    }
}

fn noise(record: &mut &[u8]) -> Result<Told, DecodeError> {
    let _kind = record.get_u8();
    let source = record.get_u8();
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let number = record.get_u32_ne();
    let from_ns = record.get_u64_ne();
    let to_ns = record.get_u64_ne();
    let name = Comm::new(&name(record));
    let source = match source {
        source::IRQ => Source::Irq { number, name },
        source::VECTOR => Source::Vector(number),
        source::SOFTIRQ => Source::Softirq(number),
        other => return Err(DecodeError::Source(other)),
    };
    Ok((cpu, lost, What::Noise(Noise { source, from_ns, to_ns })))
}

fn moved(record: &mut &[u8]) -> Told {
    let _kind = record.get_u8();
    let waits = record.get_u8() != 0;
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let from_cpu = record.get_u32_ne();
    let to_cpu = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    (cpu, lost, What::Moved(Moved { at_ns, tid, comm, waits, from_cpu, to_cpu }))
}

fn work(record: &mut &[u8]) -> Told {
    let _kind_and_reserved = record.get_u32_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let function = Some(record.get_u64_ne()).filter(|function| *function != 0);
    (cpu, lost, What::Work(Work { at_ns, tid, function }))
}

fn spawn(record: &mut &[u8]) -> Told {
    let _kind = record.get_u8();
    let exec = record.get_u8() != 0;
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let child = record.get_u32_ne();
    let _reserved = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    (cpu, lost, What::Spawn(Spawn { at_ns, tid, comm, child: (!exec).then_some(child) }))
}

fn woken(record: &mut &[u8]) -> Result<Told, DecodeError> {
    let _kind = record.get_u8();
    let class = record.get_u8();
    let new = match Class::from_u8(class) {
        Some(Class::Wakeup) => false,
        Some(Class::New) => true,
        Some(Class::Preempted) | None => return Err(DecodeError::Class(class)),
    };
    let running = record.get_u8() != 0;
    let _reserved = record.get_u8();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let target_cpu = record.get_u32_ne();
    let waker_tid = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    Ok((cpu, lost, What::Woken(Woken { at_ns, tid, comm, new, running, target_cpu, waker_tid })))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::start::Leaving;

    use super::*;
    use crate::decode::tests::{a_sample, bytes as sample_bytes};

    /// The bytes of a switch, field by field, as C lays it out.
    fn turn_bytes(turn: &timeline::Turn) -> Vec<u8> {
        let mut bytes = sample_bytes(&turn.sample);
        for word in [turn.lost, turn.wait_cpu, turn.waker_cpu] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([turn.leaving, turn.flags, turn.idle_state, turn.moves]);
        bytes.extend(turn.prev_tgid.to_ne_bytes());
        bytes.extend(turn.prev_policy.to_ne_bytes());
        for long in [turn.prev_cgroup_id, turn.throttled_ns, turn.stolen_ns] {
            bytes.extend(long.to_ne_bytes());
        }
        bytes
    }

    fn a_turn() -> timeline::Turn {
        timeline::Turn {
            sample: Sample { kind: kind::TURN, ..a_sample() },
            lost: 20,
            wait_cpu: 3,
            waker_cpu: 2,
            leaving: 2,
            flags: flag::REMOTE | flag::NEXT_WANTED,
            idle_state: 4,
            moves: 5,
            prev_tgid: 6,
            prev_policy: 1,
            prev_cgroup_id: 7,
            throttled_ns: 8,
            stolen_ns: 9,
        }
    }

    /// The bytes of one of the shorter records: its first eight, and what follows.
    fn short(kind: u8, [first, second]: [u8; 2], words: [u32; 3], longs: [u64; 2], name: [u8; 16]) -> Vec<u8> {
        let mut bytes = vec![kind, first, second, 0];
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        longs.iter().for_each(|long| bytes.extend(long.to_ne_bytes()));
        bytes.extend(name);
        bytes
    }

    /// Two words as the machine has them in one.
    fn pair(first: u32, second: u32) -> u64 {
        let [a, b, c, d] = first.to_ne_bytes();
        let [e, f, g, h] = second.to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }

    const NAME: [u8; 16] = *b"eth0\0...........";

    #[test]
    fn every_field_of_a_switch_arrives() {
        let event = Decoder::default().decode(&turn_bytes(&a_turn())).unwrap();
        assert_eq!((event.cpu, event.seq), (1, 21));
        let What::Turn(turn) = event.what else { panic!("{event:?}") };
        assert_eq!(
            (turn.at_ns, turn.leaving, turn.idle_state, turn.rt_throttled),
            (2, Leaving::Asleep, Some(4), false)
        );
        let prev = turn.prev;
        assert_eq!((prev.tid, prev.pid, prev.prio, prev.policy), (9, 6, 120, 1));
        assert_eq!((prev.cgroup_id, prev.wanted, prev.comm), (Some(7), false, Comm::new(b"ran")));
        let next = turn.next;
        assert_eq!((next.tid, next.pid, next.prio, next.policy), (6, 7, -1, 6));
        assert_eq!((next.cgroup_id, next.wanted, next.comm), (Some(5), true, Comm::new(b"waits")));
        let waited = turn.waited.unwrap();
        assert_eq!((waited.wait.latency_ns, waited.wait.tid), (3, 6));
        assert_eq!((waited.cpu, waited.waker_cpu, waited.remote, waited.moves), (Some(3), Some(2), true, 5));
        assert_eq!((waited.throttled_ns, waited.throttled_at_start, waited.stolen_ns), (Some(8), false, 9));
    }

    #[test]
    fn a_switch_without_a_wait_still_has_its_tasks() {
        let mut without = a_turn();
        without.sample.class = NO_WAIT;
        without.idle_state = IDLE_STATE_UNKNOWN;
        without.flags = flag::RT_THROTTLED | flag::PREV_WANTED;
        let What::Turn(turn) = Decoder::default().decode(&turn_bytes(&without)).unwrap().what else { panic!() };
        assert_eq!((turn.waited, turn.idle_state, turn.rt_throttled), (None, None, true));
        assert_eq!((turn.prev.wanted, turn.next.wanted, turn.next.tid), (true, false, 6));
    }

    #[test]
    fn throttling_that_no_kernel_told_of_is_unknown() {
        let unknown = timeline::Turn { flags: flag::THROTTLING_UNKNOWN, waker_cpu: u32::MAX, ..a_turn() };
        let What::Turn(turn) = Decoder::default().decode(&turn_bytes(&unknown)).unwrap().what else { panic!() };
        let waited = turn.waited.unwrap();
        assert_eq!((waited.throttled_ns, waited.waker_cpu), (None, None));
    }

    #[test]
    fn every_field_of_an_interrupt_arrives() {
        let of = |source| short(kind::NOISE, [source, 0], [1, 0, 7], [10, 20], NAME);
        let source = |bytes: &[u8]| match Decoder::default().decode(bytes).unwrap().what {
            What::Noise(Noise { source, from_ns: 10, to_ns: 20 }) => source,
            other => panic!("{other:?}"),
        };
        assert_eq!(source(&of(source::IRQ)), Source::Irq { number: 7, name: Comm::new(b"eth0") });
        assert_eq!(source(&of(source::VECTOR)), Source::Vector(7));
        assert_eq!(source(&of(source::SOFTIRQ)), Source::Softirq(7));
        assert_eq!(Decoder::default().decode(&of(3)), Err(DecodeError::Source(3)));
    }

    #[test]
    fn every_field_of_a_move_and_of_a_wakeup_arrives() {
        let moved = short(kind::MOVED, [1, 0], [1, 0, 42], [10, pair(2, 3)], NAME);
        let comm = Comm::new(b"eth0");
        let expected = Moved { at_ns: 10, tid: 42, comm, waits: true, from_cpu: 2, to_cpu: 3 };
        assert_eq!(Decoder::default().decode(&moved).unwrap().what, What::Moved(expected));
        let woken = short(kind::WOKEN, [1, 1], [1, 0, 42], [10, pair(2, 3)], NAME);
        let expected = Woken { at_ns: 10, tid: 42, comm, new: true, running: true, target_cpu: 2, waker_tid: 3 };
        assert_eq!(Decoder::default().decode(&woken).unwrap().what, What::Woken(expected));
        let preempted = short(kind::WOKEN, [2, 1], [1, 0, 42], [10, 0], NAME);
        assert_eq!(Decoder::default().decode(&preempted), Err(DecodeError::Class(2)));
    }

    #[test]
    fn every_field_of_a_fork_and_of_an_exec_arrives() {
        let spawn = |exec, child| short(kind::SPAWN, [exec, 0], [1, 0, 42], [10, pair(child, 0)], NAME);
        let expected = |child| What::Spawn(Spawn { at_ns: 10, tid: 42, comm: Comm::new(b"eth0"), child });
        assert_eq!(Decoder::default().decode(&spawn(0, 43)).unwrap().what, expected(Some(43)));
        assert_eq!(Decoder::default().decode(&spawn(1, 0)).unwrap().what, expected(None));
    }

    #[test]
    fn every_field_of_a_work_arrives() {
        let bytes = |function| short(kind::WORK, [0, 0], [1, 0, 42], [10, function], NAME)[..32].to_vec();
        let expected = |function| What::Work(Work { at_ns: 10, tid: 42, function });
        let begins = bytes(0xffff_ffff_8100_0123);
        assert_eq!(Decoder::default().decode(&begins).unwrap().what, expected(Some(0xffff_ffff_8100_0123)));
        assert_eq!(Decoder::default().decode(&bytes(0)).unwrap().what, expected(None));
        let short = Decoder::default().decode(&begins[..31]);
        assert_eq!(short, Err(DecodeError::Length { found: 31, expected: 32 }));
    }

    #[test]
    fn a_lost_record_is_a_step_in_the_numbers_of_its_cpu_alone() {
        let mut decoder = Decoder::default();
        let mut seq = |cpu, lost| {
            decoder.decode(&short(kind::NOISE, [source::SOFTIRQ, 0], [cpu, lost, 0], [1, 2], NAME)).unwrap().seq
        };
        assert_eq!([seq(0, 0), seq(0, 0), seq(1, 0), seq(0, 3), seq(1, 0), seq(0, 3)], [1, 2, 1, 6, 2, 7]);
    }

    #[test]
    fn a_short_a_long_and_an_unknown_record_are_refused() {
        let good = turn_bytes(&a_turn());
        for length in 0..good.len() {
            let refused = Decoder::default().decode(&good[..length]);
            assert!(matches!(refused, Err(DecodeError::Length { found, .. }) if found == length), "{refused:?}");
        }
        let long = [good, vec![0]].concat();
        assert_eq!(Decoder::default().decode(&long), Err(DecodeError::Length { found: 153, expected: 152 }));
        assert_eq!(Decoder::default().decode(&[1, 0, 0]), Err(DecodeError::Kind(1)));
        let leaving = timeline::Turn { leaving: 4, ..a_turn() };
        assert_eq!(Decoder::default().decode(&turn_bytes(&leaving)), Err(DecodeError::Leaving(4)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_an_error(kind in 0u8..7, rest in prop::collection::vec(any::<u8>(), 0..160)) {
            let record = [&[kind][..], &rest].concat();
            let mut decoder = Decoder::default();
            _ = decoder.decode(&record);
            for length in [48, 152] {
                let mut record = record.clone();
                record.resize(length, 0);
                _ = decoder.decode(&record);
            }
        }
    }
}
