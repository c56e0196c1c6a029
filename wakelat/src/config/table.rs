//! The table of `top`, and whether it is shown.

use wakelat_core::{recording::CollectedEvents, render::top_table::Sort, report::Mode};

/// The table of `top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// The column to sort by.
    pub sort: Sort,
    /// Maximum number of rows; none for as many as the terminal has.
    pub limit: Option<usize>,
    /// Show only the last interval, instead of everything since the start.
    pub last_only: bool,
    /// Print the table also on a terminal, instead of the interactive screens.
    pub batch: bool,
    /// A flag was given that only a table has.
    pub flag: Option<&'static str>,
    /// Where waits are aggregated, if that was given.
    pub mode: Option<Mode>,
    /// The causes to separate from the run time of tasks, on the interactive screens.
    pub collect: CollectedEvents,
}
