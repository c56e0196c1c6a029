//! Tests what a replay shows of single frames.

use std::borrow::Cow;

use super::*;
use crate::{collect::TimelineSettings, config::Command, session::replay::config_of};
use wakelat_common::{Class, pending_wait::PrevState};
use wakelat_core::{
    aggregate::key::Names,
    timeline::event::{MigrationEvent, TaskInfo},
};

/// Keeps the threads and the numbers of the events that it gets, of switches those from a wanted thread.
#[derive(Default)]
struct Shown(Vec<(u32, u32)>);

impl View for Shown {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(TimelineSettings::OF_WAITS)
    }

    fn event(&mut self, event: &Event, _: i64, _: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        match &event.kind {
            EventKind::Migration(migration) => self.0.push((migration.tid, event.seq)),
            EventKind::Switch(switch) if switch.prev.wanted => self.0.push((switch.prev.tid, event.seq)),
            EventKind::Switch(_) => {}
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn report(&mut self, _: &Report, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// A view, and the configuration that `line` gives for a recording with this header.
fn config(line: &str, header: &Header) -> (Config, RecordedInput) {
    let parsed = crate::cli::parse(line.split(' ').map(Into::into)).unwrap();
    let Command::Why(config, _) = parsed.command else { panic!("{line}") };
    let input = config.input.clone().unwrap();
    (config_of(&[header], &config, &input).unwrap(), input)
}

/// The migrations of these threads that `wakelat why -i file` with these flags shows, with their numbers, if only
/// that of TID 7 was seen at a switch.
fn shown(flags: &str, migrations: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let header = Header { classes: Class::ALL.into(), ..Header::default() };
    let (config, input) = config(&format!("wakelat why -i file {flags}"), &header);
    let mut shown = Shown::default();
    let mut replay = Replay::new(&config, &input, &[&header], &mut shown);
    replay.wanted.insert(7, true);
    for (tid, seq) in migrations.iter().copied() {
        let (at_ns, comm) = (u64::from(seq), Comm::new(format!("task-{tid}").as_bytes()));
        let migration = MigrationEvent { at_ns, tid, comm, waiting: true, from_cpu: 0, to_cpu: 1 };
        let event = Event { cpu: 0, seq, kind: EventKind::Migration(migration) };
        replay.take(Frame::Event(Cow::Owned(event)), None, &mut Vec::new()).unwrap();
    }
    shown.0
}

#[test]
fn an_event_that_the_filter_leaves_out_is_not_a_lost_one() {
    // The fourth event was lost when the recording was made.
    assert_eq!(shown("--tid 7", &[(7, 1), (8, 2), (7, 3), (7, 5)]), [(7, 1), (7, 2), (7, 4)]);
}

#[test]
fn a_thread_without_a_switch_so_far_is_judged_by_its_id_and_name() {
    let both = [(8, 1), (9, 2)];
    for (flags, expected) in [
        ("-q", &both[..]),
        ("--cpus 0", &both[..]),
        ("--tid 8", &[(8, 1)]),
        ("--comm task-8", &[(8, 1)]),
        ("--comm task-8 --tid 9", &[]),
        // Unknown until a switch.
        ("--pid 8", &[]),
        ("--comm task-8 --prio 120", &[]),
    ] {
        assert_eq!(shown(flags, &both), expected, "{flags}");
    }
}

#[test]
fn no_task_is_wanted_at_a_switch_of_a_cpu_that_the_filter_leaves_out() {
    let header = Header { classes: Class::ALL.into(), ..Header::default() };
    let task =
        |tid| TaskInfo { tid, pid: tid, comm: Comm::new(b"task"), prio: 120, policy: 0, cgroup_id: None, wanted: true };
    for (flags, expected) in [("--cpus 1", vec![(7, 2)]), ("--cpus 0-1", vec![(7, 1), (7, 2)])] {
        let (config, input) = config(&format!("wakelat why -i file {flags}"), &header);
        let mut shown = Shown::default();
        let mut replay = Replay::new(&config, &input, &[&header], &mut shown);
        for cpu in [0, 1] {
            let switch = SwitchEvent {
                at_ns: 1_000,
                prev: task(7),
                unseen: None,
                prev_state: PrevState::Runnable,
                next: task(8),
                ended_wait: None,
                idle_state: None,
                rt_throttled: false,
            };
            let event = Event { cpu, seq: cpu + 1, kind: EventKind::Switch(Box::new(switch)) };
            replay.take(Frame::Event(Cow::Owned(event)), None, &mut Vec::new()).unwrap();
        }
        assert_eq!(shown.0, expected, "{flags}");
    }
}

#[test]
fn intervals_count_from_the_beginning_of_what_is_shown() {
    const MS: u64 = 1_000_000;
    let of = |begun, elapsed| next_end_ns(begun * MS, elapsed * MS, 1_000 * MS) / MS;
    assert_eq!([of(0, 1_000), of(12_500, 13_500), of(12_500, 14_700)], [2_000, 14_500, 15_500]);
    assert_eq!(next_end_ns(1, u64::MAX, 7), u64::MAX);
}
