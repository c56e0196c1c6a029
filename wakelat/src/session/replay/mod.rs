//! Shows a recording through a view, as [`super::run`] shows a measurement.

mod frames;
mod recorded_config;
mod recorded_measurement;

use std::path::Path;

use anyhow::{Context as _, Error, Result};

use super::{
    StopReason, View,
    open_input::{self, RecordingInput},
    output::{Output, WriteResult},
};
use crate::config::{Config, RecordedInput};
use wakelat_core::recording::{FileError, Frame, FrameOrder, Header, Position, Recording, Recordings};

use self::frames::Replay;
pub use self::{
    recorded_config::{config_of, own_pids},
    recorded_measurement::LiveReplay,
};

/// What an error of the input at `path` concerns.
pub fn unreadable(path: &Path) -> String {
    format!("cannot read {}", open_input::name(path))
}

/// One recording, or several.
enum Recorded {
    One(Box<Recording<RecordingInput>>),
    Several(Recordings<RecordingInput>),
}

impl Recorded {
    fn new(mut recordings: Vec<Recording<RecordingInput>>, order: FrameOrder) -> Self {
        match recordings.pop() {
            Some(only) if recordings.is_empty() => Self::One(Box::new(only)),
            last => {
                recordings.extend(last);
                Self::Several(Recordings::new(recordings, order))
            }
        }
    }

    /// The next frame.
    fn frame(&mut self, input: &RecordedInput) -> Result<Option<Frame<'static>>> {
        let unreadable = |number: usize| unreadable(input.paths.get(number).map_or(Path::new("-"), |path| path));
        match self {
            Self::One(recording) => recording.frame().with_context(|| unreadable(0)),
            Self::Several(recordings) => {
                recordings.frame().map_err(|FileError { number, error }| Error::new(error).context(unreadable(number)))
            }
        }
    }

    /// How far several recordings have been read.
    fn position(&self) -> Option<Position> {
        match self {
            Self::One(_) => None,
            Self::Several(recordings) => Some(recordings.position()),
        }
    }
}

/// Shows recordings through `view`. `config` is that of [`config_of`].
///
/// # Errors
/// If a recording cannot be read, or has a missing end and must not; if the output cannot be written.
pub fn replay(recordings: Vec<Recording<RecordingInput>>, config: &Config, view: &mut dyn View) -> Result<StopReason> {
    /// Text that is written at once: bytes.
    const MUCH: usize = 1 << 16;
    let input = config.input.as_ref().context("no recording is given")?;
    let mut output = Output::open(config.output.path.as_deref())?;
    let headers: Vec<&Header> = recordings.iter().map(Recording::header).collect();
    let mut replay = Replay::new(config, input, &headers, view);
    // An interval has the events of whole segments, to which its coverage belongs.
    let order = if config.window.interval_ns.is_some() { FrameOrder::BySegment } else { FrameOrder::ByTime };
    let mut recorded = Recorded::new(recordings, order);
    let mut text = Vec::new();
    replay.begin(&mut text)?;
    loop {
        let frame = if replay.is_over() { None } else { recorded.frame(input)? };
        let is_last = frame.is_none();
        // Only the view fails, if something besides its text cannot be written.
        let position = if matches!(frame, Some(Frame::Reading(_))) { recorded.position() } else { None };
        let is_report = frame.map_or(Ok(false), |frame| replay.take(frame, position, &mut text))?;
        if is_last || is_report || text.len() >= MUCH {
            let written = output.write(|out| out.write_all(&text))?;
            text.clear();
            if written == WriteResult::NoReader {
                return Ok(StopReason::NoReader);
            }
        }
        if is_last {
            return Ok(StopReason::Done);
        }
    }
}
