//! What `why` collects and shows.

use std::path::PathBuf;

use wakelat_core::recording::CollectedEvents;

/// What `why` collects and shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyConfig {
    /// Number of the longest waits whose timelines are shown.
    pub worst: usize,
    /// What is shown of the result.
    pub layout: WhyLayout,
    /// The causes to separate from the run time of tasks.
    pub collect: CollectedEvents,
    /// Whose stacks are shown.
    pub stacks: StacksConfig,
    /// The file that the result is also written to as HTML.
    pub report: Option<PathBuf>,
    /// The file that the causes are written to as a picture.
    pub svg: Option<PathBuf>,
}

/// What `why` shows as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyLayout {
    /// Findings, the components of each class, timelines, coverage.
    Report,
    /// The same with every table, and more culprits.
    Details,
    /// Findings, the distribution, the longest waits with their causes, and what to do next: on one screen.
    Overview,
}

/// Whose stacks are shown, and where they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StacksConfig {
    /// Stacks of wakers.
    pub waker: bool,
    /// Stacks of waiting tasks.
    pub wakee: bool,
    /// The file for folded stacks, if requested.
    pub folded: Option<PathBuf>,
}
