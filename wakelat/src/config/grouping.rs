//! By what waits are grouped.

use super::ConfigError;
use crate::{
    aggregate::key::Key,
    cli::GroupingFlags,
    kernel::{Machine, cgroup, mounts},
};

/// The keys asked for, or those of the command where none was, as far as this machine has them.
pub(super) fn keys(flags: &GroupingFlags, default: &[Key], machine: &Machine) -> Result<Vec<Key>, ConfigError> {
    let keys = keys_anywhere(flags, default)?;
    let of_cgroups = keys.iter().find(|key| matches!(key, Key::Cgroup | Key::Container));
    if let Some(key) = of_cgroups
        && mounts::of_kind(&machine.mounts, cgroup::V2).next().is_none()
    {
        return Err(ConfigError::unmet(&format!("--by {}", key.name()), cgroup::CgroupError::NotMounted));
    }
    Ok(keys)
}

/// The same, wherever the waits were measured.
pub(super) fn keys_anywhere(flags: &GroupingFlags, default: &[Key]) -> Result<Vec<Key>, ConfigError> {
    let mut keys = Vec::new();
    for key in &flags.by {
        if keys.contains(key) {
            return Err(ConfigError::usage("--by", format!("`{}` is given twice; give it once", key.name())));
        }
        keys.push(*key);
    }
    for (asked, key) in [(flags.per_process, Key::Pid), (flags.per_thread, Key::Tid)] {
        if asked && !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        keys.extend_from_slice(default);
    }
    Ok(keys)
}
