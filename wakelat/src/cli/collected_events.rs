//! Causes to separate from the run time of tasks.

use clap::{Args, ValueEnum};

use wakelat_core::recording::CollectedEvents;

/// Causes to separate from the run time of tasks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub(super) struct CollectFlags {
    /// Events to collect, so that their time is a cause of its own instead of run time of the task that they interrupt:
    /// irq (and softirq), idle (exit from C-states), throttling (and steal), fork, workqueue; or none
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "irq,idle,throttling,fork",
        hide_possible_values = true
    )]
    collect: Vec<CollectChoice>,
}

/// What is collected by default.
pub(super) const DEFAULT: CollectedEvents =
    CollectedEvents { irq: true, idle: true, throttling: true, workqueue: false, fork: true };

/// A cause to separate from the run time of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CollectChoice {
    /// No cause
    None,
    /// IRQs and softirqs
    Irq,
    /// Exit from C-states
    Idle,
    /// Throttling and steal time
    Throttling,
    /// Fork bursts
    Fork,
    /// Work items of workqueues
    Workqueue,
}

impl CollectFlags {
    pub(super) fn collect(&self) -> CollectedEvents {
        let with = |choice| self.collect.contains(&choice);
        CollectedEvents {
            irq: with(CollectChoice::Irq),
            idle: with(CollectChoice::Idle),
            throttling: with(CollectChoice::Throttling),
            workqueue: with(CollectChoice::Workqueue),
            fork: with(CollectChoice::Fork),
        }
    }
}
