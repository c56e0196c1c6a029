//! What is told from the task that has the CPU.

use clap::{Args, ValueEnum};

use crate::recording::CollectedEvents;

/// What is told from the task that has the CPU.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reasons")]
pub(super) struct CollectFlags {
    /// Which causes to separate from run time: noise (interrupts, softirqs), idle (C-states), quota (throttling, stolen
    /// time), forks (storms of new tasks), works (what kworkers did); or tasks, for none. Probes for the others are not attached
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "noise,idle,quota,forks",
        hide_possible_values = true
    )]
    parts: Vec<CollectChoice>,
}

/// Something to tell from the task that has the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CollectChoice {
    /// Nothing
    Tasks,
    /// Interrupts and softirqs
    Noise,
    /// C-states
    Idle,
    /// Throttling and stolen time
    Quota,
    /// Storms of new tasks
    Forks,
    /// The functions of kworkers
    Works,
}

impl CollectFlags {
    pub(super) fn collect(&self) -> CollectedEvents {
        let with = |part| self.parts.contains(&part);
        CollectedEvents {
            irq: with(CollectChoice::Noise),
            idle: with(CollectChoice::Idle),
            throttling: with(CollectChoice::Quota),
            workqueue: with(CollectChoice::Works),
            fork: with(CollectChoice::Forks),
        }
    }
}
