//! What a reader gets are the frames that were written.

use proptest::prelude::*;

use super::{tests::header, *};
use crate::{
    timeline::{
        event::TaskInfo,
        testing::{EventStream, task},
    },
    why::testing::TestNames,
};

/// Keeps the frames, and encodes them.
#[derive(Default)]
struct Kept {
    encoder: Encoder,
    frames: Vec<String>,
}

impl FrameSink for Kept {
    fn frame(&mut self, frame: &Frame<'_>) -> std::io::Result<()> {
        self.frames.push(format!("{frame:?}"));
        self.encoder.frame(frame)
    }

    fn end_segment(&mut self) -> std::io::Result<()> {
        self.encoder.end_segment()
    }
}

proptest! {
    /// A view that shows the frames while they are written shows the same as one that reads them later.
    #[test]
    fn a_reader_gets_the_frames_that_were_written(
        waits in prop::collection::vec((0u32..4, 0u64..1_000_000, 1u32..6, prop::option::of(0u64..3), any::<bool>()), 0..80),
        has_warm_up in any::<bool>(),
    ) {
        let (mut recorder, mut kept) = (Recorder::default(), Kept::default());
        recorder.begin(Header { has_warm_up, ..header() }, &mut kept).unwrap();
        let warmed_up_at = if has_warm_up { waits.len() / 2 } else { usize::MAX };
        let mut at_ns = 0;
        for (n, (cpu, latency_ns, tid, cgroup_id, is_last)) in waits.into_iter().enumerate() {
            if n == warmed_up_at {
                recorder.warmed_up(&mut kept).unwrap();
            }
            let mut stream = EventStream::default();
            stream.end_wait(cpu, (at_ns, at_ns + latency_ns), TaskInfo { cgroup_id, ..task(tid, "task") });
            at_ns += latency_ns;
            recorder.set_unix_offset(i64::from(tid), &mut kept).unwrap();
            for event in &stream.events {
                recorder.event(event, &TestNames, &mut kept).unwrap();
            }
            if is_last {
                recorder.reading(&Report { duration_ns: at_ns, ..Report::default() }, &mut kept).unwrap();
            }
        }
        recorder.end(&Report { duration_ns: at_ns, ..Report::default() }, &mut kept).unwrap();
        let mut recording = Recording::open(kept.encoder.bytes()).unwrap().strict(true);
        let mut read = vec![format!("{:?}", Frame::Header(Box::new(recording.header().clone())))];
        while let Some(frame) = recording.frame().unwrap() {
            read.push(format!("{frame:?}"));
        }
        prop_assert_eq!(read, kept.frames);
    }
}
