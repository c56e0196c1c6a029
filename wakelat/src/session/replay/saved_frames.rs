//! The frames of saved input.

use std::path::Path;

use anyhow::{Context as _, Error, Result};

use super::{
    super::open_input::InputReader,
    saved_input::{SavedInput, TextReader},
    unreadable,
};
use crate::config::RecordedInput;
use wakelat_core::{
    recording::{FileError, Frame, FrameOrder, Position, Recording, Recordings},
    trace_text::TraceText,
};

/// Reads saved input frame by frame.
pub enum SavedFrames {
    /// One recording.
    One(Box<Recording<InputReader>>),
    /// Several recordings as one.
    Several(Recordings<InputReader>),
    /// The text of a trace.
    Text(Box<TraceText<TextReader>>),
}

impl SavedFrames {
    /// The frames of `saved`; those of several recordings in this order.
    pub fn new(saved: SavedInput, order: FrameOrder) -> Self {
        let mut recordings = match saved {
            SavedInput::Recordings(recordings) => recordings,
            SavedInput::Text(text) => return Self::Text(text),
        };
        match recordings.pop() {
            Some(only) if recordings.is_empty() => Self::One(Box::new(only)),
            last => {
                recordings.extend(last);
                Self::Several(Recordings::new(recordings, order))
            }
        }
    }

    /// The next frame; none after [`Frame::End`].
    ///
    /// # Errors
    /// If the input cannot be read; the error names the file.
    pub fn next(&mut self, input: &RecordedInput) -> Result<Option<Frame<'static>>> {
        let unreadable = |number: usize| unreadable(input.paths.get(number).map_or(Path::new("-"), |path| path));
        match self {
            Self::One(recording) => recording.frame().with_context(|| unreadable(0)),
            Self::Several(recordings) => {
                recordings.frame().map_err(|FileError { number, error }| Error::new(error).context(unreadable(number)))
            }
            Self::Text(text) => text.frame().with_context(|| unreadable(0)),
        }
    }

    /// How far several recordings have been read.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::One(_) | Self::Text(_) => None,
            Self::Several(recordings) => Some(recordings.position()),
        }
    }
}
