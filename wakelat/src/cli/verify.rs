//! `wakelat verify`

use clap::Args;

use super::{FilterFlags, FromEvent, OutputFlags, RenderFlags, ResourceFlags, TaskFlags};
use crate::{
    config::{ConfigError, VerifyConfig, span},
    kernel::Machine,
    verify::plant::InjectedError,
};

const EXAMPLES: &str = "\
Examples:
  wakelat verify                         all tasks, ten seconds
  wakelat verify -d 60s --comm 'nginx*'  some tasks, a minute
  wakelat verify --require-triggers -q   for scripts: fails at once without hist triggers

`--pid` selects the threads that a process has now.

Exit codes:
  0  the numbers agree
  1  failed; with --require-triggers: hist triggers cannot be used
  2  wrong usage
  3  the numbers do not agree
  4  not compared: no hist triggers in this kernel, or tracefs not mounted or closed;
     what else was compared agrees";

/// Measure the same window with BPF and with the kernel's own hist triggers, and compare
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyFlags {
    /// Measure for this long; a bare number is seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = span::seconds, allow_hyphen_values = true)]
    pub duration: u64,

    /// Which tasks, and where.
    #[command(flatten)]
    pub tasks: TaskFlags,

    /// Where the clock starts: on the run queue (wakeup), or with the waker (waking)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", hide_possible_values = true)]
    pub from: FromEvent,

    /// Fail at once if hist triggers cannot be used, instead of making only the checks that need none
    #[arg(long)]
    pub require_triggers: bool,

    /// One JSON document, integers in ns
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Nothing but the result
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Where, and how it is to look.
    #[command(flatten)]
    pub render: RenderFlags,

    /// Falsify wakelat's own side, to see that it is found: for tests alone
    #[arg(long, value_name = "ERROR", hide = true)]
    pub plant: Option<InjectedError>,

    /// What the measurement may take from the machine.
    #[command(flatten)]
    pub resources: ResourceFlags,
}

impl VerifyFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<VerifyConfig, ConfigError> {
        VerifyConfig::new(&self, machine)
    }

    /// Whom they select, in the words of the other commands. wakelat's own threads are measured too: no trigger can
    /// tell them.
    pub(crate) fn filter(&self) -> FilterFlags {
        FilterFlags { tasks: self.tasks.clone(), from: self.from, include_self: true, ..FilterFlags::default() }
    }

    /// How and where the result is shown, in the words of the other commands.
    pub(crate) fn output(&self) -> OutputFlags {
        OutputFlags { json: self.json, quiet: self.quiet, render: self.render.clone(), ..OutputFlags::default() }
    }
}
