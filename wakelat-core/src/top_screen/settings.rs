//! What the screens show, and how.

use crate::{files::Files, report::LatencyFrom};

/// What the screens show, and how.
#[derive(Clone, Debug)]
pub struct TopScreenSettings {
    /// Where the latency of a wakeup begins.
    pub from: LatencyFrom,
    /// Where the waits come from: the machine, or the name of the recording.
    pub source: String,
    /// The recordings that the waits are of.
    pub files: Files,
    /// The PIDs of wakelat itself.
    pub own_pids: Vec<u32>,
    /// Causes that are not separated from run time, in words.
    pub not_collected: Vec<&'static str>,
    /// Colours may be used.
    pub color: bool,
    /// Characters beyond ASCII may be used.
    pub unicode: bool,
}
