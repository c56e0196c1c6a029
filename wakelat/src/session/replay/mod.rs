//! Shows saved input, such as recordings, through a view, as [`super::run`] shows a measurement.

mod frames;
mod interactive;
mod kept_data;
mod read_progress;
mod recorded_config;
mod recorded_groups;
mod recorded_histograms;
mod recorded_measurement;
mod saved_frames;
mod saved_input;

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{
    StopReason, View, open_input,
    output::{Output, WriteResult},
};
use crate::config::Config;
use wakelat_core::recording::{Frame, FrameOrder};

pub use self::{
    frames::Replay,
    kept_data::check_has_events,
    recorded_config::{config_of, own_pids},
    recorded_measurement::LiveReplay,
    saved_input::SavedInput,
};
use self::{read_progress::ReadProgress, saved_frames::SavedFrames};

/// What an error of the input at `path` concerns.
pub fn unreadable(path: &Path) -> String {
    format!("cannot read {}", open_input::name(path))
}

/// Shows saved input through `view`. `config` is that of [`config_of`].
///
/// # Errors
/// If the input cannot be read, or is a recording that has a missing end and must not; if the output cannot be written.
pub fn replay(saved: SavedInput, config: &Config, view: &mut dyn View) -> Result<StopReason> {
    /// Text that is written at once: bytes.
    const MUCH: usize = 1 << 16;
    let input = config.input.as_ref().context("no recording is given")?;
    kept_data::check_view(&saved.headers(), view)?;
    if view.is_interactive() {
        return interactive::replay(saved, (config, input), view);
    }
    let mut output = Output::of(&config.output)?;
    let mut replay = Replay::new(config, input, &saved.headers(), view);
    let order = order(config);
    let mut progress = ReadProgress::new(config, saved.positions());
    let mut frames = SavedFrames::new(saved, order);
    let mut text = Vec::new();
    replay.begin(&mut text)?;
    loop {
        let frame = if replay.is_over() { None } else { frames.next(input)? };
        let is_last = frame.is_none();
        progress.show();
        // Only the view fails, if something besides its text cannot be written.
        let position = if matches!(frame, Some(Frame::Reading(_))) { frames.position() } else { None };
        let is_report = frame.map_or(Ok(false), |frame| replay.take(frame, position, &mut text))?;
        if is_last || is_report || text.len() >= MUCH {
            progress.clear();
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

/// The order of the frames of several recordings. An interval has the events of whole segments, to which its coverage
/// belongs.
fn order(config: &Config) -> FrameOrder {
    if config.window.interval_ns.is_some() { FrameOrder::BySegment } else { FrameOrder::ByTime }
}
