//! `wakelat events`

use clap::Args;

use super::{OutputFlags, RenderFlags};
use crate::config::{ConfigError, EventsConfig};

const EXAMPLES: &str = "\
Examples:
  wakelat events                 all tracepoints, one per line
  wakelat events --systems       number of tracepoints per system, and how many are enabled
  wakelat events --enabled       tracepoints that are enabled, or have a trigger or filter
  wakelat events 'sched:*wak*'   matching tracepoints, with their fields
  wakelat events sched_switch    the tracepoint of this name in any system
  wakelat events 'kprobes:*'     the kprobe events of this machine";

/// List tracepoints: fields, whether they are enabled, filters and triggers
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct EventsFlags {
    /// Show only tracepoints that match this shell pattern for SYSTEM:EVENT or EVENT, with their fields
    glob: Option<String>,

    /// Show the state in this tracefs instance
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Show only tracepoints that are enabled, or have a trigger or a filter
    #[arg(long)]
    enabled: bool,

    /// Print one line per system instead of one per tracepoint
    #[arg(long, conflicts_with = "json")]
    systems: bool,

    /// Print one JSON document per tracepoint
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    render: RenderFlags,
}

impl EventsFlags {
    pub(super) fn config(self) -> Result<EventsConfig, ConfigError> {
        let Self { glob, instance, enabled, systems, json, render } = self;
        let output = OutputFlags { json, render, ..OutputFlags::default() }.config()?;
        Ok(EventsConfig { glob, instance, enabled, systems, output })
    }
}
