//! Traces, decoded again.

use std::collections::BTreeMap;

use prost::Message;

use super::{messages::SLICE_BEGIN, slices::THREAD_TRACKS, *};
use crate::{
    files::FileIds,
    report::LatencyFrom,
    timeline::testing::{EventStream, task},
    why::testing::{TestNames, stories},
};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

/// The packets of a recording of these events.
fn packets(events: &[Event], threshold_ns: u64) -> (Vec<TracePacket>, u64) {
    let header = Header { boottime_offset_ns: 1_000, ..Header::default() };
    let files = Files::default();
    let (mut writer, mut file) =
        (PerfettoWriter::new(LatencyFrom::Waking, &[&header], &files, threshold_ns), Vec::new());
    writer.begin(&header, &mut file).unwrap();
    events.iter().for_each(|event| writer.event(event, 5_000_000, &TestNames, &mut file).unwrap());
    let waits = writer.end(&mut file).unwrap();
    (Trace::decode(&file[..]).unwrap().packet, waits)
}

/// Begin, end, depth and name of each slice, in the order of their ends, by track.
fn slices_of(packets: &[TracePacket]) -> BTreeMap<u64, Vec<(u64, u64, usize, String)>> {
    let (mut open, mut slices) = (BTreeMap::<u64, Vec<(u64, String)>>::new(), BTreeMap::<u64, Vec<_>>::new());
    for packet in packets {
        let Some(PacketData::TrackEvent(event)) = &packet.data else { continue };
        let stack = open.entry(event.track_uuid).or_default();
        let at_ns = packet.timestamp.unwrap();
        if event.r#type == SLICE_BEGIN {
            stack.push((at_ns, event.name.clone().unwrap()));
        } else {
            let (from_ns, name) = stack.pop().expect("a slice");
            slices.entry(event.track_uuid).or_default().push((from_ns, at_ns, stack.len(), name));
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    slices
}

fn ftrace(packets: &[TracePacket]) -> impl Iterator<Item = (&FtraceEventBundle, &FtraceEvent)> {
    packets.iter().flat_map(|packet| match &packet.data {
        Some(PacketData::FtraceEvents(bundle)) => bundle.event.iter().map(|event| (bundle, event)).collect(),
        _ => Vec::new(),
    })
}

#[test]
fn each_wait_is_a_slice_whose_components_fill_it() {
    for (name, stream) in stories() {
        let (packets, exported) = packets(&stream.events, 0);
        let mut timeline = Timeline::new(LatencyFrom::Waking);
        let mut waits = Vec::new();
        for event in &stream.events {
            waits.extend(timeline.push(event).map(|breakdown| (breakdown.waiter.tid, breakdown.latency_ns)));
        }
        assert_eq!(exported, waits.len() as u64, "{name}");
        let slices = slices_of(&packets);
        let mut found = Vec::new();
        for (track, slices) in slices.iter().filter(|(track, _)| **track < CPU_TRACKS) {
            let mut components_ns = 0;
            for (from_ns, to_ns, depth, _) in slices {
                if *depth == 1 {
                    components_ns += to_ns - from_ns;
                } else {
                    assert_eq!(components_ns, to_ns - from_ns, "{name}");
                    found.push(((track - THREAD_TRACKS) as u32, to_ns - from_ns));
                    components_ns = 0;
                }
            }
        }
        waits.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, waits, "{name}");
    }
}

#[test]
fn only_waits_of_the_threshold_or_more_have_slices() {
    let events = &stories()["one_hog"].events;
    let (all, longest) = (packets(events, 0).1, packets(events, u64::MAX).1);
    assert!(all > 0 && longest == 0, "{all} {longest}");
    // Their wakeups and switches are there all the same.
    let count = |threshold_ns| ftrace(&packets(events, threshold_ns).0).count();
    assert_eq!(count(0), count(u64::MAX));
}

#[test]
fn every_switch_and_wakeup_is_an_event_at_its_time_by_boottime() {
    let mut stream = EventStream::default();
    stream.switch(1, 500, task(9, "hog"));
    stream.end_wait(1, (2_000, 7_000), task(5, "nginx"));
    let (packets, _) = packets(&stream.events, 0);
    let switches = ftrace(&packets).filter_map(|(bundle, event)| match &event.event {
        Some(Tracepoint::SchedSwitch(switch)) => Some((bundle.cpu, event.timestamp, switch.prev_pid, switch.next_pid)),
        _ => None,
    });
    let switches: Vec<_> = switches.collect();
    assert_eq!(switches.last(), Some(&(Some(1), Some(8_000), Some(9), Some(5))), "{switches:?}");
    let woken = ftrace(&packets).filter_map(|(_, event)| match &event.event {
        Some(Tracepoint::SchedWaking(waking)) => Some((event.timestamp, waking.pid)),
        _ => None,
    });
    assert_eq!(woken.collect::<Vec<_>>(), [(Some(3_000), Some(5))]);
    let clocks = packets.iter().find_map(|packet| match &packet.data {
        Some(PacketData::ClockSnapshot(snapshot)) => Some(snapshot.clocks.clone()),
        _ => None,
    });
    let clocks: BTreeMap<u32, u64> =
        clocks.unwrap().into_iter().map(|clock| (clock.clock_id, clock.timestamp)).collect();
    assert_eq!(clocks, BTreeMap::from([(MONOTONIC, 500), (BOOTTIME, 1_500), (REALTIME, 5_000_500)]));
}

#[test]
fn a_loss_is_marked_in_the_bundle_after_it() {
    let mut stream = EventStream::default();
    stream.switch(0, 100, task(1, "before"));
    stream.lose(0, 3);
    stream.switch(0, 200, task(2, "after"));
    let (packets, _) = packets(&stream.events, 0);
    let bundles = packets.iter().filter_map(|packet| match &packet.data {
        Some(PacketData::FtraceEvents(bundle)) => Some((bundle.event.len(), bundle.lost_events)),
        _ => None,
    });
    assert_eq!(bundles.collect::<Vec<_>>(), [(1, false), (1, true)]);
}

#[test]
fn a_thread_whose_process_is_unknown_is_not_one_of_the_idle_task() {
    let mut stream = EventStream::default();
    stream.switch(1, 500, task(9, "hog"));
    stream.end_wait(1, (2_000, 7_000), TaskInfo { pid: 0, ..task(5, "nginx") });
    let (packets, _) = packets(&stream.events, 0);
    let threads = packets.iter().flat_map(|packet| match &packet.data {
        Some(PacketData::ProcessTree(tree)) => tree.threads.clone(),
        _ => Vec::new(),
    });
    let threads: Vec<_> = threads.filter(|thread| thread.tid == 5).map(|thread| thread.tgid).collect();
    let tracks = packets.iter().filter_map(|packet| match &packet.data {
        Some(PacketData::TrackDescriptor(track)) => track.thread.as_ref().map(|thread| (thread.tid, thread.pid)),
        _ => None,
    });
    assert_eq!((threads, tracks.collect::<Vec<_>>()), (vec![5], vec![(Some(5), Some(5))]));
}

/// The process tree, and the names of the threads with tracks.
fn threads(packets: &[TracePacket]) -> (Vec<TreeThread>, Vec<(i64, String)>) {
    let trees = packets.iter().flat_map(|packet| match &packet.data {
        Some(PacketData::ProcessTree(tree)) => tree.threads.clone(),
        _ => Vec::new(),
    });
    let tracks = packets.iter().filter_map(|packet| match &packet.data {
        Some(PacketData::TrackDescriptor(track)) => track.thread.clone(),
        _ => None,
    });
    let name = |thread: messages::ThreadDescriptor| Some((thread.tid?, thread.thread_name?));
    (trees.collect(), tracks.filter_map(name).collect())
}

#[test]
fn the_same_thread_and_cpu_of_two_recordings_are_two_and_named_with_their_files() {
    let name = |file: &str| FileName { file: file.to_owned(), host: "host".to_owned() };
    let files = Files::new([name("a.wakelat"), name("b.wakelat")]);
    let mut header = Header { boottime_offset_ns: 1_000, ..Header::default() };
    header.machine.cpus_online = "0-1".to_owned();
    let mut writer = PerfettoWriter::new(LatencyFrom::Waking, &[&header, &header], &files, 0);
    let mut file = Vec::new();
    writer.begin(&header, &mut file).unwrap();
    // CPU 1, TIDs 5 and 9 of each, as a reader of several recordings passes them: with IDs of their files, and times since
    // 1970.
    const BEGIN: u64 = 1_795_000_000_000_000_000;
    for number in [0, 1] {
        let ids = FileIds::new(number);
        let mut stream = EventStream::default();
        let task = |tid, name: &str| {
            let own = task(tid, name);
            TaskInfo { tid: ids.tid(tid), pid: ids.tid(own.pid), ..own }
        };
        let later = BEGIN + 10_000 * number as u64;
        stream.switch(ids.number(1), later + 500, task(9, "hog"));
        stream.end_wait(ids.number(1), (later + 2_000, later + 7_000), task(5, "nginx"));
        // Each clock has been corrected since the begin of its recording.
        let unix_offset_ns = number as i64;
        stream.events.iter().for_each(|event| writer.event(event, unix_offset_ns, &TestNames, &mut file).unwrap());
    }
    let waits = writer.end(&mut file).unwrap();
    let cpus: Vec<_> = writer.cpus().map(|(name, from, to)| (name.file.as_str(), from, to)).collect();
    assert_eq!((waits, cpus), (2, vec![("a.wakelat", 0, 1), ("b.wakelat", 2, 3)]));
    let packets = Trace::decode(&file[..]).unwrap().packet;
    let second = FileIds::new(1);
    let (tree, tracks) = threads(&packets);
    let named = [(5, "nginx in a.wakelat"), (second.tid(5), "nginx in b.wakelat")];
    assert_eq!(tracks, named.map(|(tid, name)| (i64::from(tid), name.to_owned())));
    let in_tree = |tid: u32| tree.iter().find(|thread| thread.tid == signed(tid)).map(|thread| thread.name.as_str());
    assert_eq!(named.map(|(tid, _)| in_tree(tid)), named.map(|(_, name)| Some(name)));
    let switches: Vec<_> = ftrace(&packets)
        .filter_map(|(bundle, event)| match &event.event {
            Some(Tracepoint::SchedSwitch(switch)) if switch.next_comm.as_deref() == Some("nginx") => {
                Some((bundle.cpu, event.timestamp, switch.next_pid))
            }
            _ => None,
        })
        .collect();
    let expected = [(1, BEGIN + 7_000, 5), (3, BEGIN + 17_000, signed(second.tid(5)))];
    assert_eq!(switches, expected.map(|(cpu, at_ns, tid)| (Some(cpu), Some(at_ns), Some(tid))));
    let slices = slices_of(&packets);
    let track = |tid: u32| slices[&(THREAD_TRACKS | u64::from(tid))].last().map(|(from, to, ..)| (*from, *to));
    let waited = [0, 10_000].map(|later| Some((BEGIN + later + 2_000, BEGIN + later + 7_000)));
    assert_eq!([5, second.tid(5)].map(track), waited);
    // One relation of the clocks, so that no thread goes back in time: the trace's own is the wall clock.
    let clocks = packets.iter().filter_map(|packet| match &packet.data {
        Some(PacketData::ClockSnapshot(snapshot)) => {
            Some(snapshot.clocks.iter().map(|clock| clock.timestamp).collect())
        }
        _ => None,
    });
    assert_eq!(clocks.collect::<Vec<Vec<u64>>>(), [vec![BEGIN + 500; 3]]);
}
