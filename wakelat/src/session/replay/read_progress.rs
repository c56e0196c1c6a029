//! Shows how much of saved input has been read, on a terminal.

use std::time::{Duration, Instant};

use super::super::{
    open_input::InputPosition,
    progress::{can_draw, draw},
};
use crate::config::Config;

/// Reading for less than this shows nothing.
const LONG: Duration = Duration::from_secs(1);

/// How often the line is updated.
const EVERY: Duration = Duration::from_millis(500);

/// Frames between two looks at the clock: a small part of either time.
const FRAMES: u32 = 256;

/// A line on standard error that overwrites itself, on a terminal only.
pub struct ReadProgress {
    files: Vec<InputPosition>,
    next_at: Instant,
    frames: u32,
    shown: bool,
}

impl ReadProgress {
    /// Shows nothing if standard error is not a terminal, with `--quiet`, or without `files`.
    pub fn new(config: &Config, files: Vec<InputPosition>) -> Self {
        let files = if can_draw(config) { files } else { Vec::new() };
        Self { files, next_at: Instant::now() + LONG, frames: 0, shown: false }
    }

    /// Updates the line if the next update is due. Called with each frame.
    pub fn show(&mut self) {
        self.frames = self.frames.wrapping_add(1);
        if self.files.is_empty() || !self.frames.is_multiple_of(FRAMES) || Instant::now() < self.next_at {
            return;
        }
        self.next_at = Instant::now() + EVERY;
        draw(&format!("reading: {} %", percent(self.files.iter().map(InputPosition::now))));
        self.shown = true;
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            draw("");
        }
    }
}

/// The part of all files that has been read, each given as its offset and length: percent, rounded down.
pub fn percent(files: impl Iterator<Item = (u64, u64)>) -> u128 {
    let add = |(read, all): (u128, u128), (at, length): (u64, u64)| (read + u128::from(at), all + u128::from(length));
    let (read, all) = files.fold((0, 0), add);
    read * 100 / all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_has_been_read_is_that_of_all_files() {
        assert_eq!(percent([].into_iter()), 0);
        assert_eq!(percent([(0, 10)].into_iter()), 0);
        assert_eq!(percent([(199, 200)].into_iter()), 99);
        assert_eq!(percent([(10, 10), (20, 110)].into_iter()), 25);
        assert_eq!(percent([(u64::MAX, u64::MAX); 3].into_iter()), 100);
    }
}
