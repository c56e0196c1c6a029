//! The configuration of `events`.

use super::OutputConfig;

/// The configuration of `events`: which tracepoints are listed, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsConfig {
    /// A shell pattern for `SYSTEM:EVENT` or `EVENT`; matching tracepoints have their fields. None lists
    /// all tracepoints, without fields.
    pub glob: Option<String>,
    /// The tracefs instance whose state is shown; none for the top-level one.
    pub instance: Option<String>,
    /// List only tracepoints that are on, or have a trigger or a filter.
    pub enabled: bool,
    /// Print one line per system instead of one per tracepoint.
    pub systems: bool,
    /// How and where the list is written.
    pub output: OutputConfig,
}
