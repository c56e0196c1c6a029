//! Shows the progress of a run on a terminal.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use tokio::time::Instant;

use super::{clock::monotonic_ns, window_schedule::Schedule};
use crate::config::Config;
use wakelat_core::report::Mode;

/// How often the line is updated.
const EVERY: Duration = Duration::from_millis(500);

/// A line on standard error that overwrites itself, on a terminal only.
pub struct Progress {
    next_at: Option<Instant>,
    shown: bool,
    /// Waits are aggregated in the kernel: their number is unknown before the window ends.
    counted: bool,
}

impl Progress {
    /// Shows no progress if standard error is not a terminal, if reports appear at intervals, or with
    /// `--quiet`.
    pub fn new(config: &Config) -> Self {
        let counted = config.mode == Mode::Aggregate;
        let wanted = can_draw(config) && config.window.interval_ns.is_none();
        Self { next_at: wanted.then(|| Instant::now() + EVERY), shown: false, counted }
    }

    /// Updates the time and the number of samples if the next update is due.
    pub fn show(&mut self, schedule: &Schedule, samples: u64) {
        let now = Instant::now();
        let Some(next_at) = self.next_at.filter(|next_at| *next_at <= now) else { return };
        self.next_at = Some(next_at.max(now - EVERY) + EVERY);
        let passed = monotonic_ns().saturating_sub(schedule.began_at_ns()) as f64 / 1e9;
        let of = schedule.length_ns().map_or(String::new(), |length_ns| format!(" of {:.1}", length_ns as f64 / 1e9));
        let samples = if self.counted { String::new() } else { format!(", {samples} samples") };
        draw(&format!("{passed:.1}{of} s{samples}; press Ctrl-C to stop"));
        self.shown = true;
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            draw("");
        }
        self.next_at = None;
    }
}

/// Whether a line on standard error can overwrite itself, and is wanted.
pub fn can_draw(config: &Config) -> bool {
    // Such a terminal cannot overwrite a line.
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_dumb && !config.output.quiet
}

/// Replaces the line by `text`. Errors are ignored: if the terminal is gone, there is no reader.
pub fn draw(text: &str) {
    _ = std::io::stderr().write_all(format!("\r\x1b[K{text}").as_bytes());
}
