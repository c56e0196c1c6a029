//! A switch that is written without its event is written as with it.

use proptest::prelude::*;
use wakelat_common::{
    Class, record_bytes,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
    timeline::{
        IDLE_STATE_UNKNOWN, InterruptRecord, NO_WAIT, SwitchRecord, SwitchRecordFull, UNSEEN_UNKNOWN, kind, source,
    },
};

use super::{tests::header, *};
use crate::{timeline::decode::Decoder, why::testing::TestNames};

/// What makes the next record.
#[derive(Clone, Debug)]
struct Step {
    cpu: u32,
    next_pid: u32,
    /// The task has changed since the last record.
    changed: bool,
    class: u8,
    prev_state: u8,
    flags: u8,
    waker_pid: u32,
    delivery_ns: u64,
    wait: [u64; 3],
    other_cpu: u32,
    after_ns: u64,
    /// What comes before the record.
    before: Before,
}

#[derive(Clone, Debug)]
enum Before {
    Nothing,
    LostRecords,
    Interrupt,
    Reading,
    ClockChange,
}

fn a_step() -> impl Strategy<Value = Step> {
    let usually = |value: u64| prop_oneof![18 => Just(value), 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let tasks = (0u32..2, 0u32..6, prop::bool::weighted(0.05), 0u8..5);
    let wait = (
        prop_oneof![3 => Just(NO_WAIT), 6 => Just(Class::Wakeup as u8), 1 => Just(Class::Preempted as u8), 1 => Just(Class::New as u8)],
        prop_oneof![8 => Just(0u8), 1 => 0u8..128],
        prop_oneof![0u32..6, Just(900), Just(901)],
        prop_oneof![4 => 0u64..5_000, 1 => Just(DELIVERY_UNKNOWN)],
        [usually(2_000), usually(0), usually(0)],
        prop_oneof![8 => Just(0u32), 1 => Just(CPU_UNKNOWN), 1 => 0u32..3],
    );
    let before = prop_oneof![
        40 => Just(Before::Nothing),
        1 => Just(Before::LostRecords),
        2 => Just(Before::Interrupt),
        1 => Just(Before::Reading),
        1 => Just(Before::ClockChange),
    ];
    (tasks, wait, 0u64..100_000, before).prop_map(
        |(
            (cpu, next_pid, changed, prev_state),
            (class, flags, waker_pid, delivery_ns, wait, other_cpu),
            after_ns,
            before,
        )| Step {
            cpu,
            next_pid,
            changed,
            class,
            prev_state,
            flags,
            waker_pid,
            delivery_ns,
            wait,
            other_cpu,
            after_ns,
            before,
        },
    )
}

/// The programs of a machine with two CPUs: what they have sent.
#[derive(Default)]
struct Programs {
    now_ns: u64,
    lost: [u32; 2],
    /// The task that the last record of each CPU switched to.
    current: [Option<SwitchRecord>; 2],
}

impl Programs {
    fn switch(&mut self, step: &Step) -> Vec<u8> {
        let (cpu, pid) = (step.cpu as usize, step.next_pid);
        let current = self.current[cpu];
        let prev_pid = current.map_or(0, |current| current.pid);
        let mut comm = [0; 16];
        comm[..2].copy_from_slice(&[b'a' + pid as u8, b'0' + u8::from(step.changed)]);
        let full = current.is_none() || step.changed;
        let switch = SwitchRecord {
            kind: if full { kind::SWITCH_FULL } else { kind::SWITCH },
            class: step.class,
            preempted_sleeping: u8::from(step.other_cpu == 1),
            cpu: step.cpu,
            at_ns: self.now_ns,
            lost: self.lost[cpu],
            // Not every number is a state.
            prev_state: step.prev_state,
            flags: step.flags,
            idle_state: if prev_pid == 0 { 1 } else { IDLE_STATE_UNKNOWN },
            prev_pid,
            pid,
            tgid: pid / 2,
            prio: 120 - pid as i32,
            wait_cpu: step.cpu,
            waker_cpu: step.other_cpu,
            waker_pid: step.waker_pid,
            prev_cpu: step.other_cpu,
            latency_ns: step.wait[0],
            delivery_ns: step.delivery_ns,
            throttled_ns: step.wait[1],
            stolen_ns: step.wait[2],
            cgroup_id: u64::from(pid % 3),
            comm,
            ..SwitchRecord::default()
        };
        self.current[cpu] = Some(switch);
        if !full {
            return record_bytes::bytes(&switch).to_vec();
        }
        let full = SwitchRecordFull {
            switch,
            prev_tgid: prev_pid / 2,
            unseen: if current.is_none() { UNSEEN_UNKNOWN } else { 0 },
            prev_cgroup_id: u64::from(prev_pid % 3),
            prev_comm: [b'x'; 16],
            ..SwitchRecordFull::default()
        };
        record_bytes::bytes(&full).to_vec()
    }

    fn interrupt(&self, cpu: u32) -> Vec<u8> {
        let interrupt = InterruptRecord {
            kind: kind::INTERRUPT,
            source: source::SOFTIRQ,
            cpu,
            lost: self.lost[cpu as usize],
            from_ns: self.now_ns,
            to_ns: self.now_ns,
            ..InterruptRecord::default()
        };
        record_bytes::bytes(&interrupt).to_vec()
    }
}

/// The recording of these steps, and how many switches were written without their events.
fn recorded(steps: &[Step], without_events: bool) -> (Vec<u8>, usize) {
    let (mut recorder, mut encoder, mut decoder) = (Recorder::default(), Encoder::default(), Decoder::default());
    let (mut programs, mut unix_offset_ns, mut known) = (Programs::default(), 0, 0);
    recorder.begin(header(), &mut encoder).unwrap();
    for step in steps {
        programs.now_ns += step.after_ns;
        let mut records = Vec::new();
        match step.before {
            Before::Nothing => {}
            Before::LostRecords => programs.lost[step.cpu as usize] += 3,
            Before::Interrupt => records.push(programs.interrupt(step.cpu)),
            Before::Reading => recorder.reading(&Report::default(), &mut encoder).unwrap(),
            Before::ClockChange => unix_offset_ns += 1,
        }
        records.push(programs.switch(step));
        for record in records {
            let offered = without_events
                && decoder.offer_switch(&record, |switch| recorder.known_switch(switch, unix_offset_ns, &mut encoder));
            if offered {
                known += 1;
            } else if let Ok(event) = decoder.decode(&record) {
                recorder.set_unix_offset(unix_offset_ns, &mut encoder).unwrap();
                recorder.event(&event, &TestNames, &mut encoder).unwrap();
            }
        }
    }
    recorder.end(&Report::default(), &mut encoder).unwrap();
    (encoder.bytes().to_vec(), known)
}

proptest! {
    #[test]
    fn a_switch_between_known_tasks_is_written_as_its_event_is(steps in prop::collection::vec(a_step(), 0..300)) {
        prop_assert_eq!(recorded(&steps, true).0, recorded(&steps, false).0);
    }
}

#[test]
fn tasks_in_turn_need_no_events_but_for_the_first_ones() {
    let step = |turn: u32| Step {
        cpu: 0,
        next_pid: turn % 3,
        changed: false,
        class: if turn.is_multiple_of(3) { NO_WAIT } else { Class::Wakeup as u8 },
        prev_state: 2,
        flags: 0,
        waker_pid: (turn + 2) % 3,
        delivery_ns: 100,
        wait: [u64::from(turn), 0, 0],
        other_cpu: 0,
        after_ns: 1_000,
        before: if turn == 5_000 { Before::Reading } else { Before::Nothing },
    };
    let steps: Vec<Step> = (0..10_000).map(step).collect();
    let (bytes, known) = recorded(&steps, true);
    assert_eq!(bytes, recorded(&steps, false).0);
    // Each of the segments, which are of several blocks, begins with what it does not know.
    assert!(known > 9_950, "{known}");
}
