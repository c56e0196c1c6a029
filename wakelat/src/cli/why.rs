//! `wakelat why`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ClassName, CommonFlags, FromEvent, GroupingFlags};
use crate::{
    config::{Config, ConfigError, Why, number},
    kernel::Machine,
};

const EXAMPLES: &str = "\
Examples:
  wakelat why -d 10s                       where the waits of all tasks went, over ten seconds
  wakelat why --comm 'nginx*' --worst 5    nginx alone, its five longest waits drawn
  wakelat why --by cgroup -d 1m            cgroup by cgroup
  wakelat why --threshold 1ms              waits of a millisecond or more
  wakelat why --comm nginx --stacks        with what woke it and where it slept
  wakelat why -d 10s --folded out.folded   for a flame graph of the waits
  wakelat why -d 5s --json                 for a program";

/// Where the time of waits went: parts that add up, who was in the way, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WhyFlags {
    /// Draw this many of the longest waits
    #[arg(long, value_name = "N", default_value = "3", value_parser = number::worst, allow_hyphen_values = true, help_heading = "Reasons")]
    worst: usize,

    /// What to tell from the task that has the CPU: noise (interrupts, softirqs), idle (C-states), quota (throttling,
    /// stolen time); forks (storms of new tasks), works (what kworkers did); or tasks, which is none of them. What is not
    /// told apart is not attached
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "noise,idle,quota,forks",
        hide_possible_values = true,
        help_heading = "Reasons"
    )]
    parts: Vec<PartName>,

    /// Below each of the longest waits, show where in its code whoever woke the task was, and where the task had left its CPU:
    /// waker, wakee [default where no list is given: both]. Costs 5 % of each CPU at most
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "waker,wakee",
        hide_possible_values = true,
        help_heading = "Reasons"
    )]
    stacks: Vec<StackName>,

    /// Write the stacks of all waits to a file, folded for a flame graph, with the ns that each took; takes --stacks in
    #[arg(long, value_name = "FILE", help_heading = "Reasons")]
    folded: Option<PathBuf>,

    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Something to tell from the task that has the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartName {
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

/// Whose stack to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackName {
    /// Whoever woke the task that waits
    Waker,
    /// The task that waits
    Wakee,
}

/// What is otherwise than in other commands: all waits are asked for, from the waker on, and nothing is counted in the
/// kernel.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    command
        .mut_arg("class", |arg| arg.default_value("wakeup,new,preempted"))
        .mut_arg("from", |arg| arg.default_value("waking"))
        .mut_arg("mode", |arg| arg.hide(true))
        .mut_arg("csv", |arg| arg.hide(true))
}

impl WhyFlags {
    pub(super) fn why(&self) -> Why {
        let with = |part| self.parts.contains(&part);
        let (noise, idle, quota) = (with(PartName::Noise), with(PartName::Idle), with(PartName::Quota));
        // To fold stacks they have to be taken.
        let both = self.stacks.is_empty() && self.folded.is_some();
        Why {
            worst: self.worst,
            noise,
            idle,
            quota,
            works: with(PartName::Works),
            forks: with(PartName::Forks),
            waker_stacks: both || self.stacks.contains(&StackName::Waker),
            wakee_stacks: both || self.stacks.contains(&StackName::Wakee),
            folded: self.folded.clone(),
        }
    }

    pub(super) fn config(mut self, machine: &Machine) -> Result<Config, ConfigError> {
        let wakes = |class: &ClassName| matches!(class, ClassName::Wakeup | ClassName::Runqueue);
        if !self.common.filter.class.iter().any(wakes) {
            // The default is for those that have one.
            self.common.filter.from = FromEvent::Wakeup;
        }
        let mut config = Config::new(&self.common, machine)?;
        config.set_reasons(&self.grouping, machine)?;
        Ok(config)
    }
}
