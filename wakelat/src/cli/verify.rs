//! `wakelat verify`

use clap::{Args, ValueEnum, builder::PossibleValue};

use super::{FilterFlags, OutputFlags, RenderFlags, ResourceFlags, TaskFlags};
use crate::config::{ConfigError, InjectedError, VerifyConfig, duration};
use wakelat_core::report::LatencyFrom;
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat verify                         all tasks, ten seconds
  wakelat verify -d 60s --comm 'nginx*'  some tasks, a minute
  wakelat verify --require-triggers -q   for scripts: fail at once without hist triggers

`--pid` selects the threads that the process has when the measurement starts.

Exit codes:
  0  the results agree
  1  failure; with --require-triggers also if there are no hist triggers
  2  wrong usage
  3  the results differ
  4  not compared with hist triggers: the kernel has none, or tracefs is not mounted or not
     accessible; the other checks agree";

/// Measure the same window with BPF and with the kernel's hist triggers, and compare the results
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyFlags {
    /// Measure for this long; a bare number is seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration::seconds, allow_hyphen_values = true)]
    pub duration: u64,

    /// Which tasks, and where.
    #[command(flatten)]
    pub tasks: TaskFlags,

    /// Start of a wakeup's latency: wakeup (sched_wakeup: the task is queued) or waking (sched_waking: the waker
    /// starts to wake it)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", hide_possible_values = true, help_heading = None::<&str>)]
    pub from: StartEvent,

    /// Fail at once without hist triggers, instead of running only the checks that need none
    #[arg(long, help_heading = None::<&str>)]
    pub require_triggers: bool,

    /// Print one JSON document, integers in ns
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Print only the result
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Destination and style.
    #[command(flatten)]
    pub render: RenderFlags,

    /// Inject an error into wakelat's own results, for tests
    #[arg(long, value_name = "ERROR", hide = true)]
    pub plant: Option<InjectedError>,

    /// Resources of the machine that the measurement uses.
    #[command(flatten)]
    pub resources: ResourceFlags,
}

/// The event that starts a wakeup's latency: one that a hist trigger also sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StartEvent {
    /// The task is on a run queue
    Wakeup,
    /// The waker begins to wake it
    Waking,
}

impl VerifyFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<VerifyConfig, ConfigError> {
        let (resources, notes) = self.resources.config(machine)?;
        let mut filter = self.filter().config(machine)?;
        filter.replace_processes(machine)?;
        let triggers = self.tasks.trigger_filter(filter.pids.clone())?;
        Ok(VerifyConfig {
            duration_ns: self.duration,
            from: match self.from {
                StartEvent::Wakeup => LatencyFrom::Wakeup,
                StartEvent::Waking => LatencyFrom::Waking,
            },
            filter,
            triggers,
            output: self.output().config()?,
            resources,
            notes,
            require_triggers: self.require_triggers,
            plant: self.plant,
        })
    }

    /// The filter, as flags of the other commands. Includes wakelat's own threads, because triggers
    /// cannot exclude them.
    fn filter(&self) -> FilterFlags {
        FilterFlags { tasks: self.tasks.clone(), include_self: true, ..FilterFlags::default() }
    }

    /// How and where the result is shown, as flags of the other commands.
    fn output(&self) -> OutputFlags {
        OutputFlags { json: self.json, quiet: self.quiet, render: self.render.clone(), ..OutputFlags::default() }
    }
}

impl ValueEnum for InjectedError {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Restart, Self::Lose, Self::Shift, Self::QueueClockLose, Self::QueueClockShift]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let name = match self {
            Self::Restart => "restart",
            Self::Lose => "lose",
            Self::Shift => "shift",
            Self::QueueClockLose => "queue-clock-lose",
            Self::QueueClockShift => "queue-clock-shift",
        };
        Some(name.into())
    }
}
