//! Grouping of waits.

use super::ConfigError;
use wakelat_core::{aggregate::key::Key, report::Mode};
use wakelat_kernel::{Machine, cgroup, mounts};

/// Grouping of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupingConfig {
    /// Grouping keys, in this order, each at most once; empty for one group per class.
    pub by: Vec<Key>,
    /// Number of groups that are kept before further ones are merged into one.
    pub max_groups: usize,
    /// Where waits are aggregated; none for where it is cheapest.
    pub mode: Option<Mode>,
}

impl GroupingConfig {
    /// Whether the cgroup v2 hierarchy is mounted.
    pub(super) fn has_cgroups(machine: &Machine) -> bool {
        mounts::of_kind(&machine.mounts, cgroup::V2).next().is_some()
    }

    /// Checks that waits measured on this machine have these keys.
    pub(super) fn check_available(&self, machine: &Machine) -> Result<(), ConfigError> {
        if let Some(key) = self.by.iter().find(|key| key.is_of_recordings()) {
            let why = format!("only recordings have `{}`; give them with `--input`, or leave the key out", key.name());
            return Err(ConfigError::usage("--by", why));
        }
        let of_cgroups = self.by.iter().find(|key| matches!(key, Key::Cgroup | Key::Container));
        if let Some(key) = of_cgroups
            && !Self::has_cgroups(machine)
        {
            return Err(ConfigError::unmet(&format!("--by {}", key.name()), cgroup::CgroupError::NotMounted));
        }
        Ok(())
    }
}
