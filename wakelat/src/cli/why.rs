//! `wakelat why`

use std::path::PathBuf;

use clap::Args;

use super::{
    ClassName, CliError, CommonFlags, FilterFlags, FromEvent, GroupingFlags, RecordingFlags,
    collected_events::CollectFlags, grouping::ModeChoice, stacks::StacksFlags,
};
use crate::config::{Command, WhyConfig, WhyLayout, number};
use wakelat_core::recording::MoreEvents;
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat why -d 10s                       what all tasks waited for, over ten seconds
  wakelat why --comm 'nginx*' --worst 5    only nginx, with its five longest waits
  wakelat why --by cgroup -d 1m            a breakdown per cgroup
  wakelat why --mode aggregate -d 1h       causes aggregated in the kernel, at little cost
  wakelat why --threshold 1ms              only waits of a millisecond or more
  wakelat why --comm nginx --stacks        with the stacks of waker and wakee
  wakelat why -d 10s --folded out.folded   stacks for a flame graph of the waits
  wakelat why -d 5s --json                 JSON after five seconds
  wakelat why -i file.wakelat --by comm    a recording, grouped by name";

/// Explain waits: components that add up, the tasks and interrupts responsible, and remedies
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WhyFlags {
    /// Show the timelines of this many of the longest waits
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::worst, allow_hyphen_values = true, help_heading = "Analysis")]
    worst: usize,

    /// Print longer tables, and tables of interferers, preemptions and wakeup pairs
    #[arg(long, conflicts_with = "json", help_heading = "Analysis")]
    details: bool,

    #[command(flatten)]
    collect: CollectFlags,

    #[command(flatten)]
    stacks: StacksFlags,

    #[command(flatten)]
    recording: RecordingFlags,
    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,

    /// Also write the result as one HTML file, as `wakelat report` does
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,

    /// Also write the causes of each class and group as a picture (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
}

/// Changes the common flags: waits of all classes are measured, from `sched_waking` on, and nothing is
/// aggregated in the kernel.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    with_all_waits(command)
        .mut_arg("mode", |arg| {
            arg.help("Find causes from every switch (samples), or count them in the kernel by cgroup, container or comm (aggregate)")
                .default_value("samples")
        })
        .mut_arg("collect", |arg| {
            let help = arg.get_help().map(|help| format!("{help}. With --mode aggregate: irq, or none (the default)"));
            arg.help(help.unwrap_or_default())
        })
        .mut_arg("csv", |arg| arg.hide(true))
}

/// Sets the defaults to waits of all classes, from `sched_waking` on.
pub(super) fn with_all_waits(command: clap::Command) -> clap::Command {
    command
        .mut_arg("class", |arg| arg.default_value("wakeup,new,preempted"))
        .mut_arg("from", |arg| arg.default_value("waking"))
}

/// Resets the event that starts a wakeup's latency if no wakeups are measured: the default of `why` is
/// only for wakeups. The run queue's clock measures all classes.
pub(super) fn adjust_from(filter: &mut FilterFlags) {
    let wakes = |class: &ClassName| matches!(class, ClassName::Wakeup | ClassName::Runqueue);
    if filter.from != FromEvent::Queued && !filter.class.iter().any(wakes) {
        filter.from = FromEvent::Wakeup;
    }
}

impl WhyFlags {
    /// Counts causes in the kernel. Rejects flags that were `given` and need single waits.
    fn counted(
        self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<Command, CliError> {
        if given("from") && self.common.filter.from != FromEvent::Queued {
            let why = "`why --mode aggregate` always uses the run queue's own clock, `queued`; leave out `--from`, or \
                       use `--mode samples`";
            return Err(CliError::Usage(format!("`--from`: {why}")));
        }
        if let Some(flag) =
            ["worst", "details", "stacks", "folded", "report", "svg"].into_iter().find(|flag| given(flag))
        {
            let why = "`why --mode aggregate` keeps only sums, no single waits; leave it out, or use `--mode samples`";
            return Err(CliError::Usage(format!("`--{flag}`: {why}")));
        }
        let traces_interrupts = given("collect") && self.collect.counts_interrupts()?;
        let machine = machine()?;
        let mut common = self.common;
        common.filter.from = FromEvent::Queued;
        let mut config = common.config(&machine)?;
        config.traces_interrupts = traces_interrupts;
        let groups = config.set_why_counted(self.grouping.config(&[])?, &machine)?;
        Ok(Command::WhyCounted(config, groups))
    }

    /// Shows a recording if one is given; otherwise detects the machine and measures.
    pub(super) fn command(
        mut self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<Command, CliError> {
        if self.grouping.mode == ModeChoice::Aggregate {
            return self.counted(given, machine);
        }
        let stacks = self.stacks.stacks();
        if self.worst == 0 && (stacks.waker || stacks.wakee) && stacks.folded.is_none() {
            let why = "stacks are printed below the longest waits, and `--worst 0` prints none";
            return Err(CliError::Usage(format!(
                "`--stacks`: {why}; give a larger `--worst`, or write all stacks with `--folded FILE`"
            )));
        }
        adjust_from(&mut self.common.filter);
        let more = MoreEvents { waker_stacks: stacks.waker, wakee_stacks: stacks.wakee, ..MoreEvents::default() };
        let (mut config, machine) = self.recording.config(&self.common, Some(&self.collect), more, given, machine)?;
        config.set_why(self.grouping.config(&[])?, machine.as_ref())?;
        if stacks.waker {
            config.check_sees_wakeups("--stacks=waker", "the stacks of wakers")?;
        }
        let files = [("--folded", &stacks.folded), ("--report", &self.report), ("--svg", &self.svg)];
        config.check_written(files.map(|(flag, file)| (flag, file.as_deref())))?;
        Ok(Command::Why(
            config,
            WhyConfig {
                worst: self.worst,
                layout: if self.details { WhyLayout::Details } else { WhyLayout::Report },
                collect: self.collect.collect(),
                stacks,
                report: self.report,
                svg: self.svg,
            },
        ))
    }
}
