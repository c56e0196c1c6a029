//! Causes to separate from the run time of tasks.

use clap::{Args, ValueEnum};

use wakelat_core::recording::CollectedEvents;

use super::CliError;

/// Causes to separate from the run time of tasks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub(super) struct CollectFlags {
    /// Causes to separate from run time: irq (and softirq), idle (exit from C-states), throttling (and steal time),
    /// fork (fork bursts), workqueue (work items); or none
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
    /// Whether causes that are counted in the kernel have interrupts of their own.
    ///
    /// # Errors
    /// If others than `irq` and `none` are given: the kernel counts these itself, or nothing does.
    pub(super) fn counts_interrupts(&self) -> Result<bool, CliError> {
        if self.collect.iter().all(|choice| matches!(choice, CollectChoice::Irq | CollectChoice::None)) {
            return Ok(self.collect.contains(&CollectChoice::Irq));
        }
        let why = "`why --mode aggregate` can collect only `irq`; idle, throttling and steal time are always separate, and \
                   forks and work items need `--mode samples`";
        Err(CliError::Usage(format!("`--collect`: {why}")))
    }

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
