//! Shows saved input, such as a recording, through a view, as [`super::run`] shows a measurement.

mod frames;
mod recorded_config;
mod recorded_measurement;
mod saved_input;

use anyhow::{Context as _, Result};

use super::{
    StopReason, View, open_input,
    output::{Output, WriteResult},
};
use crate::config::{Config, RecordedInput};

use self::frames::Replay;
pub use self::{recorded_config::config_of, recorded_measurement::LiveReplay, saved_input::SavedInput};

/// What an error of the input concerns.
pub fn unreadable(input: &RecordedInput) -> String {
    format!("cannot read {}", open_input::name(&input.path))
}

/// Shows saved input through `view`. `config` is that of [`config_of`].
///
/// # Errors
/// If the input cannot be read, or is a recording that has a missing end and must not; if the output cannot be written.
pub fn replay(mut saved: SavedInput, config: &Config, view: &mut dyn View) -> Result<StopReason> {
    /// Text that is written at once: bytes.
    const MUCH: usize = 1 << 16;
    let input = config.input.as_ref().context("no recording is given")?;
    let mut output = Output::open(config.output.path.as_deref())?;
    let mut replay = Replay::new(config, input, saved.header(), view);
    let mut text = Vec::new();
    replay.begin(&mut text)?;
    loop {
        let frame = if replay.is_over() { None } else { saved.frame().with_context(|| unreadable(input))? };
        let is_last = frame.is_none();
        // Only the view fails, if something besides its text cannot be written.
        let is_report = frame.map_or(Ok(false), |frame| replay.take(frame, &mut text))?;
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
