//! How far a run is, for whoever waits at a terminal.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use tokio::time::Instant;

use super::{clock::monotonic_ns, schedule::Schedule};
use crate::{config::Config, report::Mode};

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(500);

/// A line on standard error that is written over, on a terminal only.
pub struct Progress {
    next_at: Option<Instant>,
    shown: bool,
    /// Nobody knows how many there are before the window ends.
    counted: bool,
}

impl Progress {
    /// Silent where nobody would see it, where lines come anyway, or where quiet was asked for.
    pub fn new(config: &Config) -> Self {
        // Such a terminal cannot write over a line.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let counted = config.mode == Mode::Aggregate;
        let wanted =
            std::io::stderr().is_terminal() && !is_dumb && !config.output.quiet && config.window.interval_ns.is_none();
        Self { next_at: wanted.then(|| Instant::now() + EVERY), shown: false, counted }
    }

    /// Shows the time and the number of samples so far, if it is time to.
    pub fn show(&mut self, schedule: &Schedule, samples: u64) {
        let now = Instant::now();
        let Some(next_at) = self.next_at.filter(|next_at| *next_at <= now) else { return };
        self.next_at = Some(next_at.max(now - EVERY) + EVERY);
        let passed = monotonic_ns().saturating_sub(schedule.began_at_ns()) as f64 / 1e9;
        let of = schedule.length_ns().map_or(String::new(), |length_ns| format!(" of {:.1}", length_ns as f64 / 1e9));
        let samples = if self.counted { String::new() } else { format!(", {samples} samples") };
        draw(&format!("{passed:.1}{of} s{samples}; Ctrl-C ends it"));
        self.shown = true;
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            draw("");
        }
        self.next_at = None;
    }
}

/// Puts `text` in the place of what the line was. The terminal may have gone, and nobody with it looks.
fn draw(text: &str) {
    _ = std::io::stderr().write_all(format!("\r\x1b[K{text}").as_bytes());
}
