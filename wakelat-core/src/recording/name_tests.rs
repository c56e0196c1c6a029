//! Names of threads whose IDs are reused while a recording is made.

use std::cell::Cell;

use wakelat_common::{Class, pending_wait::PrevState};

use super::{tests::header, *};
use crate::{
    aggregate::key::Names,
    render::testing,
    timeline::{
        event::{EventKind, SwitchEvent},
        testing::{EventStream, idle, task},
    },
    wait::ThreadNamespace,
};

/// A machine on which a thread id is given to one task after another, the number of lookups of namespaces, and the
/// namespaces that were read before the run.
#[derive(Default)]
struct Reused(Cell<Option<Namespace>>, Cell<u32>, Vec<ThreadNamespace>);

impl Names for Reused {
    fn cgroup(&self, _: u64) -> String {
        String::new()
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        (tid == 77).then(|| Comm::new(if self.0.get().is_some() { b"inside" } else { b"outside" }))
    }

    fn namespace(&self, _: u32) -> Option<Namespace> {
        self.1.update(|lookups| lookups + 1);
        self.0.get()
    }

    fn namespaces_before_run(&self) -> &[ThreadNamespace] {
        &self.2
    }

    fn function(&self, _: u64) -> Option<String> {
        None
    }
}

/// Records waits of thread 5, each woken by thread 77, and returns what a reader knows about both after
/// each wait.
fn known_after_each_wait(
    reused: &Reused,
    owners: &[(Option<Namespace>, &[SwitchEvent])],
) -> Vec<(Option<Namespace>, Option<Comm>)> {
    let (mut recorder, mut file) = (Recorder::default(), Encoder::default());
    recorder.begin(header(), &mut file).unwrap();
    for (namespace, switches) in owners {
        reused.0.set(*namespace);
        for switch in *switches {
            let event = Event { cpu: 0, seq: 1, kind: EventKind::Switch(Box::new(switch.clone())) };
            recorder.event(&event, reused, &mut file).unwrap();
        }
    }
    recorder.end(&testing::report(Vec::new()), &mut file).unwrap();
    let (mut recording, mut names, mut known) =
        (Recording::open(file.bytes()).unwrap(), RecordedNames::default(), Vec::new());
    while let Some(frame) = recording.frame().unwrap() {
        names.learn(&frame);
        if let Frame::Event(event) = frame
            && let EventKind::Switch(switch) = &event.kind
            && switch.ended_wait.is_some()
        {
            known.push((names.namespace(5), names.comm(77)));
        }
    }
    known
}

/// Thread 5 ends a wait.
fn waits(class: Class) -> SwitchEvent {
    let mut stream = EventStream::default();
    let waited = stream.end_wait(0, (10, 20), task(5, "waits"));
    (waited.wait.class, waited.wait.waker_tid) = (class, Some(77));
    match stream.events.remove(0).kind {
        EventKind::Switch(switch) => *switch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_segment_has_the_namespace_that_was_looked_up_once() {
    let (mut recorder, mut file, names) = (Recorder::default(), Encoder::default(), Reused::default());
    recorder.begin(header(), &mut file).unwrap();
    for _ in 0..3 {
        let event = Event { cpu: 0, seq: 1, kind: EventKind::Switch(Box::new(waits(Class::Wakeup))) };
        recorder.event(&event, &names, &mut file).unwrap();
        recorder.reading(&testing::report(Vec::new()), &mut file).unwrap();
    }
    recorder.end(&testing::report(Vec::new()), &mut file).unwrap();
    let (mut recording, mut namespaces) = (Recording::open(file.bytes()).unwrap(), 0);
    while let Some(frame) = recording.frame().unwrap() {
        namespaces += u32::from(matches!(frame, Frame::Namespace { .. }));
    }
    assert_eq!((namespaces, names.1.get()), (3, 1));
}

/// The number of lookups if each of 200 threads waits once: two processes of 100 threads in this namespace, of which
/// these were read before the run.
fn lookups_of_many_threads(namespace: Option<Namespace>, before_run: Vec<ThreadNamespace>) -> u32 {
    let names = Reused(Cell::new(namespace), Cell::new(0), before_run);
    let (mut recorder, mut file) = (Recorder::default(), Encoder::default());
    recorder.begin(header(), &mut file).unwrap();
    for tid in 1_000..1_200 {
        let mut switch = waits(Class::Wakeup);
        (switch.next.tid, switch.next.pid) = (tid, tid / 100 * 100);
        let event = Event { cpu: 0, seq: 1, kind: EventKind::Switch(Box::new(switch)) };
        recorder.event(&event, &names, &mut file).unwrap();
    }
    names.1.get()
}

#[test]
fn one_lookup_is_enough_for_a_process_that_is_in_no_nested_namespace() {
    assert_eq!(lookups_of_many_threads(None, Vec::new()), 2);
    assert_eq!(lookups_of_many_threads(Some(Namespace { pid_ns: Some(1), tid: 10 }), Vec::new()), 200);
}

#[test]
fn threads_that_were_read_before_the_run_need_no_lookup() {
    let namespace = Namespace { pid_ns: Some(1), tid: 10 };
    let of_process = |tid: u32| ThreadNamespace { tid, pid: tid / 100 * 100, namespace };
    assert_eq!(lookups_of_many_threads(Some(namespace), (1_000..1_200).map(of_process).collect()), 0);
    // The TIDs of the second process belonged to another one then.
    let other = |tid: u32| ThreadNamespace { tid, pid: 1_000, namespace };
    assert_eq!(lookups_of_many_threads(Some(namespace), (1_000..1_200).map(other).collect()), 100);
}

#[test]
fn the_tid_of_a_thread_that_was_read_before_the_run_can_be_reused() {
    let of = |tid| Some(Namespace { pid_ns: Some(1), tid });
    let before_run = vec![ThreadNamespace { tid: 5, pid: 5, namespace: of(10).unwrap() }];
    let reused = Reused(Cell::default(), Cell::default(), before_run);
    let owners: [(Option<Namespace>, &[SwitchEvent]); 2] =
        [(of(20), &[waits(Class::Preempted)]), (of(30), &[waits(Class::New)])];
    let known: Vec<_> = known_after_each_wait(&reused, &owners).into_iter().map(|(namespace, _)| namespace).collect();
    assert_eq!((known, reused.1.get()), (vec![of(10), of(30)], 1));
}

#[test]
fn names_of_a_reused_tid_are_looked_up_again() {
    let of = |pid_ns, tid| Some(Namespace { pid_ns: Some(pid_ns), tid });
    let dies = |tid: u32| SwitchEvent {
        prev: task(tid, "dies"),
        next: idle(),
        ended_wait: None,
        prev_state: PrevState::Dead,
        ..waits(Class::New)
    };
    let (inside, outside) = (Some(Comm::new(b"inside")), Some(Comm::new(b"outside")));
    let owners: [(Option<Namespace>, &[SwitchEvent]); 3] = [
        (of(1, 10), &[waits(Class::Wakeup), waits(Class::Wakeup), dies(77), dies(5)]),
        (None, &[waits(Class::Wakeup), dies(5)]),
        (of(3, 30), &[waits(Class::Preempted)]),
    ];
    let known = known_after_each_wait(&Reused::default(), &owners);
    assert_eq!(known, [(of(1, 10), inside), (of(1, 10), inside), (None, outside), (of(3, 30), outside)]);
    // The exit of the first owner was not seen.
    let owners: [(Option<Namespace>, &[SwitchEvent]); 2] =
        [(of(1, 10), &[waits(Class::Wakeup)]), (None, &[waits(Class::New)])];
    let known = known_after_each_wait(&Reused::default(), &owners);
    assert_eq!(known, [(of(1, 10), inside), (None, inside)]);
}
