//! Grouping of waits.

use clap::{Args, ValueEnum};

use crate::config::{Config, ConfigError, GroupingConfig, keywords, number};
use wakelat_core::{aggregate::key::Key, report::Mode};
use wakelat_kernel::Machine;

/// Grouping of waits.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Grouping")]
pub struct GroupingFlags {
    /// Group by tid, pid, comm, cgroup, container, cpu, prio, policy, class, waker, component (what a
    /// task waited for), or file or host of a recording; comma-separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = keywords::key)]
    pub by: Vec<Key>,

    /// Group by process (same as --by pid)
    #[arg(short = 'P', long)]
    pub per_process: bool,

    /// Group by thread (same as --by tid)
    #[arg(short = 'L', long)]
    pub per_thread: bool,

    /// Maximum number of groups; those with the least waiting time are merged into (other)
    #[arg(long, value_name = "N", default_value = "16384", value_parser = number::groups, allow_hyphen_values = true)]
    pub max_groups: usize,

    /// Aggregate in the kernel (aggregate), in user space (samples), or wherever it is cheapest (auto)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true)]
    pub mode: ModeChoice,
}

/// Where to aggregate waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModeChoice {
    /// In the kernel if that is enough, otherwise in user space
    #[default]
    Auto,
    /// In the kernel: cheaper, percentiles within 3.2 %
    Aggregate,
    /// In user space, from a sample of each wait: percentiles to three digits
    Samples,
}

/// The keys of `--by`.
///
/// # Errors
/// If a key is given more than once.
pub(super) fn each_once(by: &[Key]) -> Result<Vec<Key>, ConfigError> {
    let mut keys = Vec::new();
    for key in by {
        if keys.contains(key) {
            let why = format!("`{}` is given more than once; give it once", key.name());
            return Err(ConfigError::usage("--by", why));
        }
        keys.push(*key);
    }
    Ok(keys)
}

impl GroupingFlags {
    /// The grouping given, by the keys of the command if none is given.
    ///
    /// # Errors
    /// If a key is given more than once.
    pub(super) fn config(&self, default: &[Key]) -> Result<GroupingConfig, ConfigError> {
        Ok(GroupingConfig { by: self.keys(default)?, max_groups: self.max_groups, mode: self.mode() })
    }

    /// Where waits are aggregated, if it is given.
    pub(super) fn mode(&self) -> Option<Mode> {
        match self.mode {
            ModeChoice::Auto => None,
            ModeChoice::Aggregate => Some(Mode::Aggregate),
            ModeChoice::Samples => Some(Mode::Samples),
        }
    }

    /// Groups the waits of `config`, by the keys of the command if none is given. Without a `machine`, the waits are recorded.
    ///
    /// # Errors
    /// Errors of [`Self::config`] and [`Config::set_grouping`].
    pub(super) fn apply(
        &self,
        default: &[Key],
        machine: Option<&Machine>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        config.set_grouping(self.config(default)?, machine)?;
        if !self.by.is_empty() || self.per_process || self.per_thread {
            config.require_recorded_keys();
        }
        Ok(())
    }

    fn keys(&self, default: &[Key]) -> Result<Vec<Key>, ConfigError> {
        let mut keys = each_once(&self.by)?;
        for (given, key) in [(self.per_process, Key::Pid), (self.per_thread, Key::Tid)] {
            if given && !keys.contains(&key) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            keys.extend_from_slice(default);
        }
        Ok(keys)
    }
}
