use std::borrow::Cow;

use proptest::prelude::*;
use wakelat_common::sample::KernelCounts;

use super::*;
use crate::timeline::event::Event;
use crate::{
    recording::{
        Encoder, Frame, FrameSink, Header, MAX_FRAME_BYTES, Recording,
        byte_cursor::{ByteCursor, EventBytes},
        frame_reader::FrameReader,
    },
    timeline::{
        event::{
            DetailedWait, EventKind, InterruptEvent, InterruptSource, MigrationEvent, SwitchEvent, Unseen, WakeupEvent,
        },
        testing::{EventStream, task},
    },
    wait::{Comm, Wait},
};

/// Any number, small ones more often.
fn any_number() -> impl Strategy<Value = u64> {
    any::<u64>().prop_map(|bits| bits >> (bits % 64))
}

fn any_cpu() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..3, 1 => 126u32..260, 1 => any::<u32>()]
}

fn any_task() -> impl Strategy<Value = TaskInfo> {
    let tid = prop_oneof![3 => 0u32..4, 1 => 256u32..260, 1 => any::<u32>()];
    (tid, 0u32..2, 0usize..3, any::<bool>(), prop::option::of(0u64..3), any::<bool>()).prop_map(
        |(tid, pid, comm, is_deadline, cgroup_id, wanted)| {
            let comm = Comm::new([&b"nginx"[..], b"", b"fifteen-letters"][comm]);
            let prio = if is_deadline { -1 } else { 120 };
            TaskInfo { tid, pid, comm, prio, policy: 6 * u32::from(is_deadline), cgroup_id, wanted }
        },
    )
}

fn any_wait() -> impl Strategy<Value = DetailedWait> {
    let wait = (
        prop::sample::select(Class::ALL.to_vec()),
        any_number(),
        prop::option::of(any_number()),
        prop::option::of(any_cpu()),
        0u32..4,
        any::<bool>(),
        prop_oneof![Just(0u8), any::<u8>()],
    );
    let rest = (
        prop::option::of(any_cpu()),
        prop::option::of(any_cpu()),
        any::<bool>(),
        prop_oneof![Just(0u8), any::<u8>()],
        prop::option::of(any_number()),
        any::<bool>(),
        prop_oneof![Just(0u64), any_number()],
    );
    (wait, rest).prop_map(|(wait, rest)| {
        let (class, latency_ns, delivery_ns, prev_cpu, waker_tid, preempted_sleeping, sampling_shift) = wait;
        let (cpu, waker_cpu, remote, migrations, throttled_ns, throttled_at_start, stolen_ns) = rest;
        let waker_tid = delivery_ns.map(|_| waker_tid);
        let wait = Wait {
            class,
            latency_ns,
            delivery_ns,
            prev_cpu,
            waker_tid,
            kernel_counts: KernelCounts::of_preempted_sleeping(preempted_sleeping),
            sampling_shift,
            ..crate::render::testing::wait()
        };
        DetailedWait { wait, cpu, waker_cpu, remote, migrations, throttled_ns, throttled_at_start, stolen_ns }
    })
}

/// Gives a wait the tasks and the time of its switch.
fn of_switch(waited: DetailedWait, at_ns: u64, (prev, next): (&TaskInfo, &TaskInfo), cpu: u32) -> DetailedWait {
    let wait = Wait {
        at_ns,
        tid: next.tid,
        pid: next.pid,
        comm: next.comm,
        cgroup_id: next.cgroup_id,
        prio: next.prio,
        policy: next.policy,
        cpu,
        prev_tid: prev.tid,
        prev_comm: prev.comm,
        prev_prio: prev.prio,
        ..waited.wait
    };
    DetailedWait { wait, ..waited }
}

fn any_switch(cpu: u32) -> impl Strategy<Value = EventKind> {
    let unseen = (prop::option::of(any::<u32>()), prop::option::of(any_number()))
        .prop_map(|(switches, switched_in_ns)| Unseen { switches, switched_in_ns });
    let tasks = (any_task(), any_task(), prop::option::weighted(0.7, (any_wait(), prop::bool::weighted(0.9))));
    let rest = (prop::option::weighted(0.2, unseen), 0usize..4, prop::option::of(any::<u8>()), any::<bool>());
    (any_number(), tasks, rest).prop_map(move |(at_ns, (prev, next, waited), (unseen, state, idle_state, is_rt))| {
        let ended_wait = waited.map(
            |(waited, is_usual)| {
                if is_usual { of_switch(waited, at_ns, (&prev, &next), cpu) } else { waited }
            },
        );
        let (prev_state, rt_throttled) = (STATES[state], is_rt);
        let switch = SwitchEvent { at_ns, prev, unseen, prev_state, next, ended_wait, idle_state, rt_throttled };
        EventKind::Switch(Box::new(switch))
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    any_cpu().prop_flat_map(|cpu| {
        let source = prop_oneof![
            (any::<u32>(), "[a-z]{0,15}")
                .prop_map(|(number, name)| InterruptSource::Irq { number, name: Comm::new(name.as_bytes()) }),
            any::<u32>().prop_map(InterruptSource::Vector),
            (0u32..10).prop_map(InterruptSource::Softirq),
        ];
        let interrupt = (source, any_number(), any_number())
            .prop_map(|(source, from_ns, to_ns)| EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns }));
        let migration = (any_number(), any_cpu()).prop_map(|(at_ns, to_cpu)| {
            let comm = Comm::new(b"make");
            EventKind::Migration(MigrationEvent { at_ns, tid: 7, comm, waiting: true, from_cpu: 1, to_cpu })
        });
        let wakeup = (any_number(), any::<u32>(), any::<bool>()).prop_map(|(at_ns, tid, new)| {
            let comm = Comm::new(b"make");
            EventKind::Wakeup(WakeupEvent { at_ns, tid, comm, new, running: !new, target_cpu: 1, waker_tid: 7 })
        });
        let kind = prop_oneof![6 => any_switch(cpu), 2 => interrupt, 1 => migration, 1 => wakeup];
        (prop_oneof![3 => 1u32..4, 1 => any::<u32>()], kind).prop_map(move |(seq, kind)| Event { cpu, seq, kind })
    })
}

/// The events of a recording with these.
fn read_back(events: &[Event]) -> Vec<Event> {
    let mut file = Encoder::default();
    file.frame(&Frame::Header(Box::default())).unwrap();
    file.end_segment().unwrap();
    events.iter().for_each(|event| file.frame(&Frame::Event(Cow::Borrowed(event))).unwrap());
    file.frame(&Frame::End(Box::default())).unwrap();
    file.end_segment().unwrap();
    let (mut recording, mut read) = (Recording::open(file.bytes()).unwrap().strict(true), Vec::new());
    while let Some(frame) = recording.frame().unwrap() {
        if let Frame::Event(event) = frame {
            read.push(event.into_owned());
        }
    }
    assert_eq!(Header::default(), *recording.header());
    read
}

proptest! {
    #[test]
    fn every_event_is_read_as_it_was_written(events in prop::collection::vec(any_event(), 0..60)) {
        prop_assert_eq!(read_back(&events), events);
    }

    #[test]
    fn no_bytes_cause_a_panic(first in 0x40u8.., rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let (bytes, mut frames) = ([&[first][..], &rest].concat(), FrameReader::default());
        let mut at = 0;
        while let Some((_, length)) = frames.frame(&bytes[at..]) {
            prop_assert!(length > 0);
            at += length;
        }
    }
}

/// The switches of a CPU between some tasks, each with a wait.
fn switches(count: u64) -> Vec<Event> {
    let mut stream = EventStream::default();
    for n in 0..count {
        stream.end_wait(1, (n * 7_001, n * 7_001 + n % 900), task(100 + n as u32 % 50, "nginx"));
    }
    stream.events
}

#[test]
fn the_events_of_several_blocks_are_read() {
    let events = switches(40_000);
    let mut file = Encoder::default();
    events.iter().for_each(|event| file.frame(&Frame::Event(Cow::Borrowed(event))).unwrap());
    assert!(!file.bytes()[12..].is_empty(), "more than {MAX_FRAME_BYTES} bytes");
    assert_eq!(read_back(&events), events);
}

/// The bytes of these events, none of which is in postcard's encoding.
fn encoded(context: &mut EventContext, events: &[Event]) -> Vec<u8> {
    let mut bytes = EventBytes::default();
    let mut of = |event| {
        assert!(context.encode(event, &mut bytes), "{event:?}");
        bytes.as_slice().to_vec()
    };
    events.iter().flat_map(&mut of).collect()
}

#[test]
fn a_switch_to_a_known_task_takes_some_ten_bytes() {
    let events = switches(1_000);
    let bytes = encoded(&mut EventContext::default(), &events);
    assert!((8..16).contains(&(bytes.len() / events.len())), "{} bytes of {}", bytes.len(), events.len());
}

#[test]
fn the_longest_switch_is_written_whole() {
    let task = |tid| TaskInfo {
        tid,
        pid: u32::MAX,
        comm: Comm::new(b"fifteen-letters"),
        prio: i32::MIN,
        policy: u32::MAX,
        cgroup_id: Some(u64::MAX),
        wanted: true,
    };
    let (prev, next, at_ns, cpu) = (task(u32::MAX), task(u32::MAX - 1), 1 << 63, u32::MAX);
    let wait = Wait {
        class: Class::Wakeup,
        latency_ns: u64::MAX,
        delivery_ns: Some(u64::MAX),
        prev_cpu: Some(u32::MAX - 1),
        waker_tid: Some(u32::MAX - 2),
        kernel_counts: KernelCounts::Unknown,
        sampling_shift: u8::MAX,
        ..crate::render::testing::wait()
    };
    let waited = DetailedWait {
        wait,
        cpu: Some(u32::MAX - 1),
        waker_cpu: Some(u32::MAX - 1),
        remote: true,
        migrations: u8::MAX,
        throttled_ns: Some(u64::MAX - 1),
        throttled_at_start: true,
        stolen_ns: u64::MAX,
    };
    let switch = SwitchEvent {
        at_ns,
        prev,
        unseen: Some(Unseen { switches: Some(u32::MAX), switched_in_ns: Some(0) }),
        prev_state: PrevState::Dead,
        next,
        ended_wait: Some(of_switch(waited, at_ns, (&prev, &next), cpu)),
        idle_state: Some(u8::MAX),
        rt_throttled: true,
    };
    let event = Event { cpu, seq: u32::MAX, kind: EventKind::Switch(Box::new(switch)) };
    assert_eq!(encoded(&mut EventContext::default(), std::slice::from_ref(&event)).len(), 196);
    assert_eq!(read_back(std::slice::from_ref(&event)), [event]);
}

#[test]
fn what_a_reader_cannot_know_is_damage() {
    let mut context = EventContext::default();
    let events = switches(3);
    let mut bytes = encoded(&mut context, &events[..1]);
    let first = bytes.len();
    bytes.extend(encoded(&mut context, &events[1..]));
    let read = |bytes: &[u8]| EventContext::default().event(&mut ByteCursor(bytes));
    assert_eq!(read(&bytes).as_ref(), Some(&events[0]));
    // The second refers to the first.
    assert_eq!(read(&bytes[first..]), None);
    assert!((0..first).all(|length| read(&bytes[..length]).is_none()));
}
