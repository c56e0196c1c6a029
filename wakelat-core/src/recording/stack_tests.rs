//! The stacks of recordings.

use std::cell::Cell;

use super::{tests::header, *};
use crate::{
    files::FileIds,
    timeline::{
        event::EventKind,
        stack_event::{Role, StackEvent, StackId},
        stack_frames::{NoSymbols, Symbolize},
    },
};

/// Names each stack after its process and ID, and counts how often it is asked.
#[derive(Default)]
struct Numbered(Cell<usize>);

impl Symbolize for Numbered {
    fn kernel(&self, trace: StackId) -> StackFrames {
        self.0.set(self.0.get() + 1);
        StackFrames::Named(vec![format!("kernel {trace:?}"), "__schedule".to_owned()])
    }

    fn user(&self, pid: u32, trace: StackId) -> StackFrames {
        self.0.set(self.0.get() + 1);
        StackFrames::Unsymbolized(vec![format!("{pid} {trace:?}")], NoSymbols::ProcessExited)
    }
}

fn stack(at_ns: u64, by_pid: u32, kernel: StackId, user: StackId) -> StackEvent {
    StackEvent { at_ns, role: Role::Waker, tid: 7, by_tid: by_pid, by_pid, kernel, user }
}

fn with_stacks() -> Header {
    Header { more: MoreEvents { waker_stacks: true, ..MoreEvents::default() }, ..header() }
}

/// A recording of these stacks, with a reading after each of `segments`.
fn recorded(segments: &[&[StackEvent]], code: &dyn Symbolize) -> Vec<u8> {
    let (mut file, mut recorder, mut seq) = (Encoder::default(), Recorder::default(), 0);
    recorder.begin(with_stacks(), &mut file).unwrap();
    for segment in segments {
        for stack in *segment {
            seq += 1;
            recorder.stacks(stack, code, &mut file).unwrap();
            let event = Event { cpu: 0, seq, kind: EventKind::Stack(*stack) };
            recorder.event(&event, &RecordedNames::default(), &mut file).unwrap();
        }
        let counts = StackCounts { attempts: segment.len() as u64, ..StackCounts::default() };
        recorder.stack_counts(&counts, &mut file).unwrap();
        recorder.reading(&Report { duration_ns: u64::from(seq), ..Report::default() }, &mut file).unwrap();
    }
    recorder.end(&Report::default(), &mut file).unwrap();
    file.bytes().to_vec()
}

/// What a reader knows of the stacks at the end, and the events.
fn read(file: &[u8]) -> (RecordedStacks, Vec<StackEvent>) {
    let (mut recording, mut stacks, mut events) =
        (Recording::open(file).unwrap().strict(true), RecordedStacks::default(), Vec::new());
    while let Some(frame) = recording.frame().unwrap() {
        stacks.learn(&frame);
        if let Frame::Event(event) = &frame
            && let EventKind::Stack(stack) = event.kind
        {
            events.push(stack);
        }
    }
    (stacks, events)
}

#[test]
fn a_reader_knows_the_functions_on_each_stack() {
    let (id, missing) = (StackId::Id, StackId::Missing);
    let events = [stack(1, 5, id(3), id(3)), stack(2, 6, id(3), id(3)), stack(3, 6, missing, StackId::MapFull)];
    let code = Numbered::default();
    let file = recorded(&[&events[..2], &events[2..]], &code);
    assert_eq!(code.0.get(), 3, "each stack is symbolized once");
    let (mut stacks, read) = read(&file);
    assert_eq!(read, events);
    for stack in &events[..2] {
        assert_eq!(stacks.kernel(stack.kernel), code.kernel(stack.kernel));
        assert_eq!(stacks.user(stack.by_pid, stack.user), code.user(stack.by_pid, stack.user));
    }
    assert_eq!(stacks.kernel(missing), StackFrames::Missing(missing));
    assert_eq!(stacks.user(6, StackId::MapFull), StackFrames::Missing(StackId::MapFull));
    // It is not in the file.
    assert_eq!(stacks.user(7, id(3)), StackFrames::Missing(missing));
    assert_eq!(stacks.counts().attempts, 3);
    assert_eq!(stacks.counts(), StackCounts::default(), "each count is of one window");
}

#[test]
fn each_segment_has_the_functions_that_it_needs() {
    let event = stack(1, 5, StackId::Id(1), StackId::Missing);
    let code = Numbered::default();
    recorded(&[&[event, event], &[event]], &code);
    assert_eq!(code.0.get(), 2, "once for each segment");
}

#[test]
fn names_of_functions_have_room_in_a_frame_however_long_they_are() {
    struct Long(StackFrames);
    impl Symbolize for Long {
        fn kernel(&self, _: StackId) -> StackFrames {
            self.0.clone()
        }

        fn user(&self, _: u32, _: StackId) -> StackFrames {
            self.0.clone()
        }
    }
    let names = vec!["ß".repeat(40_000); 1_000];
    for long in [StackFrames::Named(names.clone()), StackFrames::Unsymbolized(names.clone(), NoSymbols::Restricted)] {
        let event = stack(1, 5, StackId::Id(1), StackId::Id(2));
        let (stacks, _) = read(&recorded(&[&[event]], &Long(long)));
        for shown in [stacks.kernel(event.kernel), stacks.user(5, event.user)] {
            assert_eq!(shown.names().len(), wakelat_common::stack::DEPTH);
            assert!(shown.names().iter().all(|name| name.starts_with("ßß") && name.ends_with("ß…")), "{shown:?}");
        }
    }
}

#[test]
fn stacks_of_several_recordings_are_told_apart() {
    let event = stack(1, 5, StackId::Id(1), StackId::Id(2));
    let files = [recorded(&[&[event]], &Numbered::default()), recorded(&[&[event]], &Other)];
    let recordings = files.iter().map(|file| Recording::open(&file[..]).unwrap()).collect();
    let (mut several, mut stacks, mut read) =
        (Recordings::new(recordings, FrameOrder::ByTime), RecordedStacks::default(), Vec::new());
    while let Some(frame) = several.frame().unwrap() {
        stacks.learn(&frame);
        if let Frame::Event(event) = &frame
            && let EventKind::Stack(stack) = event.kind
        {
            read.push((stack.by_pid, stacks.kernel(stack.kernel), stacks.user(stack.by_pid, stack.user)));
        }
    }
    let first = FileIds::new(0).tid(5);
    let (mut of_first, mut of_second): (Vec<_>, Vec<_>) = read.into_iter().partition(|(pid, ..)| *pid == first);
    let code = Numbered::default();
    let (_, kernel, user) = of_first.pop().unwrap();
    assert_eq!((kernel, user), (code.kernel(event.kernel), code.user(5, event.user)));
    let (_, kernel, user) = of_second.pop().unwrap();
    assert_eq!((kernel, user), (Other.kernel(event.kernel), Other.user(5, event.user)));
    assert_eq!(stacks.counts().attempts, 2);
}

/// Names all stacks the same.
struct Other;

impl Symbolize for Other {
    fn kernel(&self, _: StackId) -> StackFrames {
        StackFrames::Named(vec!["other".to_owned()])
    }

    fn user(&self, _: u32, _: StackId) -> StackFrames {
        StackFrames::Named(vec!["other user".to_owned()])
    }
}

#[test]
fn functions_beyond_the_memory_for_them_are_reported_as_without_room() {
    let mut stacks = RecordedStacks::default();
    let functions = StackFrames::Named(vec!["x".repeat(1 << 20); 60]);
    let learn = |stacks: &mut RecordedStacks, id| {
        stacks.learn(&Frame::Stack { process: None, id, functions: Cow::Borrowed(&functions) });
    };
    // The same stack again takes no more.
    (0..20).for_each(|_| learn(&mut stacks, 0));
    (1..20).for_each(|id| learn(&mut stacks, id));
    let known = (0..20).filter(|id| stacks.kernel(StackId::Id(*id)) == functions).count();
    assert_eq!(known, 4);
    assert_eq!(stacks.kernel(StackId::Id(19)), StackFrames::Missing(StackId::MapFull));
}
