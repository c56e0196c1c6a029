//! Whose stacks are shown, and where they are written.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::StacksConfig;

/// Whose stacks are shown, and where they are written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reasons")]
pub(super) struct StacksFlags {
    /// Below each of the longest waits, show where in its code whoever woke the task was, and where the task had left its CPU:
    /// waker, wakee [default where no list is given: both]. Costs 5 % of each CPU at most
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "waker,wakee",
        hide_possible_values = true
    )]
    stacks: Vec<StackName>,

    /// Write the stacks of all waits to a file, folded for a flame graph, with the ns that each took; takes --stacks in
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
}

/// Whose stack to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackName {
    /// Whoever woke the task that waits
    Waker,
    /// The task that waits
    Wakee,
}

impl StacksFlags {
    pub(super) fn stacks(self) -> StacksConfig {
        // To fold stacks they have to be taken.
        let both = self.stacks.is_empty() && self.folded.is_some();
        let of = |name| both || self.stacks.contains(&name);
        StacksConfig { waker: of(StackName::Waker), wakee: of(StackName::Wakee), folded: self.folded }
    }
}
