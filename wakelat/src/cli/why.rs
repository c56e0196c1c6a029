//! `wakelat why`

use std::path::PathBuf;

use clap::{Args, Id};

use super::{
    ClassName, CliError, CommonFlags, FilterFlags, FromEvent, GroupingFlags, parts::CollectFlags, stacks::StacksFlags,
};
use crate::{
    config::{Command, Config, WhyConfig, WhyRecordedConfig, number},
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
  wakelat why -d 5s --json                 for a program
  wakelat why -i file.wakelat --by comm    of a recording, once more and by name";

/// Where the time of waits went: parts that add up, who was in the way, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WhyFlags {
    /// Draw this many of the longest waits
    #[arg(long, value_name = "N", default_value = "3", value_parser = number::worst, allow_hyphen_values = true, help_heading = "Reasons")]
    worst: usize,

    #[command(flatten)]
    collect: CollectFlags,

    #[command(flatten)]
    stacks: StacksFlags,

    /// Show a recording of `wakelat record` in place of what happens now; - is standard input
    #[arg(short, long, value_name = "FILE", help_heading = "Reasons")]
    input: Option<PathBuf>,

    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// What is otherwise than in other commands: all waits are asked for, from the waker on, and nothing is counted in the
/// kernel. A recording says who was measured, and for how long.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    let of_grouping = ["by", "per_process", "per_thread", "max_groups", "mode"];
    let of_output = ["json", "csv", "quiet", "timestamps", "output", "ascii", "color", "verbose", "help"];
    let of_view = of_grouping.iter().chain(&of_output).chain(&["worst", "input"]);
    let of_view: Vec<&str> = of_view.copied().collect();
    let ids = command.get_arguments().map(|arg| arg.get_id().clone()).filter(|id| !of_view.contains(&id.as_str()));
    let of_measurement: Vec<Id> = ids.collect();
    with_all_waits(command)
        .mut_arg("mode", |arg| arg.hide(true))
        .mut_arg("csv", |arg| arg.hide(true))
        .mut_arg("input", |arg| arg.conflicts_with_all(of_measurement))
}

/// All waits are asked for, from the waker on.
pub(super) fn with_all_waits(command: clap::Command) -> clap::Command {
    command
        .mut_arg("class", |arg| arg.default_value("wakeup,new,preempted"))
        .mut_arg("from", |arg| arg.default_value("waking"))
}

/// The default of where a wakeup starts is for those that have wakeups.
pub(super) fn adjust_from(filter: &mut FilterFlags) {
    let wakes = |class: &ClassName| matches!(class, ClassName::Wakeup | ClassName::Runqueue);
    if !filter.class.iter().any(wakes) {
        filter.from = FromEvent::Wakeup;
    }
}

impl WhyFlags {
    /// A recording where one is given; the machine is looked at only without.
    pub(super) fn command(mut self, machine: impl FnOnce() -> Result<Machine, CliError>) -> Result<Command, CliError> {
        if let Some(input) = &self.input {
            let recorded = WhyRecordedConfig::new(input, &self.grouping, self.worst, &self.common.output)?;
            return Ok(Command::WhyRecorded(recorded));
        }
        let stacks = self.stacks.stacks();
        if self.worst == 0 && (stacks.waker || stacks.wakee) && stacks.folded.is_none() {
            let why = "stacks stand below the longest waits, and `--worst 0` shows none";
            return Err(CliError::Usage(format!(
                "`--stacks`: {why}; show some, or write all stacks with `--folded FILE`"
            )));
        }
        adjust_from(&mut self.common.filter);
        let machine = machine()?;
        let mut config = Config::new(&self.common, &machine)?;
        config.set_why(&self.grouping, &machine)?;
        stacks.folded.as_deref().map_or(Ok(()), |folded| config.output.check_beside("--folded", folded))?;
        Ok(Command::Why(config, WhyConfig { worst: self.worst, collect: self.collect.collect(), stacks }))
    }
}
