//! `wakelat record`

use clap::Args;

use super::{
    CommonFlags,
    parts::CollectFlags,
    why::{adjust_from, with_all_waits},
};
use crate::{
    config::{Config, ConfigError},
    kernel::Machine,
    recording::CollectedEvents,
};

const EXAMPLES: &str = "\
Examples:
  wakelat record -d 1m -o file.wakelat         everything that `why` is made of, for a minute
  wakelat why -i file.wakelat                  what it shows
  wakelat why -i file.wakelat --by cgroup      the same minute by cgroup
  ssh HOST wakelat record -d 10s -o - | wakelat why -i -   measured there, shown here";

/// Record to a file; look at it later, anywhere, with `why -i`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RecordFlags {
    #[command(flatten)]
    collect: CollectFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// What is otherwise than in other commands: as in `why`, and that there is a file.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    let hide = |command: clap::Command, id: &'static str| command.mut_arg(id, |arg| arg.hide(true));
    let command = ["json", "csv", "timestamps", "ascii", "color"].into_iter().fold(with_all_waits(command), hide);
    command.mut_arg("output", |arg| arg.required(true))
}

impl RecordFlags {
    pub(super) fn collect(&self) -> CollectedEvents {
        self.collect.collect()
    }

    pub(super) fn config(mut self, machine: &Machine) -> Result<Config, ConfigError> {
        adjust_from(&mut self.common.filter);
        let mut config = Config::new(&self.common, machine)?;
        config.set_recorded()?;
        Ok(config)
    }
}
