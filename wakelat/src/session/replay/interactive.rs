//! Shows saved input through a view that draws on the whole terminal, until a key ends it.

use std::{
    io,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    super::{
        StopReason,
        output::{Output, WriteResult},
        screen::Screen,
        stop_reason::Signals,
        view::{InputAction, View},
        writer::OutputWriter,
    },
    Replay, SavedInput, order,
    read_progress::percent,
    saved_frames::SavedFrames,
};
use crate::config::{Config, RecordedInput};
use wakelat_core::recording::Frame;

/// Reading stops for keys after this time.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Frames between two looks at the clock: a small part of the time.
const FRAMES: u32 = 256;

/// How often the screen is looked at: for progress, and for a terminal that was busy.
const EVERY: Duration = Duration::from_millis(200);

/// Shows `saved` through `view`. The screen stays when everything has been read.
///
/// # Errors
/// As of [`super::replay`].
pub fn replay(
    saved: SavedInput,
    (config, input): (&Config, &RecordedInput),
    view: &mut dyn View,
) -> Result<StopReason> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    runtime.block_on(show(saved, (config, input), view))
}

async fn show(
    saved: SavedInput,
    (config, input): (&Config, &RecordedInput),
    view: &mut dyn View,
) -> Result<StopReason> {
    // Before signals are caught: it may wait for the reader of a FIFO.
    let output = Output::of(&config.output)?;
    let mut signals = Signals::catch(None)?;
    let mut output = OutputWriter::start(output, None)?;
    let files = saved.positions();
    let mut replay = Replay::new(config, input, &saved.headers(), view);
    let mut frames = SavedFrames::new(saved, order(config));
    replay.begin(&mut io::sink())?;
    let mut screen = Screen::open(replay.view(), &mut output)?;
    let mut look = interval(EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_read = false;
    let stop = loop {
        tokio::select! {
            biased;
            () = signals.first() => break StopReason::Signalled,
            event = Screen::next(&mut screen) => {
                let Some(screen) = &mut screen else { continue };
                if screen.handle(event, replay.view(), &mut output)? == InputAction::Quit {
                    break StopReason::Done;
                }
            }
            _ = look.tick() => if !is_read && !files.is_empty() {
                replay.view().reading(percent(files.iter().map(|file| file.now())));
            },
            () = std::future::ready(()), if !is_read => {
                let (is_report, is_last) = read(&mut frames, &mut replay, input)?;
                is_read = is_last;
                if is_report || is_last {
                    screen.iter_mut().for_each(Screen::set_stale);
                }
            }
        }
        if let Some(screen) = &mut screen
            && screen.draw(replay.view(), &mut output)? == WriteResult::NoReader
        {
            break StopReason::NoReader;
        }
        // Signals and keys arrive while it is polled.
        tokio::task::yield_now().await;
    };
    if let Some(screen) = screen {
        screen.close(replay.view(), &mut output)?;
    }
    output.finish()?;
    Ok(stop)
}

/// Reads frames for a short time. Returns whether there was a report among them, and whether everything has been read.
fn read(frames: &mut SavedFrames, replay: &mut Replay<'_>, input: &RecordedInput) -> Result<(bool, bool)> {
    let begun = Instant::now();
    let mut is_report = false;
    for number in 1_u32.. {
        let frame = if replay.is_over() { None } else { frames.next(input)? };
        let Some(frame) = frame else { return Ok((is_report, true)) };
        let position = if matches!(frame, Frame::Reading(_)) { frames.position() } else { None };
        // What stays on the terminal is written when the screen is closed.
        is_report |= replay.take(frame, position, &mut io::sink())?;
        if number.is_multiple_of(FRAMES) && begun.elapsed() >= AT_ONCE {
            break;
        }
    }
    Ok((is_report, false))
}
