//! What `hist` writes beside the chart.

use std::path::PathBuf;

use wakelat_core::recording::CollectedEvents;

/// What `hist` writes beside the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistConfig {
    /// The file that the waits and their causes are written to as HTML.
    pub report: Option<PathBuf>,
    /// The file that the chart is written to as a picture.
    pub svg: Option<PathBuf>,
    /// The causes to separate from the run time of tasks in that file.
    pub collect: CollectedEvents,
}
