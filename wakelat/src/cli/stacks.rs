//! Whose stacks are shown, and where they are written.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::StacksConfig;
use wakelat_core::recording::MoreEvents;

/// Whose stacks are taken.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub(super) struct StacksFlag {
    /// Show two stacks of each of the longest waits: the waker's, and the task's own where it slept or was preempted
    /// [without LIST: waker,wakee]
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
}

/// Whose stacks are shown, and where they are written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub(super) struct StacksFlags {
    #[command(flatten)]
    stacks: StacksFlag,

    /// Write the stacks of all waits to a file, folded for flame graphs and weighted in ns; implies --stacks
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
}

/// Whose stack to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackName {
    /// The task that woke the waiting task
    Waker,
    /// The waiting task
    Wakee,
}

impl StacksFlag {
    /// The stacks that are recorded.
    pub(super) fn roles(&self) -> MoreEvents {
        let of = |name| self.stacks.contains(&name);
        MoreEvents { waker_stacks: of(StackName::Waker), wakee_stacks: of(StackName::Wakee), ..MoreEvents::default() }
    }
}

impl StacksFlags {
    pub(super) fn stacks(self) -> StacksConfig {
        let StacksFlag { stacks } = self.stacks;
        // Folded stacks need stacks: without a list, take both.
        let both = stacks.is_empty() && self.folded.is_some();
        let of = |name| both || stacks.contains(&name);
        StacksConfig { waker: of(StackName::Waker), wakee: of(StackName::Wakee), folded: self.folded }
    }
}
