//! The frames of saved input, decoded in a thread of their own: on another CPU, decoding costs no time.

use std::{
    panic::resume_unwind,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    vec,
};

use anyhow::{Context as _, Result};

use super::saved_frames::SavedFrames;
use crate::config::RecordedInput;
use wakelat_core::recording::{Frame, Position};

/// Most frames that are sent at once.
const BATCH: usize = 512;

/// Most batches that wait to be shown: some MB with those that are being filled and emptied.
const BATCHES: usize = 4;

/// Saved input that is decoded in another thread, frame by frame.
pub struct DecodedAhead {
    batches: Receiver<Batch>,
    frames: vec::IntoIter<PlacedFrame>,
    /// What comes after `frames`, if not the next batch.
    end: Option<Result<()>>,
    decoder: Option<JoinHandle<()>>,
}

/// A frame, and for a reading of several recordings how far they have been read.
pub type PlacedFrame = (Frame<'static>, Option<Position>);

/// Successive frames, and what comes after them, if not the next batch.
struct Batch {
    frames: Vec<PlacedFrame>,
    end: Option<Result<()>>,
}

impl DecodedAhead {
    /// Starts to decode. The thread ends at the end of the input, or at the first batch that nothing receives; it can
    /// outlive this reader if it waits for a pipe.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start(frames: SavedFrames, input: &RecordedInput) -> Result<Self> {
        let (sender, batches) = sync_channel(BATCHES);
        let input = input.clone();
        let decoder = thread::Builder::new().name("decoder".to_owned());
        let decoder = decoder.spawn(move || decode(frames, &input, &sender)).context("cannot start a thread")?;
        Ok(Self { batches, frames: Vec::new().into_iter(), end: None, decoder: Some(decoder) })
    }

    /// The next frame; none after [`Frame::End`].
    ///
    /// # Errors
    /// Errors of [`SavedFrames::next`], after the frames before the error.
    pub fn next(&mut self) -> Result<Option<PlacedFrame>> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Ok(Some(frame));
            }
            if let Some(end) = self.end.take() {
                return end.map(|()| None);
            }
            let Ok(batch) = self.batches.recv() else {
                // It has sent its end before, or panicked.
                return match self.decoder.take().map(JoinHandle::join) {
                    Some(Err(panic)) => resume_unwind(panic),
                    _ => Ok(None),
                };
            };
            (self.frames, self.end) = (batch.frames.into_iter(), batch.end);
        }
    }
}

/// Sends all frames. A reading ends a batch: its report may be awaited while a pipe has nothing more yet.
fn decode(mut frames: SavedFrames, input: &RecordedInput, batches: &SyncSender<Batch>) {
    loop {
        let mut batch = Batch { frames: Vec::with_capacity(BATCH), end: None };
        while batch.frames.len() < BATCH {
            let frame = match frames.next(input) {
                Ok(Some(frame)) => frame,
                end => {
                    batch.end = Some(end.map(|_| ()));
                    break;
                }
            };
            let is_reading = matches!(frame, Frame::Reading(_));
            batch.frames.push((frame, if is_reading { frames.position() } else { None }));
            if is_reading {
                break;
            }
        }
        let is_last = batch.end.is_some();
        if batches.send(batch).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, path::PathBuf};

    use wakelat_core::recording::FrameOrder;

    use super::{super::SavedInput, *};
    use crate::{config::DEMO, session::open_input};

    fn frames(input: &RecordedInput) -> SavedFrames {
        SavedFrames::new(SavedInput::open(input).unwrap(), FrameOrder::ByTime)
    }

    /// All frames of `input` as text and the error at the end, decoded in this thread and in another one.
    fn both(input: &RecordedInput) -> [(Vec<String>, Option<String>); 2] {
        let (mut here, mut there) = (frames(input), DecodedAhead::start(frames(input), input).unwrap());
        let next = || here.next(input).map(|frame| frame.map(|frame| format!("{frame:?}")));
        let next_there = || there.next().map(|frame| frame.map(|(frame, _)| format!("{frame:?}")));
        [all(next), all(next_there)]
    }

    fn all(mut next: impl FnMut() -> Result<Option<String>>) -> (Vec<String>, Option<String>) {
        let mut frames = Vec::new();
        loop {
            match next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, None),
                Err(error) => return (frames, Some(format!("{error:#}"))),
            }
        }
    }

    #[test]
    fn another_thread_decodes_the_same_frames_up_to_the_same_error() {
        let whole = RecordedInput { paths: vec![PathBuf::from(DEMO)], ..RecordedInput::default() };
        let [here, there] = both(&whole);
        assert_eq!(here, there);
        assert!(here.0.len() > BATCH * BATCHES && here.1.is_none());

        let mut bytes = Vec::new();
        open_input::open(&PathBuf::from(DEMO)).unwrap().read_to_end(&mut bytes).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("damaged.wakelat");
        std::fs::write(&path, bytes).unwrap();
        let damaged = RecordedInput { paths: vec![path], is_strict: true, ..RecordedInput::default() };
        let [here, there] = both(&damaged);
        assert_eq!(here, there);
        assert!(here.0.len() > BATCH && here.1.is_some());
    }

    #[test]
    fn a_reader_that_has_enough_does_not_wait_for_the_rest() {
        let whole = RecordedInput { paths: vec![PathBuf::from(DEMO)], ..RecordedInput::default() };
        let mut frames = DecodedAhead::start(frames(&whole), &whole).unwrap();
        assert!(frames.next().unwrap().is_some());
        let decoder = frames.decoder.take().unwrap();
        drop(frames);
        decoder.join().unwrap();
    }
}
